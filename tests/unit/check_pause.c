/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses, what is taken back, and who is held. */
#include <config.h>

#include "rest_fixture.h"

#include "sleep/gate.h"

#include <sched.h>
#include <string.h>

START_TEST(a_pause_holds_until_resume_and_moves_nothing)
{
	struct vs_reply reply;

	rest_start();
	reply = rest_ask(&rest_pause_it, VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(reply.ledger.holds, VS_HOLD_OPERATOR);
	ck_assert_uint_eq(reply.ledger.resident_bytes, LARGE);
	rest_assert_awake(VS_HOLD_OPERATOR);
	ck_assert_uint_eq(sim_calls("cuMemcpyDtoHAsync_v2"), 0);
	vs_operation_resume();
	rest_assert_awake(0);
	vs_operation_resume();
	rest_assert_awake(0);
	ck_assert_uint_eq(fixture_ledger().sequence, 0);
}
END_TEST

START_TEST(what_is_paused_is_not_brought_to_rest_again)
{
	unsigned long drains;

	rest_start();
	rest_ask(&rest_pause_it, VS_OK);
	drains = sim_calls("cuCtxRecordEvent");
	ck_assert_uint_gt(drains, 0);
	rest_ask(&rest_pause_it, VS_OK);
	ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), drains);
	rest_assert_awake(VS_HOLD_OPERATOR);
}
END_TEST

START_TEST(a_paused_program_sleeps_wakes_and_stays_paused)
{
	struct vs_request let_run = rest_wake_all;

	rest_start();
	let_run.hold = VS_NO;
	rest_ask(&rest_pause_it, VS_OK);
	rest_ask(&rest_sleep_all, VS_OK);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(vs_gate_holds(),
			  VS_HOLD_ASLEEP | VS_HOLD_OPERATOR);
	rest_ask(_i ? &let_run : &rest_wake_all, VS_OK);
	rest_assert_awake(VS_HOLD_OPERATOR);
	vs_operation_resume();
	rest_assert_awake(0);
}
END_TEST

START_TEST(what_sleeps_stays_held_when_its_pause_is_over)
{
	rest_start();
	rest_ask(&rest_sleep_all, VS_OK);
	ck_assert_int_eq(rest_ask(&rest_pause_it, VS_OK).ledger.state,
			 VS_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(),
			  VS_HOLD_ASLEEP | VS_HOLD_OPERATOR);
	vs_operation_resume();
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_pause_that_cannot_be_had_leaves_all_as_it_was)
{
	struct vs_request hasty = rest_pause_it;

	rest_start();
	rest_hold_drain();
	hasty.timeout_ms = 50;
	ck_assert_str_ne(rest_ask(&hasty, VS_BUSY).why.text, "");
	rest_let_drain();
	rest_assert_awake(0);
}
END_TEST

START_TEST(pauses_are_joined_and_a_resume_takes_them_back)
{
	struct vs_job *first, *second;
	struct vs_reply reply;

	rest_start();
	rest_hold_drain();
	first = rest_submit(&rest_pause_it);
	rest_wait_draining(first);
	second = rest_submit(&rest_pause_it);
	ck_assert_ptr_eq(first, second);
	vs_operation_resume();
	reply = rest_end(first, VS_CANCELLED);
	ck_assert_str_eq(reply.why.text, "cancelled by a resume");
	rest_end(second, VS_CANCELLED);
	rest_let_drain();
	rest_assert_awake(0);
}
END_TEST

