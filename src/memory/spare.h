/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spare - freed memory is kept for a moment, for the next allocation of its
 * context, tag and size: a pair of allocation and free then maps nothing.
 *
 * Kept are segments of large allocations here and chunks without allocations
 * in arenas, at most VS_SPARE_MAX bytes of a device, still mapped.  They go
 * back when an allocation finds no memory, at a sleep, with their context, and
 * once they have not been used for VS_SPARE_TIME.  Until then a program that
 * touches what it has freed may go unnoticed.
 *
 * A segment that is spare stays in the table, where it counts as resident, and
 * is no allocation: its chunks have no blocks.  What other processes or a NIC
 * may know is not kept, nor is what pools have, which keep it themselves.
 *
 * Data under SEGMENT.
 */
#ifndef VS_MEMORY_SPARE_H
#define VS_MEMORY_SPARE_H

#include "memory/segment.h"

#define VS_SPARE_MAX ((size_t)512 << 20)	/* bytes of a device */
#define VS_SPARE_TIME 0.1			/* seconds */

/* With the lock held.  @segment, whose allocation has left the table and whose
 * pin is the caller's alone, is spare from now on; false: it shall go. */
bool vs_spare_put(struct vs_segment *segment);

/* Without the lock, in RELAXED capture mode: give back what is more than a
 * device may keep, the oldest first; or all of @device. */
void vs_spare_limit(CUdevice device);
void vs_spare_trim(CUdevice device);

/* Without the lock: a live allocation of @size bytes in a spare that fits. */
bool vs_spare_take(CUdevice device, CUcontext context, int tag, size_t size,
		   CUdeviceptr *out);

/* With the lock held: a spare goes with its context, or comes back; nothing
 * for other segments. */
void vs_spare_leave(struct vs_segment *segment);
void vs_spare_return(struct vs_segment *segment);

/* With the lock held: an arena keeps more than it would for long. */
void vs_spare_watch(void);

/*
 * Something is spare that nobody watches: true once, then somebody has to call
 * vs_spare_idle until it says 0.  Else it is when to call again, in seconds of
 * CLOCK_MONOTONIC.
 */
bool vs_spare_unwatched(void);
double vs_spare_idle(double now);

/* Without the lock: whoever looks how much memory there is, or wants all of it,
 * waits for what is just going back in time, here or of pools, and nothing
 * begins to meanwhile. */
void vs_spare_stop(void);
void vs_spare_go_on(void);

#endif
