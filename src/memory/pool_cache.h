/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_cache - blocks that were freed in a stream's order and are kept for
 * the next request.
 *
 * A bin has those of one pool and tag that were freed in one stream, in lists
 * by size class, in the order of their frees.  A class wastes an eighth at
 * most; larger blocks share the last list.  A block that is here has left the
 * table of live ones, and refers to its stream.
 *
 * All under SEGMENT; no driver call is made.
 */
#ifndef VS_MEMORY_POOL_CACHE_H
#define VS_MEMORY_POOL_CACHE_H

#include "memory/pool_stream.h"
#include "memory/segment.h"

#define VS_POOL_CLASSES 105

struct vs_pool_list {
	struct vs_block *newest, *oldest;
};

struct vs_pool_bin {
	struct vs_pool *pool;
	struct vs_pool_stream *stream;
	int tag;
	size_t count;		/* blocks here */
	struct vs_pool_list lists[VS_POOL_CLASSES];
	struct vs_pool_bin *pool_next, *stream_next;
};

/* What a request can be served with. */
struct vs_pool_want {
	struct vs_pool *pool;
	int tag;
	int size_class;
	size_t span;
};

/* The class of @size, and the bytes that are taken for it. */
size_t vs_pool_class(size_t size, int *size_class);

/* @block has just been freed in its stream.  False for lack of host memory. */
bool vs_pool_cache_put(struct vs_block *block);
void vs_pool_cache_remove(struct vs_block *block);

/* Taken out: the one that was freed last in @stream; the one first, which the
 * device may not have reached; one from any stream that it has. */
struct vs_block *vs_pool_cache_own(const struct vs_pool_want *want,
				   struct vs_pool_stream *stream);
struct vs_block *vs_pool_cache_pending(const struct vs_pool_want *want,
				       struct vs_pool_stream *stream);
struct vs_block *vs_pool_cache_done(const struct vs_pool_want *want);

/* A stream that can be claimed and has such a block, the @nth; or NULL. */
struct vs_pool_stream *vs_pool_cache_holder(const struct vs_pool_want *want,
					    int nth);
/* The same with any block of the pool that is not known to be done. */
struct vs_pool_stream *vs_pool_cache_debtor(const struct vs_pool *pool,
					    int nth);
/* Any block of the pool, of @most bytes, that is done and was freed up to
 * @last, still here; or NULL. */
struct vs_block *vs_pool_cache_spare(const struct vs_pool *pool, size_t most,
				     uint64_t last);

/* Memory of @device was freed in @stream and is here. */
bool vs_pool_cache_has(const struct vs_pool_stream *stream, CUdevice device);

/* The bins of a stream, or of a pool, which are empty. */
void vs_pool_cache_forget(struct vs_pool_stream *stream);
void vs_pool_cache_forget_pool(struct vs_pool *pool);

#endif
