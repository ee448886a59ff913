/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/pool_cache.h"
#include "memory/pool.h"
#include "memory/arena_space.h"

#include <stdlib.h>

#define UNIT VS_ARENA_UNIT
#define LARGEST (VS_POOL_CLASSES - 1)
#define LARGEST_UNITS ((size_t)32768)	/* of what has a class of its own */
#define TRIES 64	/* blocks looked at in a list */

/* Up to 8 units one each, then 8 classes to the power of two. */
size_t vs_pool_class(size_t size, int *size_class)
{
	size_t last = (size - 1) / UNIT, step;
	int shift;

	if (last < 8) {
		*size_class = (int)last;
		return (last + 1) * UNIT;
	}
	if (last >= LARGEST_UNITS) {
		*size_class = LARGEST;
		return size;
	}
	shift = 60 - __builtin_clzll((unsigned long long)last);
	step = last >> shift;
	*size_class = 8 * shift + (int)step;
	return ((step + 1) << shift) * UNIT;
}

static struct vs_pool_bin *find_bin(const struct vs_pool *pool, int tag,
				    const struct vs_pool_stream *stream)
{
	struct vs_pool_bin *bin;

	for (bin = stream->bins; bin; bin = bin->stream_next)
		if (bin->pool == pool && bin->tag == tag)
			return bin;
	return NULL;
}

static struct vs_pool_bin *make_bin(struct vs_pool *pool, int tag,
				    struct vs_pool_stream *stream)
{
	struct vs_pool_bin *bin = calloc(1, sizeof(*bin));

	if (!bin)
		return NULL;
	bin->pool = pool;
	bin->tag = tag;
	bin->stream = stream;
	bin->pool_next = pool->bins;
	pool->bins = bin;
	bin->stream_next = stream->bins;
	stream->bins = bin;
	return bin;
}

bool vs_pool_cache_put(struct vs_block *block)
{
	struct vs_pool *pool = block->pool;
	int tag = block->segment->tag;
	struct vs_pool_bin *bin = find_bin(pool, tag, block->order);
	struct vs_pool_list *list;

	if (!bin)
		bin = make_bin(pool, tag, block->order);
	if (!bin)
		return false;
	list = &bin->lists[block->size_class];
	block->bin_prev = NULL;
	block->bin_next = list->newest;
	if (list->newest)
		list->newest->bin_prev = block;
	else
		list->oldest = block;
	list->newest = block;
	bin->count++;
	block->order->cached++;
	pool->cached += block->span;
	if (block->segment->part)
		vs_arena_space_keep(block, true);
	return true;
}

static void unlink_block(struct vs_pool_bin *bin, struct vs_block *block)
{
	struct vs_pool_list *list = &bin->lists[block->size_class];

	if (block->bin_prev)
		block->bin_prev->bin_next = block->bin_next;
	else
		list->newest = block->bin_next;
	if (block->bin_next)
		block->bin_next->bin_prev = block->bin_prev;
	else
		list->oldest = block->bin_prev;
	bin->count--;
	block->order->cached--;
	block->pool->cached -= block->span;
	if (block->segment->part)
		vs_arena_space_keep(block, false);
}

void vs_pool_cache_remove(struct vs_block *block)
{
	unlink_block(find_bin(block->pool, block->segment->tag, block->order),
		     block);
}

static bool suits(const struct vs_block *block, size_t span)
{
	return !block->segment->level && block->span >= span &&
	       (block->size_class < LARGEST ||
		block->span - span <= span / 8);
}

static struct vs_block *take(struct vs_pool_bin *bin, struct vs_block *block)
{
	if (block)
		unlink_block(bin, block);
	return block;
}

static struct vs_block *newest(struct vs_pool_bin *bin,
			       const struct vs_pool_want *want)
{
	struct vs_block *block = bin->lists[want->size_class].newest;
	int tries = TRIES;

	while (block && !suits(block, want->span) && --tries)
		block = block->bin_next;
	return block && suits(block, want->span) ? block : NULL;
}

