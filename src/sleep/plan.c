/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/plan.h"
#include "memory/ipc_peer.h"
#include "base/context.h"

#include <stdlib.h>
#include <string.h>

vs_tag_set vs_plan_tags(const struct vs_request *request)
{
	return request->all_tags ? ~(vs_tag_set)0 : request->tags;
}

static bool selected(const struct vs_request *request,
		     const struct vs_segment *s)
{
	return vs_plan_tags(request) >> s->tag & 1;
}

static size_t count_chunks(const struct vs_request *request)
{
	size_t i, sum = 0;

	for (i = 0; i < vs_segment_count(); i++)
		if (selected(request, vs_segment_at(i)))
			sum += vs_segment_at(i)->chunk_count;
	return sum;
}

/* Room for everything that may be added below: nothing that counts here is
 * added meanwhile.  And all contexts, pinned. */
static enum vs_status begin(struct vs_plan *plan,
			    const struct vs_request *request,
			    struct vs_why *why)
{
	size_t chunks, segments;

	vs_lock_take(&vs_segment_lock);
	chunks = count_chunks(request);
	segments = vs_segment_count();
	vs_lock_drop(&vs_segment_lock);
	memset(plan, 0, sizeof(*plan));
	plan->steps = calloc(chunks + 1, sizeof(*plan->steps));
	plan->items = calloc(chunks + 1, sizeof(*plan->items));
	plan->segments = calloc(segments + 1, sizeof(*plan->segments));
	if (!plan->steps || !plan->items || !plan->segments) {
		vs_plan_drop(plan);
		return vs_why_set(why, VS_NOHOST, "no memory to plan %zu "
				  "chunks", chunks);
	}
	plan->context_count = vs_context_pin_all(plan->contexts,
						 VS_CONTEXT_MAX);
	return VS_OK;
}

/* Its own context, or any of its device: mappings are the device's. */
static struct vs_context *context_of(struct vs_plan *plan,
				     const struct vs_segment *s)
{
	struct vs_context *found = NULL;
	int i;

	for (i = 0; i < plan->context_count; i++) {
		if (plan->contexts[i]->handle == s->context)
			return plan->contexts[i];
		if (plan->contexts[i]->device == s->device)
			found = plan->contexts[i];
	}
	return found;
}

static void add_step(struct vs_plan *plan, struct vs_segment *s,
		     struct vs_chunk *c, bool item)
{
	struct vs_step *step = &plan->steps[plan->step_count++];
	struct vs_store_item *it = &plan->items[plan->item_count];

	step->segment = s;
	step->chunk = c;
	step->item = VS_PLAN_NO_ITEM;
	plan->bytes += c->size;
	if (!item)
		return;
	step->item = plan->item_count++;
	it->base = s->base + c->offset;
	it->size = c->size;
	it->context = context_of(plan, s);
	it->backup = c->backup;
}

static void pin(struct vs_plan *plan, struct vs_segment *s)
{
	vs_segment_pin(s);
	s->moving = true;
	plan->segments[plan->segment_count++] = s;
}

/* Why a segment stays where it is, or NULL; *wish: somebody asked for it. */
static const char *why_kept(struct vs_plan *plan, const struct vs_segment *s,
			    bool *wish)
{
	*wish = vs_tag_policy(s->tag) == VS_POLICY_KEEP;
	if (*wish)
		return "policy keep";
	if (s->kept_why)
		return s->kept_why;
	return context_of(plan, s) ? NULL : "no context on its device is known";
}

static bool is_copied(const struct vs_segment *s, const struct vs_chunk *c,
		      int level)
{
	return c->blocks && level == 1 &&
	       vs_tag_policy(s->tag) == VS_POLICY_OFFLOAD;
}

static void keep(struct vs_plan *plan, const struct vs_segment *s,
		 const char *why, bool wish, struct vs_ledger_last *result)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < s->chunk_count; i++)
		if (s->chunks[i].state == VS_CHUNK_RESIDENT)
			bytes += s->chunks[i].size;
	vs_ledger_keep(result, bytes, why, wish);
	plan->kept_against_wish |= bytes && !wish;
}

