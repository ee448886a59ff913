/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/pass.h"
#include "sleep/prepare_place.h"
#include "backup/host_budget.h"
#include "backup/slice.h"
#include "memory/backing.h"
#include "memory/capture.h"
#include "memory/staging.h"
#include "base/config.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PATIENCE 0.25	/* seconds that a slice may take when others wait */
#define POLL 0.0001	/* seconds between two looks at it */

enum stage { NONE, LOOKING, COPYING };

static struct {
	bool running;
	vs_tag_set tags;
	unsigned number;
	size_t index;		/* of the segment that was last looked at */
	double stalled;		/* captures are in the way since; 0: not */
	uint64_t total;
	uint64_t left;		/* bytes that host memory lacks for */
	struct vs_store_meter meter;
	/* the slice: it may outlast the pass */
	enum stage stage;
	struct vs_slice slice;
	struct vs_segment *segment;	/* pinned, as the context */
	struct vs_chunk *chunk;
	struct vs_context *context;
} pass;

static atomic_bool stopping, active;

static void nap(double seconds)
{
	struct timespec t = { .tv_nsec = (long)(seconds * 1e9) };

	nanosleep(&t, NULL);
}

static bool segment_counts(const struct vs_segment *s, vs_tag_set tags)
{
	return tags >> s->tag & 1 && !s->level && !s->kept_why && !s->spare &&
	       vs_tag_policy(s->tag) == VS_POLICY_OFFLOAD;
}

static bool chunk_counts(const struct vs_segment *s, const struct vs_chunk *c)
{
	return c->state == VS_CHUNK_RESIDENT && c->blocks > c->kept &&
	       !c->busy && !c->lent && (s->part || s->foreign || s->live_count);
}

/* The next chunk that this pass has not looked at to its end, pinned.  A call
 * of the program that works on it is not waited for. */
static bool pick_in(struct vs_segment *s)
{
	struct vs_chunk *c;

	if (!segment_counts(s, pass.tags) || (s->foreign && s->pins))
		return false;
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		if (chunk_counts(s, c) &&
		    vs_slice_looked(c->backup, pass.number) < c->size)
			break;
	if (c == s->chunks + s->chunk_count)
		return false;
	vs_segment_pin(s);
	pass.segment = s;
	pass.chunk = c;
	return true;
}

static bool pick(void)
{
	size_t i, count;
	bool found = false;

	vs_lock_take(&vs_segment_lock);
	count = vs_segment_count();
	for (i = 0; !found && i < count; i++) {
		if (pass.index >= count)
			pass.index = 0;
		found = pick_in(vs_segment_at(pass.index));
		pass.index += !found;
	}
	vs_lock_drop(&vs_segment_lock);
	return found;
}

static void unpick(void)
{
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(pass.segment);
	vs_lock_drop(&vs_segment_lock);
	pass.segment = NULL;
}

/* Its own context, or any of its device: mappings are the device's. */
static struct vs_context *context_of(const struct vs_segment *s)
{
	struct vs_context *found = s->context ? vs_context_pin(s->context) :
						NULL;

	if (!found && !vs_context_pin_device(s->device, &found, 1))
		return NULL;
	return found;
}

/* A chunk has a backup from its first slice on. */
static bool ensure_backup(void)
{
	struct vs_backup *fresh;

	if (pass.chunk->backup)
		return true;
	fresh = vs_slice_backup(pass.chunk->size);
	vs_lock_take(&vs_segment_lock);
	pass.chunk->backup = fresh;
	vs_lock_drop(&vs_segment_lock);
	return fresh;
}

/* The slice is over, one way or the other; its context is still current. */
static void put_slice(void)
{
	vs_backing_close(pass.segment);
	vs_staging_put(pass.segment->device);
	unpick();
	pass.stage = NONE;
}

/* Nothing of it is under way then. */
static void give_up_slice(void)
{
	struct vs_why why;

	while (vs_slice_wait(&pass.slice, &why) == VS_BUSY)
		nap(POLL);
	vs_slice_undo(&pass.slice);
	put_slice();
}

/* With the context current, the segment and it pinned. */
static enum vs_status start_slice(struct vs_why *why)
{
	struct vs_slice *slice = &pass.slice;
	struct vs_prepare_place *place = NULL;
	enum vs_status st;

