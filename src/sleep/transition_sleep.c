/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/transition.h"
#include "sleep/gate.h"
#include "sleep/ledger.h"
#include "sleep/plan.h"
#include "sleep/retain.h"
#include "sleep/state.h"
#include "memory/backing.h"
#include "memory/ipc_import.h"
#include "memory/managed.h"
#include "memory/vmm.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* Every selected tag sleeps already, at the level asked for or deeper. */
static bool already(const struct vs_request *r)
{
	struct vs_segment *s;
	bool all = vs_state_covers(r) && !vs_ipc_awake(vs_plan_tags(r));
	size_t i, k;

	if (r->imports_only)
		return !vs_ipc_awake(vs_plan_tags(r));
	vs_lock_take(&vs_segment_lock);
	for (i = 0; all && i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (!(vs_plan_tags(r) >> s->tag & 1) || s->kept_why ||
		    vs_tag_policy(s->tag) == VS_POLICY_KEEP)
			continue;
		if (s->level && s->level < r->level)
			all = false;
		for (k = 0; k < s->chunk_count; k++)
			if (s->chunks[k].state == VS_CHUNK_RESIDENT)
				all = false;
	}
	vs_lock_drop(&vs_segment_lock);
	return all && !vs_managed_awake(vs_plan_tags(r));
}

/* Whatever has become of the copies: a chunk has what there is of it. */
static void keep_backups(struct vs_plan *plan)
{
	struct vs_step *step;
	size_t i;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < plan->step_count; i++) {
		step = &plan->steps[i];
		if (step->item != VS_PLAN_NO_ITEM)
			step->chunk->backup = plan->items[step->item].backup;
	}
	vs_lock_drop(&vs_segment_lock);
}

static void evict(struct vs_plan *plan, struct vs_step *step,
		  struct vs_ledger_last *result)
{
	CUmemGenericAllocationHandle handle = step->chunk->handle;
	struct vs_backup *useless = NULL;
	size_t size = step->chunk->size;

	vs_lock_take(&vs_segment_lock);
	step->chunk->state = VS_CHUNK_EVICTED;
	step->chunk->handle = 0;
	if (step->item == VS_PLAN_NO_ITEM) {
		useless = step->chunk->backup;
		step->chunk->backup = NULL;
	}
	vs_lock_drop(&vs_segment_lock);
	vs_store_drop(useless);
	if (vs_vmm_release(handle, size)) {
		result->released_bytes += size;
		return;
	}
	vs_ledger_keep(result, size, "the driver did not release it", false);
	plan->kept_against_wish = true;
}

static void count_lost(const struct vs_plan *plan,
		       struct vs_ledger_last *result)
{
	uint64_t lost[VS_TAG_MAX] = { 0 };
	bool seen[VS_TAG_MAX] = { false };
	const struct vs_segment *s;
	const struct vs_chunk *c;
	size_t i;
	int tag;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < plan->segment_count; i++) {
		s = plan->segments[i];
		seen[s->tag] = true;
		for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
			if (c->state == VS_CHUNK_EVICTED && !c->backup &&
			    c->blocks)
				lost[s->tag] += c->size;
	}
	vs_lock_drop(&vs_segment_lock);
	for (tag = 0; tag < VS_TAG_MAX; tag++) {
		result->lost_bytes += lost[tag];
		if (seen[tag])
			vs_ledger_lost(tag, lost[tag]);
	}
}

/*
 * Everything is copied; from the first unmap on there is no way back.  A
 * chunk that cannot be unmapped stays as it is, content and all.
 */
static enum vs_status evict_all(struct vs_plan *plan,
				struct vs_ledger_last *result,
				struct vs_why *why)
{
	struct vs_step *step;
	enum vs_status st;
	size_t i, done = 0;

	for (i = 0; i < plan->step_count; i++) {
		step = &plan->steps[i];
		st = vs_backing_unmap(step->segment, step->chunk, why);
		if (!st) {
			evict(plan, step, result);
			done++;
			continue;
		}
		if (!done && st != VS_PARTIAL)
			return st;
		vs_ledger_keep(result, step->chunk->size,
			       "the driver did not unmap it", false);
		plan->kept_against_wish = true;
	}
	return VS_OK;
}

