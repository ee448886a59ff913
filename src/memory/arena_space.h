/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena_space - which bytes of one arena segment are taken: its blocks in
 * order of address, free ones also in bins by size.
 *
 * Free space lies only in chunks with content.  A bitmap of block starts
 * answers look-ups of interior addresses.  All under SEGMENT; no driver call.
 */
#ifndef VS_MEMORY_ARENA_SPACE_H
#define VS_MEMORY_ARENA_SPACE_H

#include "memory/segment.h"

/* Addresses are multiples of this, bytes, as the driver's own are. */
#define VS_ARENA_UNIT 512

struct vs_arena_part *vs_arena_space_make(size_t size);

/* Make a live block of @size bytes, in the table, in free space.  False where
 * there is none, or for lack of host memory, and then @no_memory is true. */
bool vs_arena_space_take(struct vs_segment *s, size_t size, CUdeviceptr *out,
			 bool *no_memory);

/* A block that has left the table becomes free space; it may be freed.  True
 * if a chunk holds no allocation any more. */
bool vs_arena_space_return(struct vs_block *block);

/* A block is kept by a pool, or no longer; it is not live. */
void vs_arena_space_keep(struct vs_block *block, bool kept);

/* Where a next chunk may begin. */
size_t vs_arena_space_top(const struct vs_segment *s);

/* @chunk has been backed: a known hole, or a new one at the top.  False for
 * lack of host memory; nothing has changed then. */
bool vs_arena_space_fill(struct vs_segment *s, const struct vs_chunk *chunk);

/* Take the free space of a chunk without blocks out.  False for lack of host
 * memory; nothing has changed then. */
bool vs_arena_space_carve(struct vs_segment *s, const struct vs_chunk *chunk);

#endif
