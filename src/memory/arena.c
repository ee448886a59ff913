/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/arena.h"
#include "memory/arena_space.h"
#include "memory/spare.h"
#include "memory/vmm.h"

#include <math.h>
#include <stdlib.h>

#define RESERVE ((size_t)512 << 20)	/* addresses of one segment */
#define RESERVE_FIRST ((size_t)64 << 20)	/* of an arena's first */
#define GROW_MAX ((size_t)32 << 20)	/* largest step, bytes */
#define SPARE_MAX ((size_t)4 << 20)	/* kept backed for ever, bytes */

size_t vs_arena_max = VS_ARENA_MAX;

static struct vs_lock grow_lock = VS_LOCK(VS_RANK_GROW);

/* Of no context at all is the memory of pools. */
static bool belongs(const struct vs_segment *s, CUdevice device,
		    CUcontext context, int tag)
{
	return s->part && s->device == device && s->context == context &&
	       s->tag == tag;
}

/* Take space from any segment that is awake and has it. */
static bool take(CUdevice device, CUcontext context, int tag, size_t size,
		 CUdeviceptr *out, bool *no_memory)
{
	struct vs_segment *s;
	size_t i;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (belongs(s, device, context, tag) && !s->level &&
		    vs_arena_space_take(s, size, out, no_memory))
			return true;
	}
	return false;
}

static size_t resident(const struct vs_segment *s)
{
	size_t i, sum = 0;

	for (i = 0; i < s->chunk_count; i++)
		if (s->chunks[i].state == VS_CHUNK_RESIDENT)
			sum += s->chunks[i].size;
	return sum;
}

/* Steps double with what the arena holds, so few bytes lie idle. */
static size_t step_size(CUdevice device, CUcontext context, int tag,
			size_t need)
{
	size_t i, held = 0, step;

	for (i = 0; i < vs_segment_count(); i++)
		if (belongs(vs_segment_at(i), device, context, tag))
			held += resident(vs_segment_at(i));
	step = held < GROW_MAX ? held : GROW_MAX;
	return vs_vmm_round(device, step > need ? step : need);
}

/* A chunk without content, or room behind the last one. */
static struct vs_chunk *find_hole(struct vs_segment *s, size_t need)
{
	struct vs_chunk *c;

	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		if (c->state == VS_CHUNK_RESERVED && !c->busy &&
		    c->size >= need &&
		    !vs_vmm_stuck_within(s->base + c->offset, c->size))
			return c;
	return NULL;
}

static struct vs_segment *find_room(CUdevice device, CUcontext context,
				    int tag, size_t need,
				    struct vs_chunk *out)
{
	struct vs_segment *s;
	struct vs_chunk *hole;
	size_t i, top;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (!belongs(s, device, context, tag) || s->level)
			continue;
		hole = find_hole(s, need);
		if (hole) {
			*out = *hole;
			return s;
		}
		top = vs_arena_space_top(s);
		if (s->size - top >= need) {
			*out = (struct vs_chunk){ .offset = top };
			return s;
		}
	}
	return NULL;
}

/* Most have few small allocations, and some have little address space. */
static size_t reserve_size(CUdevice device, CUcontext context, int tag)
{
	size_t i;

	for (i = 0; i < vs_segment_count(); i++)
		if (belongs(vs_segment_at(i), device, context, tag))
			return RESERVE;
	return RESERVE_FIRST;
}

static enum vs_status reserve(struct vs_segment *s, size_t size,
			      struct vs_why *why)
{
	enum vs_status st;

	s->size = vs_vmm_round(s->device, size);
	st = vs_vmm_reserve(s->device, s->size, &s->base, why);
	if (!st || size == RESERVE_FIRST)
		return st;
	s->size = vs_vmm_round(s->device, RESERVE_FIRST);
	return vs_vmm_reserve(s->device, s->size, &s->base, why);
}

/* Comes pinned. */
static enum vs_status new_segment(CUdevice device, CUcontext context, int tag,
				  size_t size, struct vs_segment **out,
				  struct vs_why *why)
{
	struct vs_segment *s = calloc(1, sizeof(*s));
	enum vs_status st;
	bool added = false;