/* Level 1 to 2: what the sleeping tags had backed up is dropped. */
static void deepen(struct vs_plan *plan)
{
	struct vs_segment *s;
	struct vs_backup *backup;
	size_t i, k;

	for (i = 0; i < plan->segment_count; i++) {
		s = plan->segments[i];
		for (k = 0; k < s->chunk_count; k++) {
			vs_lock_take(&vs_segment_lock);
			backup = s->chunks[k].backup;
			s->chunks[k].backup = NULL;
			vs_lock_drop(&vs_segment_lock);
			vs_store_drop(backup);
		}
	}
}

/* What a sleep that was no full success has said of these tags. */
static struct {
	struct vs_why why;
	vs_tag_set tags;
} verdict;

/* Of the request's tags. */
static uint64_t asleep_bytes(const struct vs_ledger *now,
			     const struct vs_request *r)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < now->tags_count; i++)
		if (vs_plan_tags(r) >> now->tags[i].tag & 1)
			sum += now->tags[i].evicted_bytes;
	return sum + vs_managed_away(vs_plan_tags(r));
}

/* Who believes in a success starts the next job on a full device. */
static enum vs_status judge_bytes(const struct vs_request *r,
				  struct vs_why *why)
{
	struct vs_ledger now;
	uint64_t gone, stays = 0, wished;

	vs_ledger_read(&now);
	gone = asleep_bytes(&now, r);
	wished = vs_managed_wished(~(vs_tag_set)0);
	if (now.unmanaged_bytes > wished)
		stays = now.unmanaged_bytes - wished;
	if (!gone && (now.unmanaged_bytes || now.resident_bytes))
		return vs_why_set(why, VS_PARTIAL, "nothing was released: "
				  "%llu MiB stay, and %llu MiB that vsleep "
				  "does not manage", (unsigned long long)
				  (now.resident_bytes >> 20),
				  (unsigned long long)
				  (now.unmanaged_bytes >> 20));
	if (r->all_tags && stays > gone)
		return vs_why_set(why, VS_PARTIAL, "%llu MiB that vsleep does "
				  "not manage stay on the device, %llu MiB "
				  "were released", (unsigned long long)
				  (stays >> 20),
				  (unsigned long long)(gone >> 20));
	return VS_OK;
}

/* A sleep that leaves what it should have released, or more than it has
 * released, shall not look like a success; nor when it is asked for again. */
static enum vs_status judge(const struct vs_plan *plan,
			    const struct vs_request *r,
			    const struct vs_ledger_last *result,
			    struct vs_why *why)
{
	enum vs_status st;

	if (plan->kept_against_wish)
		st = vs_why_set(why, VS_PARTIAL, "%llu MiB stay on the "
				"device: %s", (unsigned long long)
				(result->kept_bytes >> 20),
				result->kept[0].why);
	else
		st = judge_bytes(r, why);
	verdict.tags = vs_plan_tags(r);
	verdict.why.status = st;
	if (st)
		verdict.why = *why;
	return st;
}

static enum vs_status judged_before(const struct vs_request *r,
				    struct vs_why *why)
{
	if (!(verdict.tags & vs_plan_tags(r)) || !verdict.why.status)
		return VS_OK;
	*why = verdict.why;
	return why->status;
}

/* Where the bytes can be read. */
static enum vs_status open_all(struct vs_plan *plan, struct vs_why *why)
{
	struct vs_step *step;
	enum vs_status st = VS_OK;
	size_t i;

	for (i = 0; !st && i < plan->step_count; i++) {
		step = &plan->steps[i];
		if (step->item != VS_PLAN_NO_ITEM)
			st = vs_backing_open(step->segment, step->chunk,
					     step->chunk->handle,
					     &plan->items[step->item].base,
					     why);
	}
	return st;
}

static void close_all(struct vs_plan *plan)
{
	size_t i;

	for (i = 0; i < plan->segment_count; i++)
		vs_backing_close(plan->segments[i]);
}

static void keep_import(void *arg, uint64_t bytes, const char *why)
{
	vs_ledger_keep(arg, bytes, why, false);
}

/* Of other processes' memory nothing is copied. */
static enum vs_status unmap_imports(const struct vs_request *r,
				    struct vs_ledger_last *result,
				    struct vs_why *why)
{
	uint64_t before = result->kept_bytes;

	vs_ipc_sleep(vs_plan_tags(r), keep_import, result);
	if (result->kept_bytes == before)
		return VS_OK;
	return vs_why_set(why, VS_PARTIAL, "%llu MiB stay mapped: %s",
			  (unsigned long long)
			  ((result->kept_bytes - before) >> 20),
			  result->kept[0].why);
}

/* What is retained of others than the plan's makes room, should it lack. */
static enum vs_status copy_out(struct vs_plan *plan, struct vs_transition *t,
			       struct vs_ledger_last *result,
			       struct vs_why *why)
{
	enum vs_status st;

