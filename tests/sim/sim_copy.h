/* SPDX-License-Identifier: Apache-2.0 */
/* sim_copy - copies of one, two and three dimensions, and what fills memory. */
#ifndef VS_TESTS_SIM_COPY_H
#define VS_TESTS_SIM_COPY_H

#include "sim_internal.h"

struct sim_side {
	uintptr_t at;
	size_t pitch;
	size_t slice;
	bool device;		/* the call names device memory */
	struct sim_ctx *ctx;	/* NULL: the stream's */
};

struct sim_copy {
	struct sim_side dst, src;
	size_t width, height, depth;
	bool sync;
};

/* Check, queue, and wait where the driver waits. */
CUresult sim_copy(struct sim_line *line, const struct sim_copy *c);
struct sim_op *sim_op_copy(const struct sim_copy *c, bool staged);
CUresult sim_copy_check(struct sim_ctx *ctx, const struct sim_copy *c,
			bool *dst_pageable, bool *src_pageable);
struct sim_op *sim_op_set(uintptr_t at, size_t pitch, unsigned element,
			  unsigned value, size_t width, size_t height);

/* sim_copy3d.c: the copy of a memcpy node */
CUresult sim_copy_from_3d(struct sim_ctx *ctx, const CUDA_MEMCPY3D *p,
			  struct sim_op **out);

#endif
