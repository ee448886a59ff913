/* SPDX-License-Identifier: Apache-2.0 */
/* Where the functions of include/vsleep.h may be called from, and everything
 * that may become of a sleep. */
#include <config.h>

#include "api_fixture.h"

#include "base/lock.h"
#include "sleep/gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

/* One of each, all with the timeout @seconds. */
enum { ASKED = 4 };
struct asked {
	double seconds;
	int rc[ASKED];
	double took;
	char message[256];
	int calls;
};

static void ask_all(struct asked *a)
{
	struct vsleep_reply own = { .size = sizeof(own) };
	double began = vs_lock_now();

	a->rc[0] = vsleep_sleep(1, NULL, 0, a->seconds, &own);
	strcpy(a->message, own.message);
	a->rc[1] = vsleep_wake(NULL, 0, 0, NULL);
	a->rc[2] = vsleep_pause(a->seconds, NULL);
	a->rc[3] = vsleep_resume(NULL);
	a->took = vs_lock_now() - began;
	a->calls++;
}

/* Each was refused, long before the timeout. */
static void assert_refused(const struct asked *a, int calls, const char *text)
{
	int i;

	ck_assert_int_eq(a->calls, calls);
	for (i = 0; i < ASKED; i++)
		ck_assert_int_eq(a->rc[i], VSLEEP_BUSY);
	ck_assert_msg(strstr(a->message, text) != NULL, "%s", a->message);
	ck_assert(a->took < a->seconds / 2);
}

/* It sleeps and wakes, as if nothing had been. */
static void assert_usable(void)
{
	CUdeviceptr block = fixture_alloc("after", BLOCK);
	struct vsleep_reply own = { .size = sizeof(own) };

	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_int_eq(vsleep_sleep(1, "after", 0, 10, &own), VSLEEP_OK);
	ck_assert_uint_ge(own.evicted, BLOCK);
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, &own), VSLEEP_OK);
	ck_assert_uint_eq(own.evicted, 0);
	fixture_assert_filled(block, BLOCK);
	fixture_assert_sound();
}

/* ---- functions that a stream waits for ----------------------------------- */

static void in_function(void *arg)
{
	ask_all(arg);
}

static void in_callback(CUstream stream, CUresult status, void *arg)
{
	(void)stream;
	(void)status;
	ask_all(arg);
}

START_TEST(a_function_that_a_stream_waits_for_gets_busy_at_once)
{
	struct asked asked = { .seconds = 30 };

	start("");
	switch (_i) {
	case 0:
		ck_ok(cuLaunchHostFunc(NULL, in_function, &asked));
		break;
	case 1:
		ck_ok(cuLaunchHostFunc_ptsz(NULL, in_function, &asked));
		break;
	case 2:
		ck_ok(cuStreamAddCallback(NULL, in_callback, &asked, 0));
		break;
	default:
		ck_ok(cuStreamAddCallback_ptsz(NULL, in_callback, &asked, 0));
	}
	ck_ok(vs_real.cuCtxSynchronize());
	assert_refused(&asked, 1, "stream waits for");
	assert_usable();
}
END_TEST

START_TEST(no_function_gives_the_drivers_own_error)
{
	start("");
	ck_cu(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuStreamAddCallback(NULL, NULL, NULL, 0),
	      CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_host_node_of_a_graph_gets_busy_at_once)
{
	struct asked asked = { .seconds = 30 };
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	int i;

	start("");
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(cuStreamBeginCapture_v2(stream, RELAXED));
	ck_ok(cuLaunchHostFunc(stream, in_function, &asked));
	ck_ok(cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (i = 1; i <= 3; i++) {
		ck_ok(cuGraphLaunch(exec, stream));
		ck_ok(vs_real.cuStreamSynchronize(stream));
		assert_refused(&asked, i, "stream waits for");
	}
	assert_usable();
}
END_TEST

/* ---- captures ------------------------------------------------------------ */

static CUstream begin(bool per_thread)
{
	CUstream stream = CU_STREAM_PER_THREAD;

	if (!per_thread)
		ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(cuStreamBeginCapture_v2(stream, RELAXED));
	return stream;
}

static void end(CUstream stream)
{
	CUgraph graph;

	ck_ok(cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphDestroy(graph));
}

START_TEST(a_thread_that_captures_gets_busy_at_once)
{
	struct asked asked = { .seconds = 30 };
	CUstream stream;

	start("");
	stream = begin(_i);
	ask_all(&asked);
	assert_refused(&asked, 1, "capture");
	end(stream);
	assert_usable();
}
END_TEST

START_TEST(a_capture_that_ended_unseen_is_over)
{
	CUstream stream;
	CUgraph graph;

	start("");
	stream = begin(_i);
	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphDestroy(graph));
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, NULL), VSLEEP_OK);
}
END_TEST

