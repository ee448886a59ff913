/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/transition.h"
#include "sleep/gate.h"
#include "sleep/ledger.h"
#include "sleep/plan.h"
#include "sleep/retain.h"
#include "sleep/state.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/ipc_import.h"
#include "memory/vmm.h"
#include "backup/page_math.h"
#include "base/config.h"
#include "base/driver.h"
#include "base/log.h"

void vs_transition_phase(struct vs_transition *t, const char *word,
			 uint64_t total)
{
	atomic_store(&t->total, total);
	atomic_store(&t->meter.done, 0);
	atomic_store(&t->phase, word);
}

/* On failure nothing that this wake made is left. */
static void undo_wake(struct vs_plan *plan)
{
	struct vs_step *step;
	size_t i;

	for (i = 0; i < plan->step_count; i++) {
		step = &plan->steps[i];
		if (step->mapped)
			vs_backing_unback(step->segment, step->chunk,
					  step->handle);
		else if (step->handle)
			vs_vmm_release(step->handle, step->chunk->size);
	}
}

static void say_shortage(const struct vs_plan *plan, CUdevice device,
			 struct vs_why *why)
{
	struct vs_context_scope scope;
	size_t available = 0, total, need = 0, i;
	int k;

	for (i = 0; i < plan->step_count; i++)
		if (plan->steps[i].segment->device == device)
			need += plan->steps[i].chunk->size;
	for (k = 0; k < plan->context_count; k++) {
		if (plan->contexts[k]->device != device ||
		    vs_context_enter(plan->contexts[k], &scope, NULL))
			continue;
		if (vs_real.cuMemGetInfo_v2(&available, &total))
			available = 0;
		vs_context_leave(&scope);
		break;
	}
	vs_why_set(why, VS_NOMEM, "device %d: need %zu MiB, have %zu MiB",
		   device, need >> 20, available >> 20);
}

static enum vs_status create_all(struct vs_plan *plan, struct vs_why *why)
{
	struct vs_step *step;
	enum vs_status st;
	size_t i;

	for (i = 0; i < plan->step_count; i++) {
		step = &plan->steps[i];
		st = vs_backing_create(step->segment, step->chunk,
				       &step->handle, why);
		if (st) {
			step->handle = 0;
			step->lacking = true;
			return st;
		}
	}
	return VS_OK;
}

/* Item n of a wake is that of step n.  On the thread of its device. */
static enum vs_status map_one(void *arg, size_t index, struct vs_why *why)
{
	struct vs_plan *plan = arg;
	struct vs_step *step = &plan->steps[index];
	enum vs_status st;

	st = vs_backing_map(step->segment, step->chunk, step->handle, why);
	step->mapped = st == VS_OK;
	if (!st)
		st = vs_backing_open(step->segment, step->chunk, step->handle,
				     &plan->items[index].base, why);
	step->lacking = st != VS_OK;
	return st;
}

static CUdevice failed_device(const struct vs_plan *plan)
{
	size_t i;

	for (i = 0; i < plan->step_count; i++)
		if (plan->steps[i].lacking)
			return plan->steps[i].segment->device;
	return 0;
}

/* A context that is lost answers every call with its error. */
static bool contexts_lost(const struct vs_plan *plan)
{
	struct vs_context_scope scope;
	CUresult rc = CUDA_SUCCESS;
	int i;

	for (i = 0; !rc && i < plan->context_count; i++) {
		if (vs_context_enter(plan->contexts[i], &scope, NULL))
			continue;
		if (plan->contexts[i]->stream)
			rc = vs_real.cuStreamQuery(plan->contexts[i]->stream);
		vs_context_leave(&scope);
	}
	return vs_driver_sticky(rc);
}

/* Items and steps are in the same order. */
static void say_difference(const struct vs_plan *plan,
			   const struct vs_store_verdict *verdict,
			   struct vs_why *why)
{
	const struct vs_segment *segment = plan->steps[verdict->item].segment;
	const struct vs_chunk *chunk = plan->steps[verdict->item].chunk;
	CUdeviceptr base = plan->items[verdict->item].base - chunk->offset;

	vs_why_set(why, VS_CUDA, "verify: tag %s, 0x%llx, page %zu of %zu "
		   "(2 MiB): differs from its backup, which is kept",
		   vs_tag_name(segment->tag),
		   segment->base ? segment->base : base,
		   chunk->offset / VS_PAGE + verdict->page + 1,
		   (segment->size + VS_PAGE - 1) / VS_PAGE);
}

static bool to_verify(const struct vs_request *r)
{
	return r->verify == VS_YES ||
	       (r->verify == VS_DEFAULT && vs_config.verify);
}

/* A look that failed because a context is lost must not pass for a wake. */
static enum vs_status verify(struct vs_plan *plan, struct vs_transition *t,
			     struct vs_ledger_last *result,
			     struct vs_why *why)
{
	struct vs_store_verdict verdict;
	enum vs_status st;

