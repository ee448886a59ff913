/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed_move - moves managed memory to the host and back.
 *
 * Operation thread, the devices at rest; no lock.
 */
#ifndef VS_MEMORY_MANAGED_MOVE_H
#define VS_MEMORY_MANAGED_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/context.h"
#include "memory/managed_pages.h"

#define VS_MANAGED_NOWHERE ((CUdevice)-1)

struct vs_managed_mover {
	struct vs_context *contexts[VS_CONTEXT_MAX];	/* pinned, one for each
							   device that moves */
	size_t room[VS_CONTEXT_MAX];	/* wake: what may still go there */
	int count;
	const char *obstacle;	/* none does, for this reason; or NULL */
	struct vs_managed_pages pages;
};

void vs_managed_mover_begin(struct vs_managed_mover *mover);
void vs_managed_mover_end(struct vs_managed_mover *mover);

/* How much of it a device may have, bytes: what the host does not have, and
 * all of it where that says nothing. */
size_t vs_managed_move_weigh(const struct vs_managed_mover *mover,
			     CUdeviceptr base, size_t size, bool read_mostly);

/* The device that memory allocated in @context is most likely on: where the
 * program has had it brought last, else where it wants it, else the context's.
 * To be asked before it is moved. */
CUdevice vs_managed_move_home(const struct vs_managed_mover *mover,
			      CUcontext context, CUdeviceptr base,
			      size_t size);

/* To the host.  On failure, with @why, some of it may be there. */
enum vs_status vs_managed_move_out(struct vs_managed_mover *mover,
				   CUdeviceptr base, size_t size,
				   bool read_mostly, struct vs_why *why);

/*
 * The driver keeps the device memory of what it has moved to the host until
 * somebody needs it, and counts it as used.  So there is room for what is
 * free and for the @away bytes that were moved from there.
 */
void vs_managed_move_plan(struct vs_managed_mover *mover, int index,
			  size_t away);
size_t vs_managed_move_room(const struct vs_managed_mover *mover,
			    CUdevice device);

/* To @device, which has room for it; how much has come. */
size_t vs_managed_move_back(struct vs_managed_mover *mover, CUdeviceptr base,
			    size_t size, CUdevice device, bool read_mostly);

#endif
