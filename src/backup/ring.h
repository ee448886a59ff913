/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring - copies between a device and what it cannot reach: pageable memory,
 * or the spill.
 *
 * They go through slots of pinned memory, which counts as host memory; threads
 * of the ring's do what is beyond the slots.  A ring is for one thread, whose
 * current context is the ring's from open to close.  After a failure it moves
 * nothing more.  Each ring has its lock, of rank POOL.
 */
#ifndef VS_BACKUP_RING_H
#define VS_BACKUP_RING_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "base/cuda.h"
#include "base/why.h"

struct vs_ring;

/* Host memory that a ring takes, at most and at least; bytes. */
#define VS_RING_MOST ((size_t)128 << 20)
#define VS_RING_LEAST ((size_t)16 << 20)

/* The far side of a copy. */
struct vs_far {
	void *memory;	/* NULL: in the spill */
	uint32_t slot;	/* of the spill */
};

/* @context is pinned; @stream is one of it.  @most: host memory that it may
 * take, if that is enough.  VS_NOHOST: no pinned memory, or no threads. */
enum vs_status vs_ring_open(struct vs_context *context, CUstream stream,
			    size_t most, struct vs_ring **out,
			    struct vs_why *why);

/*
 * Begin to move @size bytes, 1 to VS_PAGE.  Waits while all slots are in use.
 * @from and @to must stay as they are until the drain, and on a failure the
 * device's side until the close.  In: not in the order of the stream.
 */
enum vs_status vs_ring_out(struct vs_ring *ring, CUdeviceptr from,
			   size_t size, struct vs_far to, struct vs_why *why);
enum vs_status vs_ring_in(struct vs_ring *ring, struct vs_far from,
			  CUdeviceptr to, size_t size, struct vs_why *why);

/* Wait until all has arrived.  Of the failures since the open the first is
 * told, by this and all later calls. */
enum vs_status vs_ring_drain(struct vs_ring *ring, struct vs_why *why);

/* Waits for what is under way: also after a failure no copy is in flight
 * then, and no far side is touched. */
void vs_ring_close(struct vs_ring *ring);

#endif
