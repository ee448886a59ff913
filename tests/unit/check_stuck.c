/* SPDX-License-Identifier: Apache-2.0 */
/* The launch queue of a stream is full: to record an event there takes until
 * the device has worked something off, and nothing of the program waits. */
#include <config.h>

#include "rest_fixture.h"

#include "base/lock.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "memory/detach.h"
#include "sleep/exit.h"
#include "sleep/gate.h"
#include "sleep/waiter.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 4
#define SOON 20.0	/* seconds; what does not wait is far below */
#define REASON "device 0 has taken no event for "

static CUdeviceptr native;
static CUstream crowded;	/* in the context where the queue is full */
static CUcontext other;		/* its only work is a memset */

static const struct vs_request sleep_soon = {
	.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true, .timeout_ms = 500,
};

static void start(void)
{
	setenv("VSLEEP_SIM_QUEUE", "4", 1);
	rest_start();
}

static void submit(CUstream stream)
{
	ck_ok(vs_real.cuMemsetD32Async(native, 7, 64, stream));
}

static void crowd(void)
{
	int i;

	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	ck_ok(vs_real.cuStreamCreate(&crowded, CU_STREAM_NON_BLOCKING));
	sim_hold(1);
	for (i = 0; i < QUEUE; i++)
		submit(crowded);
}

static void new_context(void)
{
	other = fixture_new_context(0);
	fixture_current(fixture_context);
}

/* The context of the full queue is asked last, or first. */
static void crowd_one_of_two(bool last)
{
	CUstream stream;

	if (last)
		new_context();
	crowd();
	if (!last)
		new_context();
	fixture_current(other);
	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	submit(stream);
	fixture_current(fixture_context);
}

static void until_stuck(void)
{
	double since = vs_lock_now();

	while (!vs_waiter_stuck(NULL)) {
		ck_assert(vs_lock_now() < since + SOON);
		sched_yield();
	}
}

/* Busy within its time, and the program is free. */
static void busy(void)
{
	double since = vs_lock_now();
	struct vs_reply reply = rest_ask(&sleep_soon, VS_BUSY);

	ck_assert_msg(strstr(reply.why.text, REASON), "%s", reply.why.text);
	ck_assert(vs_lock_now() < since + SOON);
	until_stuck();
	rest_assert_awake(0);
}

static unsigned long events(void)
{
	return fixture_sim().events;
}

/* The device works off its queue, and all is as it should be. */
static void relieve(void)
{
	double since = vs_lock_now();

	sim_hold(0);
	while (events()) {
		ck_assert(vs_lock_now() < since + SOON);
		sched_yield();
	}
	rest_ask(&rest_sleep_all, VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	ck_assert_uint_eq(events(), 0);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
	ck_assert(!vs_waiter_stuck(NULL));
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}

START_TEST(a_full_queue_is_named_in_time_and_the_program_goes_on)
{
	struct vs_reply reply;

	start();
	crowd();
	busy();
	/* It has not come back, so neither of these waits for it. */
	busy();
	reply = rest_ask(&(struct vs_request){ .verb = VS_VERB_SLEEP,
			 .level = 1, .all_tags = true, .dry_run = true },
			 VS_OK);
	ck_assert_int_eq(reply.outlook.obstacle_count, 1);
	ck_assert_ptr_nonnull(strstr(reply.outlook.obstacles[0], REASON));
	ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), 1);
	relieve();
}
END_TEST

START_TEST(a_dry_run_finds_a_full_queue_too)
{
	struct vs_request dry = rest_sleep_all;
	struct vs_reply reply;

	start();
	crowd();
	dry.dry_run = true;
	reply = rest_ask(&dry, VS_OK);
	ck_assert_int_eq(reply.outlook.obstacle_count, 1);
	ck_assert_ptr_nonnull(strstr(reply.outlook.obstacles[0], REASON));
	until_stuck();
	relieve();
}
END_TEST