	memset(slice, 0, sizeof(*slice));
	st = vs_prepare_place_find(pass.context, &place, why);
	if (st)
		return st;
	st = vs_staging_take(pass.segment->device, &slice->staging, why);
	if (st)
		return st;
	slice->item = (struct vs_store_item){
		.size = pass.chunk->size, .context = pass.context,
		.backup = pass.chunk->backup,
	};
	slice->stream = place->stream;
	slice->hash = place->hash;
	slice->pass = pass.number;
	st = vs_backing_open(pass.segment, pass.chunk, pass.chunk->handle,
			     &slice->item.base, why);
	if (st) {
		vs_staging_put(pass.segment->device);
		return st;
	}
	pass.stage = LOOKING;
	st = vs_slice_look(slice, why);
	if (st)
		give_up_slice();
	return st;
}

static enum vs_pass_result captured(void)
{
	if (!pass.stalled)
		pass.stalled = vs_lock_now();
	return VS_PASS_CAPTURED;
}

/* The segment that was picked. */
static enum vs_pass_result start_picked(enum vs_status *st, struct vs_why *why)
{
	struct vs_context_scope scope;

	if (!ensure_backup()) {
		unpick();
		*st = vs_why_set(why, VS_NOHOST, "no memory for a backup");
		return VS_PASS_END;
	}
	pass.context = context_of(pass.segment);
	if (!pass.context) {
		vs_slice_skip(pass.chunk->backup, pass.number);
		unpick();
		return VS_PASS_MORE;
	}
	*st = vs_context_enter(pass.context, &scope, why);
	if (!*st) {
		*st = start_slice(why);
		vs_context_leave(&scope);
	}
	if (!*st)
		return VS_PASS_WAIT;
	vs_context_unpin(pass.context);
	if (pass.segment)
		unpick();
	return *st == VS_BUSY ? captured() : VS_PASS_END;
}

/* False: a capture runs, or host memory is scarce. */
static bool find_room(enum vs_status *st, struct vs_why *why)
{
	uint64_t done = atomic_load(&pass.meter.done);
	struct vs_capture_call call;
	char text[96];

	if (vs_config.retain == VS_CONFIG_AUTO && pass.slice.lack &&
	    vs_host_budget_scarce()) {
		*st = vs_why_set(why, VS_NOHOST, "host memory is scarce");
		return false;
	}
	if (!vs_capture_call(&call, pass.context->handle, VS_CAPTURE_ENTRY,
			     text, sizeof(text))) {
		*st = vs_why_set(why, VS_BUSY, "%s", text);
		return false;
	}
	vs_slice_find_room(&pass.slice,
			   pass.total > done ? pass.total - done : 0);
	vs_capture_called(&call);
	return true;
}

static enum vs_pass_result commit(void)
{
	vs_slice_commit(&pass.slice, &pass.meter);
	pass.left += pass.slice.left;
	pass.stalled = 0;
	put_slice();
	return VS_PASS_MORE;
}

/* The device has done what was queued. */
static enum vs_pass_result go_on(enum vs_status *st, struct vs_why *why)
{
	bool copies;

	if (pass.stage == COPYING)
		return commit();
	vs_slice_judge(&pass.slice);
	if ((pass.slice.lack || pass.slice.registers) && !find_room(st, why)) {
		give_up_slice();
		return *st == VS_BUSY ? captured() : VS_PASS_END;
	}
	copies = vs_slice_copy(&pass.slice, st, why);
	if (*st) {
		give_up_slice();
		return VS_PASS_END;
	}
	if (!copies)
		return commit();
	pass.stage = COPYING;
	return VS_PASS_WAIT;
}

static enum vs_pass_result poll_slice(enum vs_status *st, struct vs_why *why)
{
	struct vs_context_scope scope;
	enum vs_pass_result result = VS_PASS_WAIT;

	*st = vs_context_enter(pass.context, &scope, why);
	if (*st)
		return VS_PASS_END;
	*st = vs_slice_wait(&pass.slice, why);
	if (!*st) {
		result = go_on(st, why);
	} else if (*st != VS_BUSY) {
		give_up_slice();
		result = VS_PASS_END;
	}
	vs_context_leave(&scope);
	if (pass.stage == NONE)
		vs_context_unpin(pass.context);
	return result;
}

static bool captures_ended(struct vs_why *why)
{
	char text[96];

	if (vs_capture_lock_quiet(text, sizeof(text))) {
		vs_capture_unlock();
		return true;
	}
	vs_why_set(why, VS_BUSY, "%s", text);
	return false;
}