	vs_transition_phase(t, "copying out", plan->bytes);
	st = open_all(plan, why);
	if (!st)
		st = vs_store_save(plan->items, plan->item_count, &t->meter,
				   why);
	if (st == VS_NOHOST && vs_retain_trim(false)) {
		vs_transition_phase(t, "copying out", plan->bytes);
		st = vs_store_save(plan->items, plan->item_count, &t->meter,
				   why);
	}
	close_all(plan);
	keep_backups(plan);
	result->copied_bytes = t->meter.copied;
	result->pageable_bytes = t->meter.pageable;
	result->unchanged_bytes = t->meter.unchanged;
	result->zero_bytes = t->meter.zero;
	return st;
}

static enum vs_status move_out(const struct vs_request *r,
			       struct vs_transition *t,
			       struct vs_ledger_last *result,
			       struct vs_why *why)
{
	struct vs_plan plan;
	enum vs_status st;

	st = vs_plan_sleep(&plan, r, result, why);
	if (st)
		return st;
	st = copy_out(&plan, t, result, why);
	if (!st) {
		vs_transition_phase(t, "releasing", plan.bytes);
		st = evict_all(&plan, result, why);
	}
	if (!st) {
		vs_plan_set_level(&plan, r->level);
		vs_transition_managed_out(r, &plan, t, result);
		if (r->level == 2)
			deepen(&plan);
		count_lost(&plan, result);
		if (unmap_imports(r, result, why))
			plan.kept_against_wish = true;
		st = judge(&plan, r, result, why);
	}
	vs_plan_drop(&plan);
	return st;
}

static enum vs_status sleep_at_rest(const struct vs_request *r,
				    struct vs_transition *t, double start,
				    struct vs_ledger_last *result,
				    struct vs_why *why)
{
	enum vs_status st;

	result->drain_seconds = vs_lock_now() - start;
	vs_ledger_enter(VS_SLEEPING);
	vs_transition_tidy();
	if (r->imports_only)
		st = unmap_imports(r, result, why);
	else
		st = move_out(r, t, result, why);
	vs_retain_settle();	/* of what has stayed */
	if (st && st != VS_PARTIAL) {
		vs_gate_open(VS_HOLD_OPERATION);
		vs_ledger_enter(vs_state_settled());
		return st;
	}
	if (!r->imports_only)
		vs_state_slept(r);
	result->seconds = vs_lock_now() - start;
	if (r->hold != VS_NO)
		vs_gate_keep(VS_HOLD_ASLEEP);
	vs_gate_open(VS_HOLD_OPERATION);
	vs_ledger_commit(vs_state_settled(), vs_state_asleep(), result);
	vs_log_info("asleep: %llu MiB released, %llu MiB copied, %.3f s",
		    (unsigned long long)(result->released_bytes >> 20),
		    (unsigned long long)(result->copied_bytes >> 20),
		    result->seconds);
	return st;
}

static bool held_enough(const struct vs_request *r)
{
	return r->hold == VS_NO || vs_gate_holds() & VS_HOLD_ASLEEP;
}

/* What sleeps already, while the program runs on, is to hold it now; also where
 * it has closed what it had mapped of others while it was brought to rest: the
 * rest of its group counts on it. */
static enum vs_status hold_sleeper(const struct vs_request *r,
				   struct vs_transition *t,
				   struct vs_why *why)
{
	enum vs_status st = vs_transition_rest(r, t, why);

	if (st)
		return st;
	vs_gate_keep(VS_HOLD_ASLEEP);
	vs_gate_open(VS_HOLD_OPERATION);
	vs_ledger_enter(vs_state_settled());
	return r->imports_only ? VS_OK : judged_before(r, why);
}

enum vs_status vs_transition_sleep(const struct vs_request *request,
				   struct vs_transition *t,
				   struct vs_why *why)
{
	struct vs_ledger_last result = { 0 };
	double start = vs_lock_now();
	enum vs_status st;
	bool done;

	st = vs_transition_check(request, why);
	done = !st && already(request);
	if (st || (done && held_enough(request))) {
		if (request->rest)
			vs_gate_open(VS_HOLD_OPERATION);
		return st ? st : judged_before(request, why);
	}
	if (done)
		return hold_sleeper(request, t, why);
	vs_transition_announce();
	st = vs_transition_rest(request, t, why);
	return st ? st : sleep_at_rest(request, t, start, &result, why);
}