/* What is behind the full queue is done while the request has time. */
START_TEST(a_queue_that_gets_room_is_waited_for)
{
	struct vs_job *job;

	start();
	crowd();
	job = rest_submit(&rest_sleep_all);
	rest_wait_draining(job);
	until_stuck();
	sim_hold(0);
	rest_end(job, VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	rest_ask(&rest_wake_all, VS_OK);
	relieve();
}
END_TEST

START_TEST(one_of_a_group_answers_and_lets_the_program_go)
{
	struct vs_request steady = {
		.verb = VS_VERB_QUIESCE, .timeout_ms = 500, .lease_ms = 60000,
		.steady = true,
	};
	struct vs_reply reply;

	start();
	crowd();
	reply = rest_ask(&steady, VS_BUSY);
	ck_assert_msg(strstr(reply.why.text, REASON), "%s", reply.why.text);
	rest_assert_awake(0);
	reply = rest_ask(&steady, VS_BUSY);
	rest_assert_awake(0);
	relieve();
}
END_TEST

START_TEST(a_request_that_is_stuck_can_be_cancelled)
{
	double since;
	struct vs_job *job;

	start();
	crowd();
	job = rest_submit(&rest_sleep_all);
	until_stuck();
	since = vs_lock_now();
	ck_assert_int_eq(vs_operation_cancel(), 1);
	rest_end(job, VS_CANCELLED);
	ck_assert(vs_lock_now() < since + SOON);
	rest_assert_awake(0);
	relieve();
}
END_TEST

/* A stream of this context begins a capture, on a thread of its own. */
struct beginner {
	CUcontext context;
	pthread_t thread;
	atomic_bool begun;
	CUresult ended;
};

static void *begin(void *arg)
{
	struct beginner *b = arg;
	CUstream stream;
	CUgraph graph;
	CUresult rc;

	vs_real.cuCtxSetCurrent(b->context);
	vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	vs_capture_begin_on(stream);
	rc = vs_real.cuStreamBeginCapture_v2(stream,
		CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	vs_capture_began(stream, false, rc);
	b->begun = true;
	b->ended = vs_real.cuStreamEndCapture(stream, &graph);
	vs_capture_ended(stream, false);
	vs_real.cuGraphDestroy(graph);
	vs_real.cuStreamDestroy_v2(stream);
	return NULL;
}

static void send(struct beginner *b, CUcontext context)
{
	b->context = context;
	b->begun = false;
	b->ended = CUDA_ERROR_UNKNOWN;
	ck_assert_int_eq(pthread_create(&b->thread, NULL, begin, b), 0);
}

static void meet(struct beginner *b)
{
	ck_assert_int_eq(pthread_join(b->thread, NULL), 0);
	ck_assert(b->begun);
	ck_ok(b->ended);
}

START_TEST(only_captures_in_that_context_wait)
{
	struct beginner same, elsewhere;
	double since;

	start();
	crowd_one_of_two(_i);
	busy();
	send(&same, fixture_context);
	send(&elsewhere, other);
	meet(&elsewhere);
	for (since = vs_lock_now(); vs_lock_now() < since + 0.05;)
		ck_assert(!same.begun);
	sim_hold(0);
	meet(&same);
	ck_ok(vs_real.cuCtxSynchronize());
	relieve();
}
END_TEST

START_TEST(streams_of_that_context_may_go)
{
	struct vs_capture_entry *capture;
	CUstream stream;

	start();
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	crowd();
	busy();
	capture = vs_capture_stream_leave(stream);
	vs_capture_stream_left(capture, vs_real.cuStreamDestroy_v2(stream));
	relieve();
}
END_TEST

/* It waits for what is in the full queue, as natively, and has no deadline. */
static void *give_back(void *base)
{
	vs_real.cuCtxSetCurrent(fixture_context);
	fixture_free(*(CUdeviceptr *)base);
	return NULL;
}

START_TEST(a_free_that_waits_holds_up_nobody)
{
	CUdeviceptr base;
	struct beginner b;
	pthread_t thread;
	double since;

	start();
	base = fixture_alloc("w", MIB);
	crowd_one_of_two(_i);
	ck_assert_int_eq(pthread_create(&thread, NULL, give_back, &base), 0);
	while (!sim_calls("cuCtxSynchronize"))
		sched_yield();
	since = vs_lock_now();
	rest_ask(&sleep_soon, VS_BUSY);
	ck_assert(vs_lock_now() < since + SOON);
	send(&b, other);
	meet(&b);
	send(&b, fixture_context);
	meet(&b);
	sim_hold(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	relieve();
}
END_TEST

/* _i: the driver does not come back from the begin of a capture, or from the
 * end of a stream that captures. */
START_TEST(a_capture_that_is_changing_holds_up_nobody)
{
	struct vs_capture_entry *leaving = NULL;
	CUdeviceptr base;
	struct beginner b;
	CUstream stream;
	double since;

	start();
	base = fixture_alloc("w", MIB);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	vs_capture_begin_on(stream);
	if (_i) {
		vs_capture_began(stream, false, CUDA_SUCCESS);
		leaving = vs_capture_stream_leave(stream);
		ck_assert_ptr_nonnull(leaving);
	}
	since = vs_lock_now();
	rest_ask(&sleep_soon, VS_BUSY);
	rest_assert_awake(0);
	fixture_free(base);
	send(&b, fixture_context);
	meet(&b);
	ck_assert(vs_lock_now() < since + SOON);
	ck_assert(vs_capture_any());
	if (_i)
		vs_capture_stream_left(leaving, CUDA_SUCCESS);
	else
		vs_capture_began(stream, false, CUDA_ERROR_UNKNOWN);
	ck_assert(!vs_capture_any());
	relieve();
}
END_TEST

static void destroy(CUcontext context)
{
	vs_detach_drop(vs_detach_take(context, 0));
	ck_ok(vs_real.cuCtxDestroy_v2(context));
}

START_TEST(other_contexts_may_go)
{
	CUcontext idle;

	start();
	idle = fixture_new_context(1);
	fixture_current(fixture_context);
	crowd_one_of_two(_i);
	busy();
	destroy(idle);
	/* The driver would wait for its work. */
	vs_detach_drop(vs_detach_take(other, 0));
	relieve();
}
END_TEST

static void *destroy_crowded(void *gone)
{
	destroy(other);
	*(atomic_bool *)gone = true;
	return NULL;
}

START_TEST(that_context_goes_when_the_call_is_back)
{
	atomic_bool gone = false;
	pthread_t thread;
	double since;

	start();
	other = fixture_new_context(0);
	crowd();
	fixture_current(fixture_context);
	busy();
	ck_assert_int_eq(pthread_create(&thread, NULL, destroy_crowded, &gone),
			 0);
	for (since = vs_lock_now(); vs_lock_now() < since + 0.05;)
		ck_assert(!gone);
	sim_hold(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	relieve();
}
END_TEST

static void *leave(void *unused)
{
	vs_exit_now();
	return unused;
}

/* _i: 0 the request is over, 1 it is under way. */
START_TEST(an_exit_does_not_wait_for_it)
{
	struct vs_job *job = NULL;
	pthread_t thread;
	double since;

	start();
	crowd();
	if (!_i)
		busy();
	else
		job = rest_submit(&rest_sleep_all);
	until_stuck();
	since = vs_lock_now();
	ck_assert_int_eq(pthread_create(&thread, NULL, leave, NULL), 0);
	if (job)
		rest_end(job, VS_CANCELLED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(vs_lock_now() < since + SOON);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
}
END_TEST

/* What it leaves behind cannot be let go of. */
START_TEST(a_late_failure_is_nobodys)
{
	start();
	crowd();
	busy();
	sim_fail("cuEventDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
	sim_hold(0);
	while (!sim_injected())
		sched_yield();
	rest_ask(&rest_sleep_all, VS_OK);
	rest_ask(&rest_wake_all, VS_OK);
	rest_assert_awake(0);
	ck_assert_uint_eq(events(), 1);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
		a_full_queue_is_named_in_time_and_the_program_goes_on);
	tcase_add_test(tc, a_dry_run_finds_a_full_queue_too);
	tcase_add_test(tc, a_queue_that_gets_room_is_waited_for);
	tcase_add_test(tc, one_of_a_group_answers_and_lets_the_program_go);
	tcase_add_test(tc, a_request_that_is_stuck_can_be_cancelled);
	tcase_add_loop_test(tc, only_captures_in_that_context_wait, 0, 2);
	tcase_add_test(tc, streams_of_that_context_may_go);
	tcase_add_loop_test(tc, a_free_that_waits_holds_up_nobody, 0, 2);
	tcase_add_loop_test(tc, a_capture_that_is_changing_holds_up_nobody, 0,
			    2);
	tcase_add_loop_test(tc, other_contexts_may_go, 0, 2);
	tcase_add_test(tc, that_context_goes_when_the_call_is_back);
	tcase_add_loop_test(tc, an_exit_does_not_wait_for_it, 0, 2);
	tcase_add_test(tc, a_late_failure_is_nobodys);
}

int main(void)
{
	return fixture_main("stuck", fill);
}