/* What another process maps would not go back. */
static bool stays_for_another(struct vs_plan *plan, const struct vs_segment *s,
			      const struct vs_chunk *c,
			      struct vs_ledger_last *result)
{
	const char *why = vs_ipc_mapped_by(s, c);

	if (!why)
		return false;
	vs_ledger_keep(result, c->size, why, false);
	plan->kept_against_wish = true;
	return true;
}

static void plan_segment_sleep(struct vs_plan *plan, struct vs_segment *s,
			       int level, struct vs_ledger_last *result)
{
	bool wish;
	const char *why = why_kept(plan, s, &wish);
	struct vs_chunk *c;

	if (why) {
		keep(plan, s, why, wish, result);
		return;
	}
	pin(plan, s);
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		if (c->state == VS_CHUNK_RESIDENT &&
		    !stays_for_another(plan, s, c, result))
			add_step(plan, s, c, is_copied(s, c, level));
}

/* What holds no allocation goes back before a sleep plans; so does what was
 * freed and is not yet. */
static bool goes_before(const struct vs_segment *s, const struct vs_chunk *c)
{
	return c->blocks == c->kept || (!s->part && !s->live_count);
}

static void weigh_segment(struct vs_plan *plan, const struct vs_segment *s,
			  int level, struct vs_outlook *out)
{
	bool wish;
	const char *why = why_kept(plan, s, &wish);
	const struct vs_chunk *c;

	for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
		if (c->state != VS_CHUNK_RESIDENT || goes_before(s, c))
			continue;
		if (why || c->lent)
			out->keep_bytes += c->size;
		else
			out->release_bytes += c->size;
		if (!why && !c->lent && is_copied(s, c, level))
			out->host_bytes += vs_store_need(c->backup, c->size);
	}
}

void vs_plan_weigh(const struct vs_request *request, struct vs_outlook *out)
{
	struct vs_plan plan = { .steps = NULL };
	struct vs_segment *s;
	size_t i;

	plan.context_count = vs_context_pin_all(plan.contexts, VS_CONTEXT_MAX);
	vs_ipc_forget_dead();
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (selected(request, s))
			weigh_segment(&plan, s, request->level, out);
	}
	vs_lock_drop(&vs_segment_lock);
	vs_plan_drop(&plan);
}

enum vs_status vs_plan_sleep(struct vs_plan *plan,
			     const struct vs_request *request,
			     struct vs_ledger_last *result,
			     struct vs_why *why)
{
	enum vs_status st = begin(plan, request, why);
	struct vs_segment *s;
	size_t i;

	if (st)
		return st;
	vs_ipc_forget_dead();
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (selected(request, s))
			plan_segment_sleep(plan, s, request->level, result);
	}
	vs_lock_drop(&vs_segment_lock);
	return VS_OK;
}

enum vs_status vs_plan_wake(struct vs_plan *plan,
			    const struct vs_request *request,
			    struct vs_why *why)
{
	enum vs_status st = begin(plan, request, why);
	struct vs_segment *s;
	struct vs_chunk *c;
	size_t i;

	if (st)
		return st;
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (!selected(request, s) || !s->level)
			continue;
		if (!context_of(plan, s)) {
			st = vs_why_set(why, VS_REFUSED, "no context on "
					"device %d is known", s->device);
			break;
		}
		pin(plan, s);
		for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
			if (c->state == VS_CHUNK_EVICTED)
				add_step(plan, s, c, true);
	}
	vs_lock_drop(&vs_segment_lock);
	if (st)
		vs_plan_drop(plan);
	return st;
}

void vs_plan_set_level(struct vs_plan *plan, int level)
{
	size_t i;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < plan->segment_count; i++)
		plan->segments[i]->level = level;
	vs_lock_drop(&vs_segment_lock);
}

void vs_plan_drop(struct vs_plan *plan)
{
	struct vs_segment *s;
	size_t i;
	int k;

	for (i = 0; i < plan->segment_count; i++) {
		s = plan->segments[i];
		vs_lock_take(&vs_segment_lock);
		s->moving = false;
		vs_segment_unpin(s);
		vs_lock_drop(&vs_segment_lock);
	}
	for (k = 0; k < plan->context_count; k++)
		vs_context_unpin(plan->contexts[k]);
	free(plan->steps);
	free(plan->items);
	free(plan->segments);
}