/* A sleep drains, a pause is queued behind it. */
START_TEST(a_resume_takes_effect_whatever_runs)
{
	struct vs_job *first, *second;

	rest_start();
	rest_ask(&rest_pause_it, VS_OK);
	rest_hold_drain();
	first = rest_submit(&rest_sleep_all);
	rest_wait_draining(first);
	second = rest_submit(&rest_pause_it);
	vs_operation_resume();
	ck_assert_uint_eq(vs_gate_holds() & VS_HOLD_OPERATOR, 0);
	rest_end(second, VS_CANCELLED);
	ck_assert_int_eq(fixture_ledger().state, VS_DRAINING);
	rest_let_drain();
	rest_end(first, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

/* With the streams held the copies wait. */
START_TEST(a_resume_while_memory_moves_opens_nothing)
{
	struct vs_job *moves;

	rest_start();
	rest_ask(&rest_pause_it, VS_OK);
	sim_hold(1);
	moves = rest_submit(&rest_sleep_all);
	rest_wait_phase(moves, "copying out");
	vs_operation_resume();
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_OPERATION);
	ck_assert(!vs_gate_try("cuOne"));
	sim_hold(0);
	rest_end(moves, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

/* However far it has come: taken back, or its hold comes off. */
START_TEST(a_pause_never_outlives_a_later_resume)
{
	struct vs_reply reply;
	struct vs_job *job;
	int i, k;

	rest_start();
	for (i = 0; i < 300; i++) {
		job = rest_submit(&rest_pause_it);
		if (i % 2)
			rest_wait_phase(job, "draining");
		for (k = 0; k < i % 30; k++)
			sched_yield();
		vs_operation_resume();
		while (!vs_operation_done(job, &reply))
			sched_yield();
		vs_operation_forget(job);
		ck_assert_uint_eq(vs_gate_holds(), 0);
	}
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_wake_does_not_take_a_pause_back)
{
	struct vs_job *pauses, *wakes;

	rest_start();
	rest_hold_drain();
	pauses = rest_submit(&rest_pause_it);
	rest_wait_draining(pauses);
	wakes = rest_submit(&rest_wake_all);
	rest_let_drain();
	rest_end(pauses, VS_OK);
	rest_end(wakes, VS_OK);
	rest_assert_awake(VS_HOLD_OPERATOR);
}
END_TEST

/* One drains, one is queued behind it: both, and each is told. */
START_TEST(a_cancel_takes_back_what_drains_and_what_is_queued)
{
	struct vs_job *drains, *queued;
	struct vs_reply reply;

	rest_start();
	rest_hold_drain();
	drains = rest_submit(_i ? &rest_pause_it : &rest_sleep_all);
	rest_wait_draining(drains);
	queued = rest_submit(_i ? &rest_sleep_all : &rest_pause_it);
	ck_assert_int_eq(vs_operation_cancel(), 2);
	ck_assert_int_eq(vs_operation_cancel(), 0);
	reply = rest_end(queued, VS_CANCELLED);
	ck_assert_str_eq(reply.why.text, "cancelled by a cancel");
	rest_end(drains, VS_CANCELLED);
	rest_let_drain();
	rest_assert_awake(0);
	ck_assert_int_eq(vs_operation_cancel(), 0);
	rest_ask(&rest_sleep_all, VS_OK);
}
END_TEST

START_TEST(a_cancel_takes_back_what_waits_for_memory)
{
	struct vs_request patient = rest_wake_all;
	struct vs_job *waits;

	rest_start();
	rest_ask(&rest_sleep_all, VS_OK);
	sim_limit(0, MIB);
	patient.wait_ms = 60000;
	waits = rest_submit(&patient);
	rest_wait_phase(waits, "waiting for memory");
	ck_assert_int_eq(vs_operation_cancel(), 1);
	ck_assert_int_eq(rest_end(waits, VS_CANCELLED).ledger.state, VS_ASLEEP);
	ck_assert_uint_eq(sim_used(0), 0);
	sim_limit(0, 256 * MIB);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

/* _i: 0 a sleep, 1 a wake; with the streams held the copies wait. */
START_TEST(a_cancel_leaves_what_moves_memory_alone)
{
	struct vs_job *moves, *queued;

	rest_start();
	if (_i)
		rest_ask(&rest_sleep_all, VS_OK);
	sim_hold(1);
	moves = rest_submit(_i ? &rest_wake_all : &rest_sleep_all);
	rest_wait_phase(moves, _i ? "copying in" : "copying out");
	queued = rest_submit(&rest_pause_it);
	ck_assert_int_eq(vs_operation_cancel(), 1);
	rest_end(queued, VS_CANCELLED);
	sim_hold(0);
	rest_end(moves, VS_OK);
	if (!_i)
		rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
}
END_TEST

START_TEST(a_cancel_is_heeded_while_a_thread_is_inside_a_call)
{
	struct vs_job *drains;

	rest_start();
	ck_assert(vs_gate_enter("cuLong"));
	drains = rest_submit(&rest_sleep_all);
	/* The last slice, which is half the time. */
	rest_wait_holds(VS_HOLD_OPERATION);
	ck_assert_int_eq(vs_operation_cancel(), 1);
	rest_end(drains, VS_CANCELLED);
	vs_gate_leave();
	rest_assert_awake(0);
}
END_TEST

/* _i: 0 with the choice of who asks, 1 as the C API asks. */
START_TEST(who_sleeps_without_a_hold_is_held_when_it_is_asked_for)
{
	struct vs_request free_sleep = rest_sleep_all;
	struct vs_request hold_sleep = rest_sleep_all;

	rest_start();
	free_sleep.hold = VS_NO;
	hold_sleep.hold = _i ? VS_DEFAULT : VS_YES;
	ck_assert_int_eq(rest_ask(&free_sleep, VS_OK).ledger.state, VS_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	rest_ask(&free_sleep, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	rest_ask(&hold_sleep, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	rest_ask(&free_sleep, VS_OK);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
	ck_assert_uint_eq(fixture_ledger().sequence, 2);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_pause_holds_until_resume_and_moves_nothing);
	tcase_add_test(tc, what_is_paused_is_not_brought_to_rest_again);
	tcase_add_loop_test(tc, a_paused_program_sleeps_wakes_and_stays_paused,
			    0, 2);
	tcase_add_test(tc, what_sleeps_stays_held_when_its_pause_is_over);
	tcase_add_test(tc, a_pause_that_cannot_be_had_leaves_all_as_it_was);
	tcase_add_test(tc, pauses_are_joined_and_a_resume_takes_them_back);
	tcase_add_test(tc, a_resume_takes_effect_whatever_runs);
	tcase_add_test(tc, a_resume_while_memory_moves_opens_nothing);
	tcase_add_test(tc, a_pause_never_outlives_a_later_resume);
	tcase_add_test(tc, a_wake_does_not_take_a_pause_back);
	tcase_add_loop_test(tc,
		a_cancel_takes_back_what_drains_and_what_is_queued, 0, 2);
	tcase_add_test(tc, a_cancel_takes_back_what_waits_for_memory);
	tcase_add_loop_test(tc, a_cancel_leaves_what_moves_memory_alone, 0, 2);
	tcase_add_test(tc, a_cancel_is_heeded_while_a_thread_is_inside_a_call);
	tcase_add_loop_test(tc,
		who_sleeps_without_a_hold_is_held_when_it_is_asked_for, 0, 2);
}

int main(void)
{
	return fixture_main("pause", fill);
}
