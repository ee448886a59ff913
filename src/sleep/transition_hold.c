/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/transition.h"
#include "sleep/callback.h"
#include "sleep/exit.h"
#include "sleep/gate.h"
#include "sleep/ledger.h"
#include "sleep/pass.h"
#include "sleep/quiesce.h"
#include "sleep/state.h"
#include "memory/arena.h"
#include "memory/graph_memory.h"
#include "memory/pool.h"
#include "memory/quarantine.h"
#include "memory/spare.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

bool vs_transition_cancel(struct vs_transition *t)
{
	int open = VS_TURN_OPEN;

	if (!atomic_compare_exchange_strong(&t->turn, &open,
					    VS_TURN_CANCELLED))
		return false;
	atomic_store(&t->cancel, true);
	return true;
}

bool vs_transition_begin(struct vs_transition *t)
{
	int open = VS_TURN_OPEN;

	return atomic_compare_exchange_strong(&t->turn, &open, VS_TURN_BEGUN);
}

enum vs_status vs_transition_able(struct vs_why *why)
{
	int count = vs_context_count();

	/* With nothing asleep a lost context may since have been replaced. */
	if (vs_state_settled() != VS_AWAKE && vs_state_dead(why))
		return VS_FAILED;
	if (count > VS_CONTEXT_MAX)
		return vs_why_set(why, VS_REFUSED, "%d contexts: more than "
				  "the %d that can be brought to rest", count,
				  VS_CONTEXT_MAX);
	return VS_OK;
}

static bool undisturbed(void)
{
	return vs_state_settled() == VS_AWAKE && !vs_gate_holds();
}

void vs_transition_announce(void)
{
	if (!undisturbed())
		return;
	vs_callback_before();
	vs_real.cuCtxSetCurrent(NULL);	/* what they left is theirs */
}

void vs_transition_settle(void)
{
	if (!undisturbed())
		return;
	vs_exit_disarm();
	vs_callback_after();
	vs_real.cuCtxSetCurrent(NULL);
}

/* An exit that began meanwhile finds the state changed, or is found here. */
static enum vs_status take_over(struct vs_why *why)
{
	if (!vs_gate_closing())
		return VS_OK;
	vs_gate_open(VS_HOLD_OPERATION);
	return vs_why_set(why, VS_REFUSED, "the process exits");
}

/* The operator's hold is on before it counts: a resume from here on takes it
 * off, an earlier one has taken the pause back. */
static enum vs_status begin_at_rest(const struct vs_request *request,
				    struct vs_transition *t,
				    struct vs_why *why)
{
	bool pause = request->verb == VS_VERB_PAUSE;

	if (pause)
		vs_gate_keep(VS_HOLD_OPERATOR);
	if (vs_transition_begin(t))
		return VS_OK;
	if (pause)
		vs_gate_open(VS_HOLD_OPERATOR);
	vs_gate_open(VS_HOLD_OPERATION);
	return vs_why_set(why, VS_CANCELLED, "cancelled");
}

enum vs_status vs_transition_rest(const struct vs_request *request,
				  struct vs_transition *t,
				  struct vs_why *why)
{
	enum vs_status st;

	vs_transition_phase(t, "draining", 0);
	vs_exit_arm();
	vs_ledger_enter(VS_DRAINING);
	if (request->step || request->steady)
		st = vs_quiesce_steady(request->timeout_ms / 1000.0,
				       request->rest, &t->cancel, why);
	else if (request->rest)
		st = take_over(why);
	else
		st = vs_quiesce(request->timeout_ms / 1000.0, &t->cancel, why);
	if (!st)
		st = begin_at_rest(request, t, why);
	if (st == VS_FAILED)
		vs_state_die(why);
	else if (st)
		vs_ledger_enter(vs_state_settled());
	return st;
}

enum vs_status vs_transition_pause(const struct vs_request *request,
				   struct vs_transition *t,
				   struct vs_why *why)
{
	enum vs_status st = vs_transition_able(why);

	if (st || vs_gate_holds() & VS_HOLD_OPERATOR) {
		if (request->rest)
			vs_gate_open(VS_HOLD_OPERATION);
		return st;
	}
	st = vs_transition_rest(request, t, why);
	if (st)
		return st;
	vs_gate_open(VS_HOLD_OPERATION);
	vs_ledger_enter(vs_state_settled());
	vs_log_info("paused");
	return VS_OK;
}

enum vs_status vs_transition_quiesce(const struct vs_request *request,
				     struct vs_transition *t,
				     struct vs_why *why)
{
	enum vs_status st = vs_transition_able(why);

	if (st) {
		if (request->rest)
			vs_gate_open(VS_HOLD_OPERATION);
		return st;
	}
	vs_transition_announce();
	st = vs_transition_rest(request, t, why);
	if (!st)
		vs_ledger_enter(vs_state_settled());
	return st;
}

void vs_transition_let_go(void)
{
	vs_gate_open(VS_HOLD_OPERATION);
	vs_transition_settle();
}

void vs_transition_tidy(void)
{
	struct vs_context *contexts[VS_CONTEXT_MAX];
	int i, count;

	vs_pass_settle();
	count = vs_context_pin_all(contexts, VS_CONTEXT_MAX);
	vs_pool_settle();
	for (i = 0; i < count; i++) {
		vs_quarantine_settle(contexts[i]->device);
		vs_spare_stop();
		vs_arena_trim(contexts[i]->device);
		vs_spare_trim(contexts[i]->device);
		vs_spare_go_on();
		vs_context_unpin(contexts[i]);
	}
	vs_graph_memory_settle();
	vs_vmm_retry();
}
