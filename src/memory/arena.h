/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena - packs small allocations of one context and tag into shared
 * segments, so that rounding to the granularity costs little.
 *
 * An arena segment reserves a long address range and backs it from the front
 * in chunks that grow with the arena.  Free space is kept in bins by size; it
 * never reaches into a chunk without content.  A chunk with no allocation
 * goes back to the device in a while (spare.h), but for a few MiB kept for the
 * next request.
 * Segments that sleep are left alone: a request then gets a fresh one.
 *
 * Data under SEGMENT; one grower at a time under GROW, which is held across
 * its driver calls.
 */
#ifndef VS_MEMORY_ARENA_H
#define VS_MEMORY_ARENA_H

#include "memory/segment.h"

/* Requests up to this many bytes belong in an arena. */
#define VS_ARENA_MAX ((size_t)16 << 20)
/* What allocations hold to; tests lower it. */
extern size_t vs_arena_max;

/* Called without locks.  The block is live, in the table, and backed.  The
 * first makes no driver call, and may find no space. */
bool vs_arena_take(CUdevice device, CUcontext context, int tag, size_t size,
		   CUdeviceptr *out);
enum vs_status vs_arena_alloc(CUdevice device, CUcontext context, int tag,
			      size_t size, CUdeviceptr *out,
			      struct vs_why *why);

/* The space of @block, which has left the table, is free again, and the pin
 * of its segment is given back.  Called without locks; frees @block. */
void vs_arena_free(struct vs_block *block);

/* Give back every chunk of @device that holds no allocation. */
void vs_arena_trim(CUdevice device);

/* Give back what frees could not while an operation held the segments. */
void vs_arena_sweep(void);

/* Lock held; dropped meanwhile.  Give back the chunks that hold no allocation
 * since @before, but for a few MiB.  True if others hold none. */
bool vs_arena_idle(double before);

/* Bytes of @device backed and holding no allocation, in arenas and elsewhere;
 * lock held. */
size_t vs_arena_spare(CUdevice device);

/* With the lock held: the live block at or before @address in its segment. */
struct vs_block *vs_arena_find_inside(struct vs_segment *segment,
				      CUdeviceptr address);

/* With the lock held: take all live blocks out of the table, or put those
 * back that were. */
void vs_arena_hide(struct vs_segment *segment, bool hidden);

/* Free the host memory of a part and its blocks; lock not held, or the
 * segment has left the table. */
void vs_arena_forget(struct vs_arena_part *part);

#endif
