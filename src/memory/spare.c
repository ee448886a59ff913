/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/spare.h"
#include "memory/arena.h"
#include "memory/vmm.h"

#include <stdatomic.h>

/* under vs_segment_lock */
static struct vs_segment *spares;	/* the youngest first */
static bool watched;

/* Held across the driver's calls of those that go back in time. */
static struct vs_lock idle_lock = VS_LOCK(VS_RANK_SPARE);

static atomic_bool unwatched;

/* Nobody else may know its pages, and an operation has not moved them. */
static bool fit(const struct vs_segment *s)
{
	size_t i;

	if (!s->context || s->level || s->lend_id || s->kept_why ||
	    s->block->sync_memops || s->size > VS_SPARE_MAX)
		return false;
	for (i = 0; i < s->chunk_count; i++)
		if (s->chunks[i].state != VS_CHUNK_RESIDENT ||
		    s->chunks[i].lent)
			return false;
	return !vs_vmm_stuck_within(s->base, s->size);
}

static void set_blocks(struct vs_segment *s, unsigned blocks)
{
	size_t i;

	for (i = 0; i < s->chunk_count; i++)
		s->chunks[i].blocks = blocks;
}

static void link_spare(struct vs_segment *s)
{
	s->spare_next = spares;
	spares = s;
}

static void unlink_spare(struct vs_segment *s)
{
	struct vs_segment **link = &spares;

	while (*link != s)
		link = &(*link)->spare_next;
	*link = s->spare_next;
}

bool vs_spare_put(struct vs_segment *segment)
{
	if (!fit(segment))
		return false;
	segment->spare = true;
	segment->spare_since = vs_lock_now();
	set_blocks(segment, 0);
	link_spare(segment);
	vs_spare_watch();
	return true;
}

bool vs_spare_take(CUdevice device, CUcontext context, int tag, size_t size,
		   CUdeviceptr *out)
{
	size_t rounded = vs_vmm_round(device, size);
	struct vs_segment *s;
	bool taken = false;

	vs_lock_take(&vs_segment_lock);
	for (s = spares; s; s = s->spare_next)
		if (s->size == rounded && s->context == context &&
		    s->tag == tag && s->device == device && !s->level &&
		    !s->pins)
			break;
	if (s) {
		s->block->size = size;
		s->block->id = vs_segment_new_id();
		taken = vs_segment_add_block(s->block);
	}
	if (taken) {
		unlink_spare(s);
		s->spare = false;
		set_blocks(s, 1);
		*out = s->base;
	}
	vs_lock_drop(&vs_segment_lock);
	return taken;
}

/* The oldest spare of @device, or of any, that nobody works on. */
static struct vs_segment *oldest(bool any, CUdevice device)
{
	struct vs_segment *s, *found = NULL;

	for (s = spares; s; s = s->spare_next)
		if (!s->pins && (any || s->device == device))
			found = s;
	return found;
}

/* Lock held; dropped meanwhile. */
static void end(struct vs_segment *s)
{
	unlink_spare(s);
	vs_segment_remove(s);
	vs_lock_drop(&vs_segment_lock);
	vs_segment_destroy(s);
	vs_lock_take(&vs_segment_lock);
}

static void give_back(CUdevice device, size_t keep)
{
	struct vs_segment *s;

	vs_lock_take(&vs_segment_lock);
	while ((s = oldest(false, device)) &&
	       (!keep || vs_arena_spare(device) > keep))
		end(s);
	vs_lock_drop(&vs_segment_lock);
}

void vs_spare_limit(CUdevice device)
{
	give_back(device, VS_SPARE_MAX);
}

void vs_spare_trim(CUdevice device)
{
	give_back(device, 0);
}

void vs_spare_leave(struct vs_segment *segment)
{
	if (segment->spare)
		unlink_spare(segment);
}

void vs_spare_return(struct vs_segment *segment)
{
	if (!segment->spare)
		return;
	link_spare(segment);
	vs_spare_watch();
}

void vs_spare_watch(void)
{
	if (watched)
		return;
	watched = true;
	atomic_store(&unwatched, true);
}

bool vs_spare_unwatched(void)
{
	return atomic_load_explicit(&unwatched, memory_order_relaxed) &&
	       atomic_exchange(&unwatched, false);
}

double vs_spare_idle(double now)
{
	double before = now - VS_SPARE_TIME;
	struct vs_segment *s;
	bool again;

	vs_lock_take(&idle_lock);
	vs_lock_take(&vs_segment_lock);
	while ((s = oldest(true, 0)) && s->spare_since <= before)
		end(s);
	again = vs_arena_idle(before);
	again |= spares != NULL;
	watched = again;
	vs_lock_drop(&vs_segment_lock);
	vs_lock_drop(&idle_lock);
	return again ? now + VS_SPARE_TIME : 0;
}

void vs_spare_stop(void)
{
	vs_lock_take(&idle_lock);
}

void vs_spare_go_on(void)
{
	vs_lock_drop(&idle_lock);
}
