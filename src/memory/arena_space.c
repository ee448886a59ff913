/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/arena_space.h"
#include "memory/arena.h"

#include <stdlib.h>

#define BINS 40			/* by the power of two below the span */
#define TRIES 16		/* blocks looked at in the request's own bin */
#define LARGE ((size_t)1 << 20)	/* bytes; what is larger begins on a page, */
#define PAGE ((CUdeviceptr)64 << 10)	/* from which it can be exported */

struct vs_arena_part {
	struct vs_block *first;		/* by address */
	struct vs_block *bins[BINS];
	uint64_t filled;		/* bit n: bins[n] is not empty */
	uint64_t *starts;		/* bit per unit: a live block starts */
};

static int bin_of(size_t span)
{
	return 63 - __builtin_clzll((unsigned long long)span);
}

static void bin_add(struct vs_arena_part *part, struct vs_block *block)
{
	int bin = bin_of(block->span);

	block->bin_prev = NULL;
	block->bin_next = part->bins[bin];
	if (block->bin_next)
		block->bin_next->bin_prev = block;
	part->bins[bin] = block;
	part->filled |= (uint64_t)1 << bin;
}

static void bin_remove(struct vs_arena_part *part, struct vs_block *block)
{
	int bin = bin_of(block->span);

	if (block->bin_prev)
		block->bin_prev->bin_next = block->bin_next;
	else
		part->bins[bin] = block->bin_next;
	if (block->bin_next)
		block->bin_next->bin_prev = block->bin_prev;
	if (!part->bins[bin])
		part->filled &= ~((uint64_t)1 << bin);
}

/* What has to stay free before it, bytes. */
static size_t padding(const struct vs_block *block, size_t span)
{
	return span > LARGE ? -block->base & (PAGE - 1) : 0;
}

static bool fits(const struct vs_block *block, size_t span)
{
	return block->span >= span + padding(block, span);
}

static struct vs_block *bin_find(struct vs_arena_part *part, size_t span)
{
	int bin = bin_of(span), tries = TRIES;
	struct vs_block *block;
	uint64_t larger;

	for (block = part->bins[bin]; block && tries--; block = block->bin_next)
		if (fits(block, span))
			return block;
	for (larger = part->filled >> bin >> 1; larger; larger &= larger - 1) {
		block = part->bins[bin + 1 + __builtin_ctzll(larger)];
		if (fits(block, span))
			return block;
	}
	return NULL;
}

static void link_after(struct vs_arena_part *part, struct vs_block *prev,
		       struct vs_block *block)
{
	block->prev = prev;
	block->next = prev ? prev->next : part->first;
	if (prev)
		prev->next = block;
	else
		part->first = block;
	if (block->next)
		block->next->prev = block;
}

static void unlink_block(struct vs_arena_part *part, struct vs_block *block)
{
	if (block->prev)
		block->prev->next = block->next;
	else
		part->first = block->next;
	if (block->next)
		block->next->prev = block->prev;
}

static void mark_start(struct vs_segment *s, CUdeviceptr base, bool on)
{
	size_t unit = (base - s->base) / VS_ARENA_UNIT;
	uint64_t bit = (uint64_t)1 << (unit % 64);

	if (on)
		s->part->starts[unit / 64] |= bit;
	else
		s->part->starts[unit / 64] &= ~bit;
}

