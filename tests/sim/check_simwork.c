/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, contexts and kernels behave as the real driver's do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check_sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static CUcontext ctx;

START_TEST(an_event_orders_work_of_two_streams)
{
	CUstream a, b;
	CUdeviceptr p;
	uint32_t *flag;
	CUevent e;

	ctx = start(0);
	a = stream(CU_STREAM_NON_BLOCKING);
	b = stream(CU_STREAM_NON_BLOCKING);
	p = words(1);
	flag = flag_new();
	e = event();
	ck_ok(block(a, flag));
	ck_ok(fill(a, p, 1, 5));
	ck_ok(cuEventRecord(e, a));
	ck_ok(cuStreamWaitEvent(b, e, 0));
	ck_ok(launch(b, "add", (void *[]){ &p, &(uint64_t){ 1 },
					   &(uint32_t){ 2 } }));
	ck_cu(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ck_cu(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	raise_flag(flag);
	ck_ok(cuStreamSynchronize(b));
	ck_ok(cuEventQuery(e));
	ck_assert_uint_eq(word(p), 7);
}
END_TEST

struct late {
	CUstream stream;	/* NULL: an event of the context */
	CUdeviceptr p;
	CUevent event;
	atomic_bool submitted;
};

static void *submit_late(void *arg)
{
	struct late *l = arg;

	ck_ok(cuCtxSetCurrent(ctx));
	ck_ok(l->stream ? fill(l->stream, l->p, 1, 1) :
			  cuCtxRecordEvent(ctx, l->event));
	l->submitted = true;
	return NULL;
}

/* _i: 0 a launch, 1 an event. */
START_TEST(a_full_queue_keeps_who_submits)
{
	struct late late;
	pthread_t thread;
	uint32_t *flag;
	CUstream s;

	setenv("VSLEEP_SIM_QUEUE", "2", 1);
	ctx = start(0);
	late = (struct late){ .p = words(1), .event = event() };
	s = stream(CU_STREAM_NON_BLOCKING);
	late.stream = _i ? NULL : s;
	flag = flag_new();
	ck_ok(block(s, flag));
	ck_ok(fill(s, late.p, 1, 1));
	ck_assert_int_eq(pthread_create(&thread, NULL, submit_late, &late), 0);
	usleep(20000);	/* it may come later, never too early */
	ck_assert(!late.submitted);
	ck_ok(fill(stream(CU_STREAM_NON_BLOCKING), late.p, 1, 1));
	raise_flag(flag);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_ok(cuCtxSynchronize());
	ck_ok(cuEventQuery(late.event));
}
END_TEST

START_TEST(the_legacy_stream_waits_for_blocking_streams_only)
{
	CUstream blocking, free_running;
	uint32_t *one, *two;
	CUdeviceptr p;

	ctx = start(0);
	blocking = stream(CU_STREAM_DEFAULT);
	free_running = stream(CU_STREAM_NON_BLOCKING);
	one = flag_new();
	two = flag_new();
	p = words(1);
	ck_ok(block(free_running, one));
	ck_ok(fill(NULL, p, 1, 3));
	ck_ok(cuStreamSynchronize(NULL));
	ck_ok(block(blocking, two));
	ck_ok(fill(NULL, p, 1, 4));
	ck_cu(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	ck_ok(fill(free_running, p, 1, 5));
	raise_flag(two);
	ck_ok(cuStreamSynchronize(NULL));
	ck_assert_uint_eq(word(p), 4);
	raise_flag(one);
	ck_ok(cuStreamSynchronize(free_running));
	ck_assert_uint_eq(word(p), 5);
}
END_TEST

START_TEST(a_context_event_waits_for_every_stream)
{
	CUstream per_thread = CU_STREAM_PER_THREAD;
	CUdeviceptr p;
	uint32_t *flag;
	CUevent e;

	ctx = start(0);
	p = words(1);
	flag = flag_new();
	e = event();
	ck_ok(cuCtxRecordEvent(ctx, e));
	ck_ok(cuEventQuery(e));
	ck_ok(block(per_thread, flag));
	ck_ok(cuCtxRecordEvent(ctx, e));
	ck_ok(fill(stream(CU_STREAM_NON_BLOCKING), p, 1, 1));
	ck_cu(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	raise_flag(flag);
	ck_ok(cuEventSynchronize(e));
	ck_ok(cuStreamQuery(per_thread));
}
END_TEST

START_TEST(a_fault_loses_its_context_and_no_other)
{
	CUcontext lost;
	CUdeviceptr p;

	ctx = start(0);
	ck_ok(cuCtxCreate_v2(&lost, 0, 0));
	ck_ok(launch(NULL, "fault", NULL));
	ck_cu(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu(cuMemAlloc_v2(&p, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ok(cuCtxSetCurrent(ctx));
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuCtxDestroy_v2(lost));
}
END_TEST

static void CUDA_CB call_driver(void *arg)
{
	CUdeviceptr p;

	*(CUresult *)arg = cuMemAlloc_v2(&p, 512);
}

START_TEST(a_host_callback_may_not_call_the_driver)
{
	CUresult rc = CUDA_SUCCESS;

	ctx = start(0);
	ck_ok(cuLaunchHostFunc(NULL, call_driver, &rc));
	ck_ok(cuCtxSynchronize());
	ck_cu(rc, CUDA_ERROR_NOT_PERMITTED);
}
END_TEST

static void *raise_once_freed_is_called(void *flag)
{
	while (sim_calls("cuMemFree_v2") == 0)
		sched_yield();
	raise_flag(flag);
	return NULL;
}

START_TEST(a_free_waits_for_the_contexts_work)
{
	CUdeviceptr p, q;
	uint32_t *flag;
	CUstream s;
	pthread_t t;

	ctx = start(0);
	flag = flag_new();
	p = words(1);
	q = words(1);
	s = stream(CU_STREAM_NON_BLOCKING);
	ck_ok(block(s, flag));
	ck_ok(fill(s, p, 1, 8));
	pthread_create(&t, NULL, raise_once_freed_is_called, flag);
	ck_ok(cuMemFree_v2(q));
	pthread_join(t, NULL);
	ck_ok(cuStreamQuery(s));
	ck_assert_uint_eq(word(p), 8);
}
END_TEST

START_TEST(a_pinned_copy_returns_at_once)
{
	uint32_t *flag, *host;
	CUdeviceptr p;
	CUstream s;

	ctx = start(0);
	flag = flag_new();
	host = flag_new();
	p = words(1);
	s = stream(CU_STREAM_NON_BLOCKING);
	ck_ok(block(s, flag));
	ck_ok(fill(s, p, 1, 8));
	ck_ok(cuMemcpyDtoHAsync_v2(host, p, 4, s));
	ck_cu(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	raise_flag(flag);
	ck_ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(*host, 8);
}
END_TEST

START_TEST(a_pageable_copy_waits)
{
	uint32_t host = 0;
	CUdeviceptr p;
	CUstream s;

	ctx = start(0);
	p = words(1);
	s = stream(CU_STREAM_NON_BLOCKING);
	ck_ok(launch(s, "spin", (void *[]){ &(uint64_t){ 20000000 }, &p }));
	ck_ok(cuMemcpyDtoHAsync_v2(&host, p, 4, s));
	ck_assert_uint_eq(host, 1);
}
END_TEST

START_TEST(nothing_starts_while_the_streams_are_held)
{
	CUdeviceptr p;
	CUstream s;

	ctx = start(0);
	p = words(1);
	s = stream(CU_STREAM_NON_BLOCKING);
	sim_hold(1);
	ck_ok(fill(s, p, 1, 8));
	ck_cu(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	sim_hold(0);
	ck_ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(word(p), 8);
}
END_TEST

static pid_t worker;

static void who_am_i(void **args)
{
	(void)args;
	worker = gettid();
}

static bool thread_lives(pid_t tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)tid);
	return access(path, F_OK) == 0;
}

START_TEST(destroying_a_context_ends_all_that_it_owned)
{
	CUcontext own;
	CUstream s;
	CUevent e;

	sim_kernel_add("who_am_i", "", who_am_i);
	ck_ok(cuInit(0));
	ck_ok(cuCtxCreate_v2(&own, 0, 0));
	words(1);
	s = stream(CU_STREAM_NON_BLOCKING);
	e = event();
	ck_ok(launch(s, "who_am_i", NULL));
	ck_ok(cuStreamSynchronize(s));
	ck_assert(thread_lives(worker));
	ck_ok(cuCtxDestroy_v2(own));
	/* the system drops a thread a little after it was joined */
	while (thread_lives(worker))
		sched_yield();
	ck_assert_uint_eq(ledger().streams + ledger().events +
			  ledger().allocations + ledger().contexts, 0);
	ck_cu(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
	ck_cu(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
	ck_cu(cuCtxSetCurrent(own), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(ledger().invalid, 3);
}
END_TEST

static void *with_stale_context(void *arg)
{
	pthread_barrier_t *turn = arg;
	CUdeviceptr p;
	CUresult rc;

	cuCtxSetCurrent(ctx);
	pthread_barrier_wait(turn);
	pthread_barrier_wait(turn);
	rc = cuMemAlloc_v2(&p, 512);
	return (void *)(intptr_t)rc;
}

START_TEST(a_reused_context_handle_is_another_context)
{
	pthread_barrier_t turn;
	CUcontext again;
	pthread_t t;
	void *rc;

	ck_ok(cuInit(0));
	ck_ok(cuCtxCreate_v2(&ctx, 0, 0));
	pthread_barrier_init(&turn, NULL, 2);
	pthread_create(&t, NULL, with_stale_context, &turn);
	pthread_barrier_wait(&turn);
	ck_ok(cuCtxDestroy_v2(ctx));
	ck_ok(cuCtxCreate_v2(&again, 0, 0));
	ck_assert_ptr_eq(again, ctx);
	pthread_barrier_wait(&turn);
	pthread_join(t, &rc);
	ck_cu((intptr_t)rc, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
END_TEST

START_TEST(ptx_has_the_kernels_and_globals_that_it_names)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n"
		".visible .global .align 4 .u32 table[16];\n"
		".visible .entry fill(.param .u64 p) { ret; }\n";
	CUfunction f;
	CUmodule m;
	CUdeviceptr at;
	size_t size;

	ctx = start(0);
	ck_ok(cuModuleLoadData(&m, ptx));
	ck_ok(cuModuleGetFunction(&f, m, "fill"));
	ck_cu(cuModuleGetFunction(&f, m, "add"), CUDA_ERROR_NOT_FOUND);
	ck_ok(cuModuleGetGlobal_v2(&at, &size, m, "table"));
	ck_assert_uint_eq(size, 64);
	ck_ok(cuMemsetD8_v2(at, 1, size));
	ck_cu(cuModuleGetGlobal_v2(&at, &size, m, "tab"),
	      CUDA_ERROR_NOT_FOUND);
	ck_cu(cuModuleLoadData(&m, "no image"), CUDA_ERROR_INVALID_IMAGE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim work");
	TCase *t = tcase_create("work");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_event_orders_work_of_two_streams);
	tcase_add_test(t, the_legacy_stream_waits_for_blocking_streams_only);
	tcase_add_test(t, a_context_event_waits_for_every_stream);
	tcase_add_test(t, a_fault_loses_its_context_and_no_other);
	tcase_add_test(t, a_host_callback_may_not_call_the_driver);
	tcase_add_test(t, a_free_waits_for_the_contexts_work);
	tcase_add_test(t, a_pinned_copy_returns_at_once);
	tcase_add_test(t, a_pageable_copy_waits);
	tcase_add_test(t, nothing_starts_while_the_streams_are_held);
	tcase_add_test(t, destroying_a_context_ends_all_that_it_owned);
	tcase_add_test(t, a_reused_context_handle_is_another_context);
	tcase_add_test(t, ptx_has_the_kernels_and_globals_that_it_names);
	tcase_add_loop_test(t, a_full_queue_keeps_who_submits, 0, 2);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