	vs_transition_phase(t, "verifying", plan->bytes);
	st = vs_store_verify(plan->items, plan->item_count, &t->meter,
			     &verdict, why);
	if (verdict.differs)
		say_difference(plan, &verdict, why);
	if (!st && verdict.unverified && contexts_lost(plan))
		st = vs_why_set(why, VS_CUDA, "verify: a context was lost");
	if (!st && verdict.unverified)
		vs_log_warn("%llu MiB could not be verified",
			    (unsigned long long)(verdict.unverified >> 20));
	result->verified_bytes = verdict.verified;
	result->unverified_bytes = verdict.unverified;
	return st;
}

static enum vs_status bring_back(struct vs_plan *plan,
				 const struct vs_request *r,
				 struct vs_transition *t,
				 struct vs_ledger_last *result,
				 struct vs_why *why)
{
	enum vs_status st = VS_OK;

	if (!r->own_only)
		st = vs_ipc_wake(vs_plan_tags(r), why);
	if (st)
		return st;
	st = create_all(plan, why);
	if (!st && !vs_transition_begin(t))
		st = vs_why_set(why, VS_CANCELLED, "cancelled");
	if (!st) {
		vs_transition_phase(t, "copying in", plan->bytes);
		st = vs_store_load(plan->items, plan->item_count, map_one,
				   plan, &t->meter, why);
		result->copied_bytes = t->meter.copied;
	}
	if (!st && to_verify(r))
		st = verify(plan, t, result, why);
	if (!st)
		return VS_OK;
	undo_wake(plan);
	if (!r->own_only)
		vs_ipc_unwake();
	if (st == VS_NOMEM)
		say_shortage(plan, failed_device(plan), why);
	return st;
}

/* The backups are retained, for now. */
static void commit_wake(struct vs_plan *plan, struct vs_ledger_last *result)
{
	struct vs_step *step;
	size_t i;

	for (i = 0; i < plan->step_count; i++) {
		step = &plan->steps[i];
		result->restored_bytes += step->chunk->size;
		vs_lock_take(&vs_segment_lock);
		step->chunk->handle = step->handle;
		step->chunk->state = VS_CHUNK_RESIDENT;
		vs_lock_drop(&vs_segment_lock);
	}
	for (i = 0; i < plan->segment_count; i++)
		vs_backing_close(plan->segments[i]);
	vs_plan_set_level(plan, 0);
}

static enum vs_status wake_failed(const struct vs_plan *plan,
				  enum vs_status st, struct vs_why *why)
{
	if (st != VS_NOMEM && st != VS_CANCELLED && contexts_lost(plan)) {
		why->status = VS_FAILED;
		vs_log_error("still asleep, and for good: %s", why->text);
		vs_state_die(why);
		return VS_FAILED;
	}
	vs_ledger_enter(vs_state_settled());
	return st;
}

static void wake_done(const struct vs_request *r, double start,
		      struct vs_ledger_last *result)
{
	vs_state_woke(r);
	result->seconds = vs_lock_now() - start;
	if (vs_state_settled() == VS_AWAKE || r->hold == VS_NO)
		vs_gate_open(VS_HOLD_ASLEEP);
	vs_ledger_commit(vs_state_settled(), vs_state_asleep(), result);
	vs_log_info("%s: %llu MiB restored, %.3f s",
		    vs_ledger_state_word(vs_state_settled()),
		    (unsigned long long)(result->restored_bytes >> 20),
		    result->seconds);
}

enum vs_status vs_transition_wake(const struct vs_request *request,
				  struct vs_transition *t,
				  struct vs_why *why)
{
	struct vs_ledger_last result = { 0 };
	double start = vs_lock_now();
	struct vs_plan plan;
	enum vs_status st;

	if (vs_state_dead(why))
		return VS_FAILED;
	if (!vs_state_touches(request)) {
		if (!vs_transition_begin(t))
			return VS_CANCELLED;
		if (vs_state_settled() == VS_AWAKE || request->hold == VS_NO)
			vs_gate_open(VS_HOLD_ASLEEP);
		return VS_OK;
	}
	vs_vmm_retry();
	st = vs_plan_wake(&plan, request, why);
	if (st)
		return st;
	vs_transition_phase(t, "creating", plan.bytes);
	vs_ledger_enter(VS_WAKING);
	st = bring_back(&plan, request, t, &result, why);
	if (st) {
		st = wake_failed(&plan, st, why);
	} else {
		commit_wake(&plan, &result);
		vs_transition_managed_back(request, t, &result);
		wake_done(request, start, &result);
	}
	vs_plan_drop(&plan);
	return st;
}

void vs_transition_clean_up(void)
{
	vs_retain_settle();
	vs_arena_sweep();
}
