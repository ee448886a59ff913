/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool - stream-ordered memory: what cuMemAllocAsync, cuMemFreeAsync and the
 * memory pools mean here.
 *
 * A pool of ours is a pool of the driver's that gives no memory.  Its memory
 * lies in segments that belong to no context, so it outlives all of them, a
 * reset too, as the driver's own does.  What is freed is kept with its stream
 * (pool_cache) and goes to the next request of that stream at once; to others
 * when the device has surely come so far (pool_stream).  It goes back to the
 * device when the pool has not been used for a while, as far as its threshold
 * lets it; when memory is short; at trims and sleeps.
 *
 * Native stay: captures, whose allocations are the graph's; pools that can be
 * shared with another process or lie on the host; devices without virtual
 * memory management; the tag for native memory.
 *
 * Pools are under SEGMENT.  The calls are made on program threads without
 * locks; those that allocate are inside the gate.
 */
#ifndef VS_MEMORY_POOL_H
#define VS_MEMORY_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/pool_stream.h"
#include "base/cuda.h"

struct vs_block;
struct vs_pool_bin;

struct vs_pool {
	CUmemoryPool handle;
	CUdevice device;
	bool native;		/* its memory is the driver's */
	bool is_default;
	bool destroyed;		/* its last allocation ends it */
	int opportunistic, depend;	/* reuse, as the program set it */
	uint64_t threshold;
	size_t max_size;	/* 0: none */
	size_t used, used_high;	/* bytes of live allocations */
	size_t reserved, reserved_high;		/* and of what is kept */
	size_t cached;		/* of these, free */
	size_t users;		/* live allocations, and calls at work */
	unsigned long uses, uses_seen;
	uint64_t old;		/* last free, in any pool, when it was */
	double old_since;	/* looked at: what was kept then and
				   still is, is old */
	struct vs_pool_bin *bins;
	struct vs_pool *next;
};

/* Whose: @pool's, if @named, else the current one's of the stream's device. */
struct vs_pool_ask {
	size_t size;
	bool named;
	CUmemoryPool pool;
	CUstream stream;
	bool per_thread;
};

/* False: the driver is to be asked, and *rc is untouched. */
bool vs_pool_alloc(const struct vs_pool_ask *ask, CUdeviceptr *out,
		   CUresult *rc);
bool vs_pool_free(CUdeviceptr base, CUstream stream, bool per_thread,
		  CUresult *rc);
/* cuMemFree of @block, which has left the table, and its segment pinned. */
void vs_pool_free_taken(struct vs_block *block);

/* After the driver's success; around cuMemPoolDestroy; when another pool may
 * have become the current one of a device. */
void vs_pool_created(CUmemoryPool handle, const CUmemPoolProps *props);
struct vs_pool *vs_pool_leave(CUmemoryPool handle);
void vs_pool_left(struct vs_pool *pool, CUresult result);
void vs_pool_switched(void);

/* What the driver answers, and ours with it. */
CUresult vs_pool_get(CUmemoryPool handle, CUmemPool_attribute attribute,
		     void *value);
CUresult vs_pool_set(CUmemoryPool handle, CUmemPool_attribute attribute,
		     void *value);
CUresult vs_pool_trim(CUmemoryPool handle, size_t keep);

/* The device is short of memory: wait for frees and give back what is kept. */
void vs_pool_make_room(CUdevice device);
/* The program is at rest: give back all that is kept. */
void vs_pool_settle(void);

/* With the lock held: bytes of @device that are kept. */
size_t vs_pool_spare(CUdevice device);

/*
 * Something is kept that nobody watches: true once, then somebody has to call
 * vs_pool_idle until it says 0, which ends the watch.  Else it is when to call
 * again, in seconds of CLOCK_MONOTONIC; meanwhile unused pools give back.
 */
bool vs_pool_unwatched(void);
double vs_pool_idle(double now);

/* For pool_ask and pool_room.  With the lock held: the pool, or NULL; the
 * current one of a device, as far as it is known. */
struct vs_pool *vs_pool_find(CUmemoryPool handle);
struct vs_pool *vs_pool_current(CUdevice device);
/* Without: the same from the driver, in use until vs_pool_drop. */
struct vs_pool *vs_pool_learn(const struct vs_pool_ask *ask, CUdevice device);
/* With the lock held: may end it; it keeps more than it should. */
void vs_pool_drop(struct vs_pool *pool);
void vs_pool_watch(const struct vs_pool *pool);
/* The first pool; the others by next. */
struct vs_pool *vs_pool_first(void);
/* In use by the caller: find out what is done, with some @effort, and give back
 * until @keep bytes are reserved, or less. */
void vs_pool_give_back(struct vs_pool *pool, size_t keep,
		       enum vs_pool_effort effort);

#endif
