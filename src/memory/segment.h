/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment - the table of what is ours: segments, their physical chunks, and
 * the program's allocations in them.
 *
 * A segment is one reserved address range of one context and tag.  A large
 * allocation has a segment of its own; small ones share an arena segment
 * (arena.h).  Physical memory is held in chunks, and
 *
 *	handle != 0 exactly when the chunk is RESIDENT
 *
 * Rank SEGMENT; no driver call is made under it.  An operation pins the
 * segments it works on: they are not unmapped or freed meanwhile, and only
 * the operation changes the state of their chunks.
 */
#ifndef VS_MEMORY_SEGMENT_H
#define VS_MEMORY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backup/store.h"
#include "base/cuda.h"
#include "base/lock.h"
#include "base/tag.h"
#include "base/why.h"

#include <uthash.h>

enum vs_chunk_state {
	VS_CHUNK_RESERVED,	/* addresses only; nothing lives here */
	VS_CHUNK_RESIDENT,	/* has device memory */
	VS_CHUNK_EVICTED,	/* content in backup, or dropped if NULL */
};

struct vs_chunk {
	size_t offset, size;
	enum vs_chunk_state state;
	CUmemGenericAllocationHandle handle;
	struct vs_backup *backup;
	unsigned blocks;	/* live allocations that touch it, */
	unsigned kept;		/* and of these, in an arena, free ones of
				   pools */
	unsigned lent;		/* processes that have it mapped */
	bool busy;		/* being unmapped outside the lock */
	double idle_since;	/* arena: when its last block was freed */
};

struct vs_arena_part;
struct vs_foreign;
struct vs_segment;

/* An allocation of the program, or free space of an arena segment. */
struct vs_block {
	CUdeviceptr base;
	size_t size;		/* as asked for; free space: its length */
	size_t span;		/* bytes of address space it takes */
	uint64_t id;		/* buffer id */
	struct vs_segment *segment;
	bool live;		/* in the table */
	bool hidden;		/* taken out with its context, for now */
	bool sync_memops;	/* as the program set it */
	/* of a pool, live or kept: see pool.h */
	struct vs_pool *pool;
	struct vs_pool_stream *order;	/* allocated or freed in it, and */
	uint64_t number;		/* that free's number */
	int size_class;
	UT_hash_handle hh;		/* live: by base */
	struct vs_block *prev, *next;		/* arena: by address */
	struct vs_block *bin_prev, *bin_next;	/* arena, free: its bin */
};

struct vs_segment {
	CUdeviceptr base;
	size_t size;
	CUdevice device;
	CUcontext context;
	int tag;
	int level;		/* of the sleep that evicted it; 0: awake */
	unsigned pins;
	bool moving;		/* a sleep or wake works on it */
	uint64_t lend_id;	/* for other processes; 0: none knows it */
	size_t loose_index;	/* of the table's own */
	bool spare;		/* of no allocation: see spare.h */
	double spare_since;
	struct vs_segment *spare_next;
	const char *kept_why;	/* never evicted, for this reason; or NULL */
	struct vs_chunk *chunks;
	size_t chunk_count;
	size_t live_count;		/* live allocations */
	size_t live_bytes;		/* as asked for */
	struct vs_block *block;		/* the one allocation, or */
	struct vs_arena_part *part;	/* what an arena segment holds, or */
	struct vs_foreign *foreign;	/* where the program has mapped what
					   it made itself: no base */
};

extern struct vs_lock vs_segment_lock;

/* Physical chunk of a large allocation, bytes; tests make it small. */
extern size_t vs_segment_chunk;

/* All below are called with vs_segment_lock held unless said. */

/* The live allocation that starts at, or contains, @address; or NULL. */
struct vs_block *vs_segment_find(CUdeviceptr base);
struct vs_block *vs_segment_find_inside(CUdeviceptr address);
/* @address lies in a segment, in an allocation or not. */
bool vs_segment_covers(CUdeviceptr address);

/* Put in after the driver's success, take out before its free.  Adding fails
 * only for lack of host memory. */
bool vs_segment_add(struct vs_segment *segment);
void vs_segment_remove(struct vs_segment *segment);
bool vs_segment_add_block(struct vs_block *block);
void vs_segment_remove_block(struct vs_block *block);

/* Visit: segments in order of address, then those without one. */
size_t vs_segment_count(void);
struct vs_segment *vs_segment_at(size_t index);

void vs_segment_pin(struct vs_segment *segment);
void vs_segment_unpin(struct vs_segment *segment);
/* Wait until some segment loses a pin. */
void vs_segment_wait_change(void);

/* Take a live block out of the table for a while, or put back one that was. */
void vs_segment_hide_block(struct vs_block *block, bool hidden);

/* Wait until no more than @pins are left, the caller's own. */
void vs_segment_wait_pins(struct vs_segment *segment, unsigned pins);

/* A fresh buffer id, never given twice. */
uint64_t vs_segment_new_id(void);

/* Without the lock: make a segment of @size bytes for one allocation, backed
 * and not yet in the table; and the end of any segment that has left it. */
enum vs_status vs_segment_make(CUdevice device, CUcontext context, int tag,
			       size_t size, struct vs_segment **out,
			       struct vs_why *why);
void vs_segment_destroy(struct vs_segment *segment);

#endif