	if (!s)
		return vs_why_set(why, VS_NOHOST, "no memory for a segment");
	s->device = device;
	s->context = context;
	s->tag = tag;
	s->pins = 1;	/* the grower's */
	st = reserve(s, size, why);
	if (st) {
		free(s);
		return st;
	}
	s->part = vs_arena_space_make(s->size);
	if (s->part) {
		vs_lock_take(&vs_segment_lock);
		added = vs_segment_add(s);
		vs_lock_drop(&vs_segment_lock);
	}
	if (!added) {
		vs_segment_destroy(s);
		return vs_why_set(why, VS_NOHOST, "no memory for an arena");
	}
	*out = s;
	return VS_OK;
}

/* A large step is a wish; what the request needs is not. */
static enum vs_status back(struct vs_segment *s, struct vs_chunk *chunk,
			   size_t need, struct vs_why *why)
{
	enum vs_status st;

	st = vs_vmm_back(s->device, s->base + chunk->offset, chunk->size,
			 &chunk->handle, why);
	if (st != VS_NOMEM || chunk->size == need)
		return st;
	chunk->size = need;
	return vs_vmm_back(s->device, s->base + chunk->offset, chunk->size,
			   &chunk->handle, why);
}

/*
 * Back one more chunk.  Called under GROW alone; the pin keeps the segment
 * from being given back as empty meanwhile.
 */
static enum vs_status grow(CUdevice device, CUcontext context, int tag,
			   size_t size, struct vs_why *why)
{
	size_t need = vs_vmm_round(device, size), step, addresses;
	struct vs_chunk chunk = { 0 };
	struct vs_segment *s;
	enum vs_status st = VS_OK;
	bool filled = false;

	vs_lock_take(&vs_segment_lock);
	step = step_size(device, context, tag, need);
	addresses = reserve_size(device, context, tag);
	s = find_room(device, context, tag, need, &chunk);
	if (s)
		vs_segment_pin(s);
	vs_lock_drop(&vs_segment_lock);
	if (!s) {
		st = new_segment(device, context, tag, addresses, &s, why);
		if (st)
			return st;
	}
	if (!chunk.size)
		chunk.size = step < s->size - chunk.offset ? step : need;
	st = back(s, &chunk, need, why);
	vs_lock_take(&vs_segment_lock);
	if (!st)
		filled = vs_arena_space_fill(s, &chunk);
	vs_segment_unpin(s);
	vs_lock_drop(&vs_segment_lock);
	if (!st && !filled) {
		vs_vmm_unback(s->base + chunk.offset, chunk.size,
			      chunk.handle);
		st = vs_why_set(why, VS_NOHOST, "no memory for an arena");
	}
	return st;
}

bool vs_arena_take(CUdevice device, CUcontext context, int tag, size_t size,
		   CUdeviceptr *out)
{
	bool found, no_memory = false;

	vs_lock_take(&vs_segment_lock);
	found = take(device, context, tag, size, out, &no_memory);
	vs_lock_drop(&vs_segment_lock);
	return found;
}

enum vs_status vs_arena_alloc(CUdevice device, CUcontext context, int tag,
			      size_t size, CUdeviceptr *out,
			      struct vs_why *why)
{
	bool found, no_memory;
	enum vs_status st = VS_OK;

	vs_lock_take(&grow_lock);
	while (!st) {
		no_memory = false;
		vs_lock_take(&vs_segment_lock);
		found = take(device, context, tag, size, out, &no_memory);
		vs_lock_drop(&vs_segment_lock);
		if (found)
			break;
		if (no_memory)
			st = vs_why_set(why, VS_NOHOST, "no memory for a "
					"block");
		else
			st = grow(device, context, tag, size, why);
	}
	vs_lock_drop(&grow_lock);
	return st;
}

static bool idle(const struct vs_chunk *c)
{
	return c->state == VS_CHUNK_RESIDENT && !c->blocks && !c->lent;
}

size_t vs_arena_spare(CUdevice device)
{
	struct vs_segment *s;
	size_t i, k, sum = 0;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; s->device == device && k < s->chunk_count; k++)
			if (idle(&s->chunks[k]))
				sum += s->chunks[k].size;
	}
	return sum;
}

