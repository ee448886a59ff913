/* SPDX-License-Identifier: Apache-2.0 */
/* life_bytes - the blocks of a life, and what is in them. */
#ifndef VS_TESTS_LIFE_BYTES_H
#define VS_TESTS_LIFE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cuda.h"

struct life_block {
	CUdeviceptr base;
	size_t size;
	const char *tag;
	CUcontext context;
	uint32_t seed;
	bool zero;	/* its content has been dropped, */
	bool mixed;	/* but perhaps not everywhere */
};

void life_fill(const struct life_block *block);
/* Ends the process where a byte is wrong. */
void life_look_at_bytes(const struct life_block *block);

#endif