/* Index of the chunk that holds @offset. */
static size_t chunk_index(const struct vs_segment *s, size_t offset)
{
	size_t low = 0, high = s->chunk_count, middle;

	while (high - low > 1) {
		middle = (low + high) / 2;
		if (s->chunks[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Whether a chunk has none any more. */
static bool count_blocks(struct vs_segment *s, const struct vs_block *block,
			 int step)
{
	size_t offset = block->base - s->base, end = offset + block->span;
	bool emptied = false;
	size_t i;

	for (i = chunk_index(s, offset);
	     i < s->chunk_count && s->chunks[i].offset < end; i++) {
		s->chunks[i].blocks += (unsigned)step;
		if (s->chunks[i].blocks)
			continue;
		s->chunks[i].idle_since = vs_lock_now();
		emptied = true;
	}
	return emptied;
}

void vs_arena_space_keep(struct vs_block *block, bool kept)
{
	struct vs_segment *s = block->segment;
	size_t offset = block->base - s->base, end = offset + block->span;
	size_t i;

	for (i = chunk_index(s, offset);
	     i < s->chunk_count && s->chunks[i].offset < end; i++)
		s->chunks[i].kept += kept ? 1U : -1U;
}

struct vs_arena_part *vs_arena_space_make(size_t size)
{
	struct vs_arena_part *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->starts = calloc(size / VS_ARENA_UNIT / 64 + 1,
			      sizeof(*part->starts));
	if (!part->starts) {
		free(part);
		return NULL;
	}
	return part;
}

/* Cut @block, which is in no bin, to @span; the rest is free space. */
static bool split(struct vs_segment *s, struct vs_block *block, size_t span)
{
	struct vs_block *rest;

	if (block->span == span)
		return true;
	rest = calloc(1, sizeof(*rest));
	if (!rest)
		return false;
	rest->segment = s;
	rest->base = block->base + span;
	rest->span = rest->size = block->span - span;
	block->span = block->size = span;
	link_after(s->part, block, rest);
	bin_add(s->part, rest);
	return true;
}

static bool is_free(const struct vs_block *block)
{
	return block->id == 0;
}

/* Merge @next into @block where both are free and touch; neither in a bin. */
static void absorb(struct vs_arena_part *part, struct vs_block *block,
		   struct vs_block *next)
{
	block->span += next->span;
	block->size = block->span;
	unlink_block(part, next);
	free(next);
}

static void add_free(struct vs_segment *s, struct vs_block *block)
{
	struct vs_block *near;

	block->id = 0;
	block->size = block->span;
	near = block->next;
	if (near && is_free(near) && block->base + block->span == near->base) {
		bin_remove(s->part, near);
		absorb(s->part, block, near);
	}
	near = block->prev;
	if (near && is_free(near) && near->base + near->span == block->base) {
		bin_remove(s->part, near);
		absorb(s->part, near, block);
		block = near;
	}
	bin_add(s->part, block);
}

/* What is left of @block, which is in no bin, without @before bytes, which are
 * free space; NULL for lack of host memory, and @block is in a bin again. */
static struct vs_block *cut_front(struct vs_segment *s, struct vs_block *block,
				  size_t before)
{
	bool cut;

	if (!before)
		return block;
	cut = split(s, block, before);
	bin_add(s->part, block);
	if (!cut)
		return NULL;
	block = block->next;
	bin_remove(s->part, block);
	return block;
}

bool vs_arena_space_take(struct vs_segment *s, size_t size, CUdeviceptr *out,
			 bool *no_memory)
{
	size_t span = (size + VS_ARENA_UNIT - 1) / VS_ARENA_UNIT *
		      VS_ARENA_UNIT;
	struct vs_block *block = bin_find(s->part, span);
	bool added = false;

	if (!block)
		return false;
	bin_remove(s->part, block);
	block = cut_front(s, block, padding(block, span));
	if (block && split(s, block, span)) {
		block->size = size;
		block->sync_memops = false;
		block->id = vs_segment_new_id();
		added = vs_segment_add_block(block);
	}
	if (!added) {
		/* Back into one piece: a chunk's free space is not in two. */
		if (block)
			add_free(s, block);
		*no_memory = true;
		return false;
	}
	mark_start(s, block->base, true);
	count_blocks(s, block, 1);
	*out = block->base;
	return true;
}

bool vs_arena_space_return(struct vs_block *block)
{
	struct vs_segment *s = block->segment;
	bool emptied;

	mark_start(s, block->base, false);
	emptied = count_blocks(s, block, -1);
	add_free(s, block);
	return emptied;
}

size_t vs_arena_space_top(const struct vs_segment *s)
{
	const struct vs_chunk *last;

	if (!s->chunk_count)
		return 0;
	last = &s->chunks[s->chunk_count - 1];
	return last->offset + last->size;
}

static struct vs_chunk *chunk_for(struct vs_segment *s, size_t offset)
{
	struct vs_chunk *grown;

	if (offset < vs_arena_space_top(s))
		return &s->chunks[chunk_index(s, offset)];
	grown = realloc(s->chunks, (s->chunk_count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	s->chunks = grown;
	return &s->chunks[s->chunk_count++];
}

bool vs_arena_space_fill(struct vs_segment *s, const struct vs_chunk *chunk)
{
	CUdeviceptr base = s->base + chunk->offset;
	struct vs_block *block, *prev = NULL, *b;
	struct vs_chunk *place;

	block = calloc(1, sizeof(*block));
	if (!block)
		return false;
	place = chunk_for(s, chunk->offset);
	if (!place) {
		free(block);
		return false;
	}
	*place = *chunk;
	place->state = VS_CHUNK_RESIDENT;
	place->idle_since = vs_lock_now();
	block->segment = s;
	block->base = base;
	block->span = block->size = chunk->size;
	for (b = s->part->first; b && b->base < base; b = b->next)
		prev = b;
	link_after(s->part, prev, block);
	add_free(s, block);
	return true;
}

/* The free block that covers @address. */
static struct vs_block *free_at(struct vs_segment *s, CUdeviceptr address)
{
	struct vs_block *block;
	int bin;

	for (bin = 0; bin < BINS; bin++)
		for (block = s->part->bins[bin]; block; block = block->bin_next)
			if (address - block->base < block->span)
				return block;
	return NULL;
}

bool vs_arena_space_carve(struct vs_segment *s, const struct vs_chunk *chunk)
{
	CUdeviceptr base = s->base + chunk->offset;
	struct vs_block *block = free_at(s, base);
	struct vs_block *middle;

	bin_remove(s->part, block);
	middle = cut_front(s, block, base - block->base);
	if (!middle)
		return false;
	if (!split(s, middle, chunk->size)) {
		/* Back into one piece: nothing has changed. */
		add_free(s, middle);
		return false;
	}
	unlink_block(s->part, middle);
	free(middle);
	return true;
}

struct vs_block *vs_arena_find_inside(struct vs_segment *segment,
				      CUdeviceptr address)
{
	uint64_t *starts = segment->part->starts, word;
	size_t unit = (address - segment->base) / VS_ARENA_UNIT;
	size_t i = unit / 64;
	size_t floor = i > VS_ARENA_MAX / VS_ARENA_UNIT / 64 ?
		       i - VS_ARENA_MAX / VS_ARENA_UNIT / 64 - 1 : 0;

	word = starts[i] & (~(uint64_t)0 >> (63 - unit % 64));
	while (!word && i > floor)
		word = starts[--i];
	if (!word)
		return NULL;
	unit = i * 64 + 63 - (size_t)__builtin_clzll(word);
	return vs_segment_find(segment->base + unit * VS_ARENA_UNIT);
}

void vs_arena_hide(struct vs_segment *segment, bool hidden)
{
	struct vs_block *block;

	for (block = segment->part->first; block; block = block->next)
		vs_segment_hide_block(block, hidden);
}

void vs_arena_forget(struct vs_arena_part *part)
{
	struct vs_block *block, *next;

	for (block = part->first; block; block = next) {
		next = block->next;
		free(block);
	}
	free(part->starts);
	free(part);
}