/* Spares of the arena that @of is a part of. */
static size_t spare_of(const struct vs_segment *of)
{
	struct vs_segment *s;
	size_t i, k, sum = 0;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (!belongs(s, of->device, of->context, of->tag))
			continue;
		for (k = 0; k < s->chunk_count; k++)
			if (idle(&s->chunks[k]))
				sum += s->chunks[k].size;
	}
	return sum;
}

static struct vs_chunk *pick(struct vs_segment *s, size_t keep, double before)
{
	struct vs_chunk *c;

	if (s->pins)
		return NULL;
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
		if (c->blocks || c->busy)
			continue;
		if (c->state == VS_CHUNK_EVICTED)
			return c;
		if (idle(c) && c->idle_since <= before && spare_of(s) > keep)
			return c;
	}
	return NULL;
}

static bool empty(const struct vs_segment *s)
{
	size_t i;

	if (s->pins)
		return false;
	for (i = 0; i < s->chunk_count; i++)
		if (s->chunks[i].state != VS_CHUNK_RESERVED ||
		    s->chunks[i].busy)
			return false;
	return true;
}

/*
 * Give back chunks of @s without allocations since @before, leaving @keep
 * bytes of spares in its arena, and @s itself when nothing is left.  Lock
 * held; dropped around the driver's calls, the segment being pinned and the
 * chunk marked busy so that no grower maps it.  False when @s is gone.
 */
static bool shrink(struct vs_segment *s, size_t keep, double before)
{
	struct vs_backup *backup;
	struct vs_chunk *c, was;
	size_t index;

	while ((c = pick(s, keep, before))) {
		if (!vs_arena_space_carve(s, c))
			break;
		was = *c;
		index = (size_t)(c - s->chunks);
		backup = c->backup;
		c->backup = NULL;
		c->handle = 0;
		c->state = VS_CHUNK_RESERVED;
		c->busy = true;
		vs_segment_pin(s);
		vs_lock_drop(&vs_segment_lock);
		vs_store_drop(backup);
		if (was.state == VS_CHUNK_RESIDENT)
			vs_vmm_unback(s->base + was.offset, was.size,
				      was.handle);
		vs_lock_take(&vs_segment_lock);
		s->chunks[index].busy = false;
		vs_segment_unpin(s);
	}
	if (!empty(s))
		return true;
	vs_segment_remove(s);
	vs_lock_drop(&vs_segment_lock);
	vs_segment_destroy(s);
	vs_lock_take(&vs_segment_lock);
	return false;
}

/* What sleeps is not used again, and pools keep what they want to. */
static bool may_be_used(const struct vs_segment *s)
{
	return s->context && !s->level;
}

void vs_arena_free(struct vs_block *block)
{
	struct vs_segment *s = block->segment;
	bool emptied;

	vs_lock_take(&vs_segment_lock);
	emptied = vs_arena_space_return(block);
	vs_segment_unpin(s);
	if (!may_be_used(s) || (emptied &&
	    vs_arena_spare(s->device) > VS_SPARE_MAX))
		shrink(s, SPARE_MAX, INFINITY);
	else if (emptied && spare_of(s) > SPARE_MAX)
		vs_spare_watch();
	vs_lock_drop(&vs_segment_lock);
}

/* Lock held.  A segment that goes moves the next one to its index. */
static void shrink_all(bool any, CUdevice device, size_t keep, double before)
{
	struct vs_segment *s;
	size_t i;

	for (i = 0; i < vs_segment_count();) {
		s = vs_segment_at(i);
		if (!s->part || (!any && s->device != device) ||
		    shrink(s, keep, before))
			i++;
	}
}

bool vs_arena_idle(double before)
{
	struct vs_segment *s;
	size_t i, k;

	shrink_all(true, 0, SPARE_MAX, before);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; s->part && k < s->chunk_count; k++)
			if (idle(&s->chunks[k]) && spare_of(s) > SPARE_MAX)
				return true;
	}
	return false;
}

void vs_arena_sweep(void)
{
	vs_lock_take(&vs_segment_lock);
	shrink_all(true, 0, SPARE_MAX, INFINITY);
	vs_lock_drop(&vs_segment_lock);
}

void vs_arena_trim(CUdevice device)
{
	vs_lock_take(&vs_segment_lock);
	shrink_all(false, device, 0, INFINITY);
	vs_lock_drop(&vs_segment_lock);
}
