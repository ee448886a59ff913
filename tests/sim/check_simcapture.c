/* SPDX-License-Identifier: Apache-2.0 */
/* Captures, and what breaks them. */
#include "check_sim.h"

#include <pthread.h>
#include <stdlib.h>

static CUcontext ctx;

static void capture_breaks(CUresult rc, CUstream s)
{
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph)s;

	ck_cu(rc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_ok(cuStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	ck_cu(cuStreamEndCapture(s, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_ptr_null(graph);
	ck_ok(cuStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

START_TEST(context_wide_calls_break_a_capture_of_any_mode)
{
	CUstream s;
	CUevent e;
	int mode;

	ctx = start(0);
	s = stream(CU_STREAM_NON_BLOCKING);
	e = event();
	for (mode = 0; mode <= 2; mode++) {
		ck_ok(cuStreamBeginCapture_v2(s, (CUstreamCaptureMode)mode));
		capture_breaks(cuCtxRecordEvent(ctx, e), s);
		ck_ok(cuStreamBeginCapture_v2(s, (CUstreamCaptureMode)mode));
		capture_breaks(cuCtxSynchronize(), s);
		ck_ok(cuStreamBeginCapture_v2(s, (CUstreamCaptureMode)mode));
		capture_breaks(cuStreamSynchronize(s), s);
	}
}
END_TEST

struct other {
	CUstreamCaptureMode mode;
	CUresult rc;
};

static void *allocate(void *arg)
{
	struct other *o = arg;
	CUdeviceptr p;

	cuCtxSetCurrent(ctx);
	cuThreadExchangeStreamCaptureMode(&o->mode);
	o->rc = cuMemAlloc_v2(&p, 512);
	return NULL;
}

static CUresult allocate_elsewhere(CUstreamCaptureMode mode)
{
	struct other o = { mode, CUDA_ERROR_UNKNOWN };
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, allocate, &o), 0);
	pthread_join(t, NULL);
	return o.rc;
}

START_TEST(an_unsafe_call_breaks_captures_by_the_modes_rules)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream s;
	CUgraph graph;
	CUdeviceptr p;

	ctx = start(0);
	s = stream(CU_STREAM_NON_BLOCKING);
	ck_ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	capture_breaks(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), s);

	ck_ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ck_ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
	capture_breaks(cuMemAlloc_v2(&p, 512), s);

	ck_ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuStreamEndCapture(s, &graph));

	ck_ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_ok(cuThreadExchangeStreamCaptureMode(&relaxed));
	ck_assert_int_eq(relaxed, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuThreadExchangeStreamCaptureMode(&relaxed));
	ck_ok(cuStreamEndCapture(s, &graph));
}
END_TEST

START_TEST(captured_work_runs_when_its_graph_is_launched)
{
	CUstream a, b;
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr p;
	size_t n;
	CUevent e;

	ctx = start(0);
	a = stream(CU_STREAM_NON_BLOCKING);
	b = stream(CU_STREAM_NON_BLOCKING);
	e = event();
	p = words(3);
	ck_ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_ok(fill(a, p, 1, 6));
	ck_ok(cuEventRecord(e, a));
	ck_ok(cuStreamWaitEvent(b, e, 0));
	ck_ok(cuMemcpyDtoDAsync_v2(p + 4, p, 4, b));
	ck_ok(cuMemsetD32Async(p + 8, 9, 1, a));
	ck_cu(cuEventQuery(e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	capture_breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, a);

	ck_ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(fill(a, p, 1, 6));
	ck_ok(cuEventRecord(e, a));
	ck_cu(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
	ck_ok(cuStreamWaitEvent(b, e, 0));
	ck_ok(cuMemcpyDtoDAsync_v2(p + 4, p, 4, b));
	ck_ok(cuEventRecord(e, b));
	ck_ok(cuStreamWaitEvent(a, e, 0));
	ck_ok(cuStreamEndCapture(a, &graph));
	ck_ok(cuGraphGetNodes(graph, NULL, &n));
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(word(p + 4), 0);
	ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ck_ok(cuGraphDestroy(graph));
	ck_ok(cuGraphLaunch(exec, a));
	ck_ok(cuGraphExecDestroy(exec));
	ck_ok(cuStreamSynchronize(a));
	ck_assert_uint_eq(word(p + 4), 6);
	ck_assert_uint_eq(word(p + 8), 0);
}
END_TEST

START_TEST(a_capture_must_be_joined_before_it_ends)
{
	CUdeviceptr p;
	CUstream a, b;
	CUgraph graph;
	CUevent e;

	ctx = start(0);
	a = stream(CU_STREAM_NON_BLOCKING);
	b = stream(CU_STREAM_NON_BLOCKING);
	e = event();
	p = words(1);
	ck_ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(cuEventRecord(e, a));
	ck_ok(cuStreamWaitEvent(b, e, 0));
	ck_ok(fill(b, p, 1, 1));
	ck_cu(cuStreamEndCapture(a, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}
END_TEST

START_TEST(the_legacy_stream_breaks_a_blocking_streams_capture)
{
	CUstream s, apart;
	CUdeviceptr p;
	CUgraph graph;

	ctx = start(0);
	p = words(1);
	apart = stream(CU_STREAM_NON_BLOCKING);
	ck_ok(cuStreamBeginCapture_v2(apart, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(fill(NULL, p, 1, 1));
	ck_ok(cuStreamEndCapture(apart, &graph));
	s = stream(CU_STREAM_DEFAULT);
	ck_ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cu(fill(NULL, p, 1, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_cu(cuStreamEndCapture(s, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim captures");
	TCase *t = tcase_create("captures");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, context_wide_calls_break_a_capture_of_any_mode);
	tcase_add_test(t, an_unsafe_call_breaks_captures_by_the_modes_rules);
	tcase_add_test(t, captured_work_runs_when_its_graph_is_launched);
	tcase_add_test(t, a_capture_must_be_joined_before_it_ends);
	tcase_add_test(t, the_legacy_stream_breaks_a_blocking_streams_capture);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
