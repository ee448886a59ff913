/* SPDX-License-Identifier: Apache-2.0 */
/* A group at rest, and the exit of who is held without sleeping. */
#include <config.h>

#include "gate_guest.h"
#include "rest_fixture.h"

#include "base/config.h"
#include "memory/detach.h"
#include "sleep/exit.h"
#include "sleep/gate.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define HELD VS_HOLD_OPERATION

static const struct vs_request quiesce_it = {
	.verb = VS_VERB_QUIESCE, .timeout_ms = 60000, .lease_ms = 60000,
};

/* A quiesce that holds. */
static struct vs_job *at_rest(unsigned lease_ms)
{
	struct vs_request request = quiesce_it;
	struct vs_job *job;

	request.lease_ms = lease_ms;
	job = rest_submit(&request);
	ck_assert_uint_eq(rest_wait_for(job, VS_OK).ledger.holds & HELD, HELD);
	return job;
}

/* The same, as the client does it: asked, and then forgotten. */
static struct vs_job *take_over(const struct vs_request *plain,
				struct vs_job *rest)
{
	struct vs_request request = *plain;
	struct vs_job *job;

	request.rest = rest;
	job = rest_submit(&request);
	vs_operation_forget(rest);
	return job;
}

START_TEST(a_group_is_at_rest_until_it_is_let_go)
{
	unsigned long drains;
	struct vs_job *rest;

	rest_start();
	rest = at_rest(60000);
	rest_assert_awake(HELD);
	drains = sim_calls("cuCtxRecordEvent");
	rest_end(take_over(&rest_sleep_all, rest), VS_OK);
	ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), drains);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest = at_rest(60000);
	drains = sim_calls("cuCtxRecordEvent");
	rest_end(take_over(&rest_pause_it, rest), VS_OK);
	ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), drains);
	rest_assert_awake(VS_HOLD_OPERATOR);
	vs_operation_resume();
	rest = at_rest(60000);
	vs_operation_forget(rest);
	rest_wait_holds(0);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_step_lets_one_call_go_and_then_it_rests_again)
{
	struct vs_request steady = quiesce_it, step = quiesce_it;
	struct vs_job *rest, *next;
	struct vs_reply reply;
	struct guest g;

	rest_start();
	steady.steady = step.steady = step.step = true;
	rest = rest_submit(&steady);
	rest_wait_for(rest, VS_OK);
	rest_assert_awake(HELD);
	guest_send_in(&g, "cuLaunchKernel");
	guest_wait_held(1);
	next = take_over(&step, rest);
	guest_wait_inside(&g);
	ck_assert(!vs_operation_done(next, &reply));
	ck_assert_uint_eq(vs_gate_holds(), HELD);
	guest_send_out(&g);
	rest_wait_for(next, VS_OK);
	rest_assert_awake(HELD);
	/* With nobody at the gate nothing changes. */
	rest = next;
	next = take_over(&step, rest);
	rest_wait_for(next, VS_OK);
	rest_end(take_over(&rest_sleep_all, next), VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_step_that_does_not_end_in_time_lets_the_program_go)
{
	struct vs_request step = quiesce_it;
	struct vs_reply reply;
	struct vs_job *rest;
	struct guest g;

	rest_start();
	rest = at_rest(60000);
	guest_send_in(&g, "cuLaunchKernel");
	guest_wait_held(1);
	step.step = true;
	step.timeout_ms = 50;
	reply = rest_end(take_over(&step, rest), VS_BUSY);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "cuLaunchKernel"));
	rest_wait_holds(0);
	guest_send_out(&g);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_group_whose_client_leaves_while_it_drains_is_let_go)
{
	struct vs_request dry = rest_sleep_all;
	struct vs_job *job;

	rest_start();
	rest_hold_drain();
	job = rest_submit(&quiesce_it);
	rest_wait_draining(job);
	vs_operation_forget(job);
	/* It does not wait for the program any more. */
	dry.dry_run = true;
	rest_ask(&dry, VS_OK);
	rest_let_drain();
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_lease_ends_by_itself_and_a_sleep_then_drains_anew)
{
	unsigned long drains;
	struct vs_job *rest;

	rest_start();
	rest = at_rest(1);
	rest_wait_holds(0);
	drains = sim_calls("cuCtxRecordEvent");
	rest_end(take_over(&rest_sleep_all, rest), VS_OK);
	ck_assert_uint_gt(sim_calls("cuCtxRecordEvent"), drains);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

START_TEST(others_wait_until_a_group_is_let_go)
{
	struct vs_request dry = rest_sleep_all;
	struct vs_job *rest, *other;
	struct vs_reply reply;

	rest_start();
	rest = at_rest(60000);
	other = rest_submit(_i ? &rest_pause_it : &rest_sleep_all);
	/* Behind it in the queue; of the two it alone may go on. */
	dry.dry_run = true;
	rest_ask(&dry, VS_OK);
	ck_assert(!vs_operation_done(other, &reply));
	rest_assert_awake(HELD);
	rest_end(take_over(_i ? &rest_sleep_all : &rest_pause_it, rest), VS_OK);
	rest_end(other, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(),
			  VS_HOLD_ASLEEP | VS_HOLD_OPERATOR);
	ck_assert_uint_eq(fixture_ledger().sequence, 1);
}
END_TEST

/* _i: 0 a wake, 1 a cancel, while it holds; 2 a wake while it drains. */
START_TEST(a_group_that_was_ended_does_not_sleep)
{
	struct vs_request request = rest_sleep_all;
	struct vs_why why = { 0 };

	rest_start();
	if (_i == 2)
		rest_hold_drain();
	request.rest = _i == 2 ? rest_submit(&quiesce_it) : at_rest(60000);
	if (_i == 2)
		rest_wait_draining(request.rest);
	if (_i == 1)
		ck_assert_int_eq(vs_operation_cancel(), 1);
	else
		rest_ask(&rest_wake_all, VS_OK);
	if (_i == 2) {
		rest_end(request.rest, VS_CANCELLED);
		rest_let_drain();
		rest_assert_awake(0);
		return;
	}
	rest_wait_holds(0);
	ck_assert_ptr_null(vs_operation_submit(&request, -1, &why));
	ck_assert_int_eq(why.status, VS_CANCELLED);
	ck_assert_ptr_nonnull(strstr(why.text, _i ? "a cancel" : "a wake"));
	vs_operation_forget(request.rest);
	rest_assert_awake(0);
}
END_TEST

/* Also when it has just come to rest, and nobody knows yet. */
START_TEST(a_wake_never_waits_for_a_group)
{
	double since = vs_lock_now();
	struct vs_job *job;
	int i, k;

	rest_start();
	for (i = 0; i < 300 && vs_lock_now() < since + 15; i++) {
		job = rest_submit(&quiesce_it);
		rest_wait_phase(job, "draining");
		for (k = 0; k < i % 30; k++)
			sched_yield();
		rest_ask(&rest_wake_all, VS_OK);
		vs_operation_forget(job);
	}
	rest_wait_holds(0);
	rest_assert_awake(0);
}
END_TEST

/* _i: 0 refused, 1 nothing to do, 2 no host memory. */
START_TEST(a_group_is_let_go_also_by_a_sleep_that_comes_to_nothing)
{
	struct vs_request request = rest_sleep_all;

	rest_start();
	if (_i == 0)
		request.level = 2;
	if (_i == 1)
		rest_ask(&rest_sleep_all, VS_OK);
	if (_i == 2)
		vs_config.host_limit = MIB;
	rest_end(take_over(&request, at_rest(60000)),
	    _i == 0 ? VS_REFUSED : _i == 1 ? VS_OK : VS_NOHOST);
	ck_assert_uint_eq(vs_gate_holds(), _i == 1 ? VS_HOLD_ASLEEP : 0);
	if (_i == 1)
		rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_dry_run_is_answered_while_a_group_is_at_rest)
{
	struct vs_request dry = rest_sleep_all;
	struct vs_job *rest;

	rest_start();
	dry.dry_run = true;
	rest = at_rest(60000);
	ck_assert_uint_eq(rest_ask(&dry, VS_OK).outlook.release_bytes, LARGE);
	rest_assert_awake(HELD);
	vs_operation_forget(rest);
	rest_wait_holds(0);
}
END_TEST

/* It would wait for ever for a context that the rest keeps. */
START_TEST(a_context_may_go_while_a_group_is_at_rest)
{
	CUcontext context;
	struct vs_job *rest;

	rest_start();
	context = fixture_new_context(0);
	fixture_current(fixture_context);
	rest = at_rest(60000);
	vs_detach_drop(vs_detach_take(context, 0));
	ck_ok(vs_real.cuCtxDestroy_v2(context));
	rest_end(take_over(&rest_sleep_all, rest), VS_OK);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

/* _i: 0 paused, 1 at rest, 2 asleep and paused. */
START_TEST(an_exit_is_not_held)
{
	struct vs_job *rest = NULL;

	rest_start();
	if (_i == 1)
		rest = at_rest(60000);
	else
		rest_ask(&rest_pause_it, VS_OK);
	if (_i == 2)
		rest_ask(&rest_sleep_all, VS_OK);
	vs_exit_now();
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	fixture_assert_filled(rest_base, LARGE);
	/* What was at rest is so no more. */
	if (_i == 1)
		rest_end(take_over(&rest_sleep_all, rest), VS_REFUSED);
	rest_ask(&rest_sleep_all, VS_REFUSED);
	fixture_assert_filled(rest_base, LARGE);
	ck_assert_uint_eq(sim_used(0), LARGE);
}
END_TEST

static void *leave(void *unused)
{
	vs_exit_now();
	return unused;
}

START_TEST(an_exit_takes_back_a_pause_that_drains)
{
	struct vs_job *job;
	pthread_t thread;

	rest_start();
	rest_hold_drain();
	job = rest_submit(&rest_pause_it);
	rest_wait_draining(job);
	ck_assert_int_eq(pthread_create(&thread, NULL, leave, NULL), 0);
	rest_end(job, VS_CANCELLED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	rest_let_drain();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_group_is_at_rest_until_it_is_let_go);
	tcase_add_test(tc,
		a_step_lets_one_call_go_and_then_it_rests_again);
	tcase_add_test(tc,
		a_step_that_does_not_end_in_time_lets_the_program_go);
	tcase_add_test(tc,
		a_group_whose_client_leaves_while_it_drains_is_let_go);
	tcase_add_test(tc, a_lease_ends_by_itself_and_a_sleep_then_drains_anew);
	tcase_add_loop_test(tc, others_wait_until_a_group_is_let_go, 0, 2);
	tcase_add_loop_test(tc, a_group_that_was_ended_does_not_sleep, 0, 3);
	tcase_add_test(tc, a_wake_never_waits_for_a_group);
	tcase_add_loop_test(tc,
		a_group_is_let_go_also_by_a_sleep_that_comes_to_nothing, 0, 3);
	tcase_add_test(tc, a_dry_run_is_answered_while_a_group_is_at_rest);
	tcase_add_test(tc, a_context_may_go_while_a_group_is_at_rest);
	tcase_add_loop_test(tc, an_exit_is_not_held, 0, 3);
	tcase_add_test(tc, an_exit_takes_back_a_pause_that_drains);
}

int main(void)
{
	return fixture_main("rest", fill);
}
