/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#define HASH_NONFATAL_OOM 1

#include "memory/segment.h"
#include "memory/arena.h"
#include "memory/vmm.h"

#include <stdlib.h>
#include <string.h>

/* Beyond any id of the driver's own, which count from 1. */
#define FIRST_ID ((uint64_t)1 << 48)

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) hash_failed = true

struct vs_lock vs_segment_lock = VS_LOCK(VS_RANK_SEGMENT);
size_t vs_segment_chunk = (size_t)256 << 20;

static pthread_cond_t unpinned = PTHREAD_COND_INITIALIZER;
static struct vs_segment **table;	/* sorted by base */
static size_t table_count, table_room;
static struct vs_segment **loose;	/* without an address */
static size_t loose_count, loose_room;
static struct vs_block *blocks;		/* hash by base */
static uint64_t last_id = FIRST_ID;
static bool hash_failed;

/* Index of the first segment that starts beyond @address. */
static size_t upper_bound(CUdeviceptr address)
{
	size_t low = 0, high = table_count, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (table[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct vs_block *vs_segment_find(CUdeviceptr base)
{
	struct vs_block *block;

	HASH_FIND(hh, blocks, &base, sizeof(base), block);
	return block;
}

static struct vs_segment *segment_around(CUdeviceptr address)
{
	size_t index = upper_bound(address);
	struct vs_segment *s = index ? table[index - 1] : NULL;

	return s && address - s->base < s->size ? s : NULL;
}

bool vs_segment_covers(CUdeviceptr address)
{
	return segment_around(address) != NULL;
}

struct vs_block *vs_segment_find_inside(CUdeviceptr address)
{
	struct vs_segment *s = segment_around(address);
	struct vs_block *block;

	if (!s)
		return NULL;
	block = s->part ? vs_arena_find_inside(s, address) : s->block;
	if (block && (!block->live || address - block->base >= block->size))
		return NULL;
	return block;
}

static bool grow(struct vs_segment ***list, size_t count, size_t *room)
{
	size_t more = *room ? *room * 2 : 64;
	struct vs_segment **grown;

	if (count < *room)
		return true;
	grown = realloc(*list, more * sizeof(**list));
	if (!grown)
		return false;
	*list = grown;
	*room = more;
	return true;
}

bool vs_segment_add(struct vs_segment *segment)
{
	size_t index = upper_bound(segment->base);

	if (segment->foreign) {
		if (!grow(&loose, loose_count, &loose_room))
			return false;
		segment->loose_index = loose_count;
		loose[loose_count++] = segment;
		return true;
	}
	if (!grow(&table, table_count, &table_room))
		return false;
	memmove(&table[index + 1], &table[index],
		(table_count - index) * sizeof(*table));
	table[index] = segment;
	table_count++;
	return true;
}

void vs_segment_remove(struct vs_segment *segment)
{
	size_t index = upper_bound(segment->base);

	if (segment->foreign) {
		loose[segment->loose_index] = loose[--loose_count];
		loose[segment->loose_index]->loose_index =
			segment->loose_index;
		return;
	}
	table_count--;
	memmove(&table[index - 1], &table[index],
		(table_count - (index - 1)) * sizeof(*table));
}

bool vs_segment_add_block(struct vs_block *block)
{
	hash_failed = false;
	HASH_ADD(hh, blocks, base, sizeof(block->base), block);
	if (hash_failed)
		return false;
	block->live = true;
	block->segment->live_count++;
	block->segment->live_bytes += block->size;
	return true;
}

void vs_segment_remove_block(struct vs_block *block)
{
	HASH_DEL(blocks, block);
	block->live = false;
	block->segment->live_count--;
	block->segment->live_bytes -= block->size;
}

size_t vs_segment_count(void)
{
	return table_count + loose_count;
}

struct vs_segment *vs_segment_at(size_t index)
{
	return index < table_count ? table[index] :
	       loose[index - table_count];
}

void vs_segment_pin(struct vs_segment *segment)
{
	segment->pins++;
}

void vs_segment_unpin(struct vs_segment *segment)
{
	segment->pins--;
	pthread_cond_broadcast(&unpinned);
}

void vs_segment_wait_pins(struct vs_segment *segment, unsigned pins)
{
	while (segment->pins > pins)
		vs_lock_wait(&vs_segment_lock, &unpinned, 0);
}

void vs_segment_wait_change(void)
{
	vs_lock_wait(&vs_segment_lock, &unpinned, 0);
}

void vs_segment_hide_block(struct vs_block *block, bool hidden)
{
	if (hidden && block->live) {
		vs_segment_remove_block(block);
		block->hidden = true;
	} else if (!hidden && block->hidden) {
		vs_segment_add_block(block);
		block->hidden = false;
	}
}

uint64_t vs_segment_new_id(void)
{
	return ++last_id;
}

static enum vs_status lay_chunks(struct vs_segment *s, struct vs_why *why)
{
	size_t step = vs_vmm_round(s->device, vs_segment_chunk);
	size_t count = (s->size + step - 1) / step;
	size_t i;

	s->chunks = calloc(count, sizeof(*s->chunks));
	if (!s->chunks)
		return vs_why_set(why, VS_NOHOST, "no memory for a segment");
	s->chunk_count = count;
	for (i = 0; i < count; i++) {
		s->chunks[i].offset = i * step;
		s->chunks[i].size = i + 1 < count ? step : s->size - i * step;
		s->chunks[i].blocks = 1;
	}
	return VS_OK;
}

static enum vs_status back_all(struct vs_segment *s, struct vs_why *why)
{
	enum vs_status st;
	struct vs_chunk *c;

	for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
		st = vs_vmm_back(s->device, s->base + c->offset, c->size,
				 &c->handle, why);
		if (st)
			return st;
		c->state = VS_CHUNK_RESIDENT;
	}
	return VS_OK;
}

enum vs_status vs_segment_make(CUdevice device, CUcontext context, int tag,
			       size_t size, struct vs_segment **out,
			       struct vs_why *why)
{
	struct vs_segment *s = calloc(1, sizeof(*s));
	enum vs_status st;

	if (!s)
		return vs_why_set(why, VS_NOHOST, "no memory for a segment");
	s->device = device;
	s->context = context;
	s->tag = tag;
	s->size = vs_vmm_round(device, size);
	if (!s->size) {
		free(s);
		return vs_why_set(why, VS_NOMEM, "size %zu is too large", size);
	}
	/* The addresses first: a size that cannot be is refused by them. */
	st = vs_vmm_reserve(device, s->size, &s->base, why);
	if (!st)
		st = lay_chunks(s, why);
	if (!st)
		st = back_all(s, why);
	if (st) {
		vs_segment_destroy(s);
		return st;
	}
	*out = s;
	return VS_OK;
}

static void empty_chunk(struct vs_segment *s, struct vs_chunk *c)
{
	vs_store_drop(c->backup);
	if (c->state == VS_CHUNK_RESIDENT)
		vs_vmm_unback(s->base + c->offset, c->size, c->handle);
}

void vs_segment_destroy(struct vs_segment *segment)
{
	size_t i;

	for (i = 0; i < segment->chunk_count; i++)
		empty_chunk(segment, &segment->chunks[i]);
	if (segment->base)
		vs_vmm_unreserve(segment->base, segment->size);
	if (segment->part)
		vs_arena_forget(segment->part);
	else
		free(segment->block);
	free(segment->chunks);
	free(segment);
}