static atomic_int stage;

static void *capture(void *context)
{
	CUstream stream;

	fixture_current(context);
	stream = begin(false);
	atomic_store(&stage, 1);
	while (atomic_load(&stage) == 1)
		sched_yield();
	end(stream);
	return NULL;
}

static void *ask_meanwhile(void *arg)
{
	struct vsleep_reply own = { .size = sizeof(own) };

	*(int *)arg = vsleep_sleep(1, NULL, 0, 30, &own);
	return NULL;
}

START_TEST(a_capture_of_another_thread_is_waited_for)
{
	struct vsleep_reply own = { .size = sizeof(own) };
	pthread_t capturer, asker;
	CUdeviceptr block;
	int rc = -2;

	start("");
	block = fixture_alloc("w", BLOCK);
	pthread_create(&capturer, NULL, capture, fixture_context);
	while (atomic_load(&stage) != 1)
		sched_yield();
	ck_assert_int_eq(vsleep_sleep(1, NULL, 0, 0.05, &own), VSLEEP_BUSY);
	ck_assert_msg(strstr(own.message, "capturing") != NULL, "%s",
		      own.message);
	pthread_create(&asker, NULL, ask_meanwhile, &rc);
	while (fixture_ledger().state != VS_DRAINING)
		sched_yield();
	atomic_store(&stage, 2);
	pthread_join(capturer, NULL);
	pthread_join(asker, NULL);
	ck_assert_int_eq(rc, VSLEEP_OK);
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, NULL), VSLEEP_OK);
	fixture_assert_filled(block, BLOCK);
}
END_TEST

/* ---- callbacks ----------------------------------------------------------- */

static void in_before(void *arg)
{
	ask_all(arg);
}

static void take_off(void *arg)
{
	((struct asked *)arg)->calls++;
	((struct asked *)arg)->rc[0] =
		vsleep_callback_remove(NULL, take_off, arg);
}

START_TEST(a_callback_gets_busy_at_once_and_may_take_itself_off)
{
	struct asked before = { .seconds = 30 }, after = { .seconds = 30 };

	start("");
	ck_assert_int_eq(vsleep_callback_add(in_before, NULL, &before),
			 VSLEEP_OK);
	ck_assert_int_eq(vsleep_callback_add(NULL, take_off, &after),
			 VSLEEP_OK);
	assert_usable();
	assert_refused(&before, 1, "callback");
	/* After a wake has answered the second may still be under way. */
	ck_assert_int_eq(vsleep_callback_remove(in_before, NULL, &before),
			 VSLEEP_OK);
	ck_assert_int_eq(after.calls, 1);
	ck_assert_int_eq(after.rc[0], VSLEEP_OK);
	ck_assert_int_eq(vsleep_callback_remove(NULL, take_off, &after),
			 VSLEEP_REFUSED);
	assert_usable();
	ck_assert_int_eq(before.calls, 1);
	ck_assert_int_eq(after.calls, 1);
}
END_TEST

/* ---- what may become of it ----------------------------------------------- */

START_TEST(a_wake_without_device_memory_says_so)
{
	CUdeviceptr block;

	start("");
	block = fixture_alloc("w", BLOCK);
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_OK, "");
	sim_limit(0, MIB);
	ck_reply(vsleep_wake(NULL, 0, 0, fresh()), VSLEEP_NO_MEMORY, "need");
	ck_assert_int_eq(reply.state, VSLEEP_ASLEEP);
	ck_assert_uint_ge(reply.evicted, BLOCK);
	sim_limit(0, 256 * MIB);
	ck_reply(vsleep_wake(NULL, 0, 0, fresh()), VSLEEP_OK, "");
	fixture_assert_filled(block, BLOCK);
}
END_TEST