static enum vs_pass_result take_step(enum vs_status *st, struct vs_why *why)
{
	if (pass.stage != NONE)
		return poll_slice(st, why);
	if (atomic_load(&stopping)) {
		*st = vs_why_set(why, VS_REFUSED, "the process exits");
		return VS_PASS_END;
	}
	if (pass.stalled && !captures_ended(why))
		return VS_PASS_CAPTURED;
	return pick() ? start_picked(st, why) : VS_PASS_END;
}

/* With no pass, and no slice that it has left, nothing is on the device. */
static void come_to_rest(void)
{
	if (pass.running || pass.stage != NONE)
		return;
	vs_staging_end();
	atomic_store(&active, false);
}

enum vs_pass_result vs_pass_step(enum vs_status *st, struct vs_why *why)
{
	enum vs_pass_result result;

	*st = VS_OK;
	result = take_step(st, why);
	come_to_rest();
	return result;
}

void vs_pass_end(void)
{
	double until = vs_lock_now() + PATIENCE;
	struct vs_why why;
	enum vs_status st;

	while (pass.stage != NONE && vs_lock_now() < until &&
	       vs_pass_step(&st, &why) == VS_PASS_WAIT)
		nap(POLL);
	pass.running = false;
	come_to_rest();
}

bool vs_pass_runs(void)
{
	return pass.running;
}

bool vs_pass_lingers(void)
{
	return !pass.running && pass.stage != NONE;
}

void vs_pass_read(struct vs_pass_now *out)
{
	const struct vs_store_meter *m = &pass.meter;

	out->total = pass.total;
	out->done = atomic_load(&m->done);
	out->stalled = pass.stalled;
	out->bytes = (struct vs_prepared){
		.filled = true,
		.copied_bytes = atomic_load(&m->copied),
		.unchanged_bytes = atomic_load(&m->unchanged),
		.zero_bytes = atomic_load(&m->zero),
		.left_bytes = pass.left,
	};
}

static uint64_t weigh(vs_tag_set tags)
{
	const struct vs_segment *s;
	uint64_t sum = 0;
	size_t i, k;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; segment_counts(s, tags) && k < s->chunk_count; k++)
			if (chunk_counts(s, &s->chunks[k]))
				sum += s->chunks[k].size;
	}
	vs_lock_drop(&vs_segment_lock);
	return sum;
}

void vs_pass_begin(vs_tag_set tags)
{
	atomic_store(&active, true);
	pass.running = true;
	pass.tags = tags;
	pass.number++;
	pass.index = 0;
	pass.stalled = 0;
	pass.left = 0;
	memset(&pass.meter, 0, sizeof(pass.meter));
	pass.total = weigh(tags);
	vs_staging_begin();
}

/* What cannot be asked is not under way either: all is at rest. */
void vs_pass_settle(void)
{
	struct vs_why why;
	enum vs_status st;

	while (pass.stage != NONE && vs_pass_step(&st, &why) == VS_PASS_WAIT)
		nap(POLL);
	if (pass.stage != NONE) {
		vs_slice_undo(&pass.slice);
		put_slice();
		vs_context_unpin(pass.context);
	}
	come_to_rest();
	vs_prepare_place_close();
}

bool vs_pass_holds(const struct vs_segment *segment)
{
	return pass.stage != NONE && pass.segment == segment;
}

static uint64_t mix(uint64_t sum, uint64_t x)
{
	return (sum ^ x) * UINT64_C(0x9e3779b97f4a7c15) ^ sum >> 29;
}

uint64_t vs_pass_allocations(void)
{
	const struct vs_segment *s;
	uint64_t sum = 0;
	size_t i, k;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (!segment_counts(s, ~(vs_tag_set)0))
			continue;
		sum = mix(mix(sum, (uintptr_t)s), s->live_bytes);
		for (k = 0; k < s->chunk_count; k++)
			if (chunk_counts(s, &s->chunks[k]))
				sum = mix(sum, s->chunks[k].offset + 1);
	}
	vs_lock_drop(&vs_segment_lock);
	return sum;
}

void vs_pass_stop(void)
{
	double until = vs_lock_now() + 1;

	atomic_store(&stopping, true);
	while (atomic_load(&active) && vs_lock_now() < until)
		nap(POLL);
}

bool vs_pass_stopped(void)
{
	return atomic_load(&stopping);
}