static struct vs_block *oldest(struct vs_pool_bin *bin,
			       const struct vs_pool_want *want)
{
	struct vs_block *block = bin->lists[want->size_class].oldest;
	int tries = TRIES;

	while (block && !suits(block, want->span) && --tries)
		block = block->bin_prev;
	return block && suits(block, want->span) ? block : NULL;
}

struct vs_block *vs_pool_cache_own(const struct vs_pool_want *want,
				   struct vs_pool_stream *stream)
{
	struct vs_pool_bin *bin = find_bin(want->pool, want->tag, stream);

	return bin ? take(bin, newest(bin, want)) : NULL;
}

struct vs_block *vs_pool_cache_pending(const struct vs_pool_want *want,
				       struct vs_pool_stream *stream)
{
	struct vs_pool_bin *bin = find_bin(want->pool, want->tag, stream);

	return bin ? take(bin, oldest(bin, want)) : NULL;
}

struct vs_block *vs_pool_cache_done(const struct vs_pool_want *want)
{
	struct vs_pool_bin *bin;
	struct vs_block *block;

	for (bin = want->pool->bins; bin; bin = bin->pool_next) {
		if (bin->tag != want->tag || !bin->count)
			continue;
		block = oldest(bin, want);
		if (block && block->number <= bin->stream->done)
			return take(bin, block);
	}
	return NULL;
}

static bool askable(const struct vs_pool_stream *stream)
{
	return !stream->claimed && !stream->leaving && stream->context;
}

struct vs_pool_stream *vs_pool_cache_holder(const struct vs_pool_want *want,
					    int nth)
{
	struct vs_pool_bin *bin;

	for (bin = want->pool->bins; bin; bin = bin->pool_next)
		if (bin->tag == want->tag && bin->count &&
		    askable(bin->stream) && oldest(bin, want) && !nth--)
			return bin->stream;
	return NULL;
}

struct vs_pool_stream *vs_pool_cache_debtor(const struct vs_pool *pool,
					    int nth)
{
	struct vs_pool_bin *bin;

	for (bin = pool->bins; bin; bin = bin->pool_next)
		if (bin->count && bin->stream->done < bin->stream->freed &&
		    askable(bin->stream) && !nth--)
			return bin->stream;
	return NULL;
}

struct vs_block *vs_pool_cache_spare(const struct vs_pool *pool, size_t most,
				     uint64_t last)
{
	struct vs_pool_bin *bin;
	struct vs_block *block;
	int i;

	for (bin = pool->bins; bin; bin = bin->pool_next)
		for (i = LARGEST; bin->count && i >= 0; i--) {
			block = bin->lists[i].oldest;
			if (block && block->number <= bin->stream->done &&
			    block->number <= last && block->span <= most)
				return block;
		}
	return NULL;
}

bool vs_pool_cache_has(const struct vs_pool_stream *stream, CUdevice device)
{
	struct vs_pool_bin *bin;

	for (bin = stream->bins; bin; bin = bin->stream_next)
		if (bin->count && bin->pool->device == device)
			return true;
	return false;
}

static void leave_pool(struct vs_pool_bin *bin)
{
	struct vs_pool_bin **link = &bin->pool->bins;

	while (*link != bin)
		link = &(*link)->pool_next;
	*link = bin->pool_next;
}

static void leave_stream(struct vs_pool_bin *bin)
{
	struct vs_pool_bin **link = &bin->stream->bins;

	while (*link != bin)
		link = &(*link)->stream_next;
	*link = bin->stream_next;
}

void vs_pool_cache_forget(struct vs_pool_stream *stream)
{
	struct vs_pool_bin *bin;

	while ((bin = stream->bins)) {
		stream->bins = bin->stream_next;
		leave_pool(bin);
		free(bin);
	}
}

void vs_pool_cache_forget_pool(struct vs_pool *pool)
{
	struct vs_pool_bin *bin;

	while ((bin = pool->bins)) {
		pool->bins = bin->pool_next;
		leave_stream(bin);
		free(bin);
	}
}