START_TEST(a_sleep_without_host_memory_says_so)
{
	setenv("VSLEEP_HOST_LIMIT", "1M", 1);
	start("");
	fixture_alloc("w", BLOCK);
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_NO_HOST, "MiB");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_uint_ge(reply.resident, BLOCK);
}
END_TEST

START_TEST(what_a_sleep_refuses_its_flags_allow)
{
	start("");
	fixture_alloc("w", BLOCK);
	ck_reply(vsleep_sleep(2, NULL, 0, 10, fresh()), VSLEEP_REFUSED,
		 "level 2");
	ck_reply(vsleep_sleep(2, NULL, VSLEEP_DISCARD_ALL, 10, fresh()),
		 VSLEEP_OK, "");
	ck_assert_uint_ge(reply.lost, BLOCK);
	ck_reply(vsleep_wake(NULL, 0, 0, fresh()), VSLEEP_OK, "");
	vs_driver_unhooked("cuMemCreate");
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_REFUSED,
		 "cuMemCreate");
	ck_reply(vsleep_sleep(1, NULL, VSLEEP_FORCE, 10, fresh()), VSLEEP_OK,
		 "");
}
END_TEST

START_TEST(memory_that_does_not_sleep_makes_it_partial)
{
	CUdeviceptr native;

	start("");
	ck_assert_int_eq(vsleep_tag_push(""), VSLEEP_OK);
	ck_ok(cuMemAlloc_v2(&native, BLOCK));
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_PARTIAL,
		 "nothing was released");
	ck_assert_uint_ge(reply.unmanaged, BLOCK);
}
END_TEST

START_TEST(the_drivers_error_is_told_and_a_lost_context)
{
	start("");
	fixture_alloc("w", BLOCK);
	sim_fail("cuCtxRecordEvent", 1, CUDA_ERROR_UNKNOWN);
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_CUDA, "999");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	sim_fail("cuCtxRecordEvent", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_reply(vsleep_sleep(1, NULL, 0, 10, fresh()), VSLEEP_FAILED, "700");
	ck_assert_int_eq(reply.state, VSLEEP_LOST);
}
END_TEST

START_TEST(queued_work_makes_it_busy_and_a_wake_takes_it_back)
{
	CUdeviceptr block;
	pthread_t asker;
	int rc = -2;

	start("");
	block = fixture_alloc("w", BLOCK);
	sim_hold(1);
	ck_ok(cuMemsetD8Async(block, 7, BLOCK, NULL));
	ck_reply(vsleep_sleep(1, NULL, 0, 0, fresh()), VSLEEP_BUSY, "");
	ck_reply(vsleep_sleep(1, NULL, 0, 0.1, fresh()), VSLEEP_BUSY,
		 "queued work");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	pthread_create(&asker, NULL, ask_meanwhile, &rc);
	while (fixture_ledger().state != VS_DRAINING)
		sched_yield();
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, NULL), VSLEEP_OK);
	pthread_join(asker, NULL);
	ck_assert_int_eq(rc, VSLEEP_CANCELLED);
	sim_hold(0);
	ck_ok(vs_real.cuCtxSynchronize());
	assert_usable();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		a_function_that_a_stream_waits_for_gets_busy_at_once, 0, 4);
	tcase_add_test(tc, no_function_gives_the_drivers_own_error);
	tcase_add_test(tc,
		a_host_node_of_a_graph_gets_busy_at_once);
	tcase_add_loop_test(tc, a_thread_that_captures_gets_busy_at_once, 0,
			    2);
	tcase_add_loop_test(tc, a_capture_that_ended_unseen_is_over, 0, 2);
	tcase_add_test(tc, a_capture_of_another_thread_is_waited_for);
	tcase_add_test(tc,
		a_callback_gets_busy_at_once_and_may_take_itself_off);
	tcase_add_test(tc, a_wake_without_device_memory_says_so);
	tcase_add_test(tc, a_sleep_without_host_memory_says_so);
	tcase_add_test(tc, what_a_sleep_refuses_its_flags_allow);
	tcase_add_test(tc, memory_that_does_not_sleep_makes_it_partial);
	tcase_add_test(tc, the_drivers_error_is_told_and_a_lost_context);
	tcase_add_test(tc, queued_work_makes_it_busy_and_a_wake_takes_it_back);
}

int main(void)
{
	return fixture_main("api_where", fill);
}
