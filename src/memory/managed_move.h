/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed_move - moves pieces of managed memory to the host and back.
 *
 * Operation thread, the devices at rest; no lock.
 */
#ifndef VS_MEMORY_MANAGED_MOVE_H
#define VS_MEMORY_MANAGED_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/context.h"

struct vs_managed_mover {
	struct vs_context *contexts[VS_CONTEXT_MAX];	/* pinned, one for each
							   device that moves */
	int count;
	const char *obstacle;	/* none does, for this reason; or NULL */
};

void vs_managed_mover_begin(struct vs_managed_mover *mover);
void vs_managed_mover_end(struct vs_managed_mover *mover);

/* To the host: so many bytes left the devices, most of them *device.  On
 * failure, with @why, some may have. */
enum vs_status vs_managed_move_out(struct vs_managed_mover *mover,
				   CUdeviceptr base, size_t size,
				   bool read_mostly, size_t *left,
				   CUdevice *device, struct vs_why *why);

/* To @device: so many bytes came.  False when it has too little memory free,
 * or does not do it. */
bool vs_managed_move_back(struct vs_managed_mover *mover, CUdeviceptr base,
			  size_t size, CUdevice device, size_t *came);

#endif
