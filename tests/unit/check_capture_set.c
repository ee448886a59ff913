/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams capture, and what is freed meanwhile. */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/capture.h"
#include "memory/quarantine.h"
#include "sleep/gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define OWN (17 * MIB)
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static const size_t sizes[] = { 5000, OWN };

static CUstream new_stream(void)
{
	CUstream stream;

	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void begin(CUstream stream)
{
	ck_ok(cuStreamBeginCapture_v2(stream, RELAXED));
}

static void end(CUstream stream)
{
	CUgraph graph;

	ck_ok(cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphDestroy(graph));
}

/* No capture runs, as far as the driver can tell us. */
static bool quiet(void)
{
	char text[96];

	if (!vs_capture_lock_quiet(text, sizeof(text)))
		return false;
	vs_capture_unlock();
	ck_assert(!vs_capture_any());
	return true;
}

static CUstream start_capture(void)
{
	CUstream stream;

	fixture_start("default", "");
	stream = new_stream();
	begin(stream);
	ck_assert(vs_capture_any());
	return stream;
}

START_TEST(a_stream_is_in_the_set_from_begin_to_end_and_named)
{
	char text[96], name[40];
	CUstream stream = start_capture();

	ck_assert(!vs_capture_lock_quiet(text, sizeof(text)));
	snprintf(name, sizeof(name), "stream %p ", (void *)stream);
	ck_assert_msg(strstr(text, name) != NULL, "%s", text);
	end(stream);
	ck_assert(!vs_capture_any());
	ck_assert(quiet());
}
END_TEST

START_TEST(each_of_several_captures_counts)
{
	CUstream first = start_capture(), second = new_stream();

	begin(second);
	end(first);
	ck_assert(vs_capture_any());
	ck_assert(!quiet());
	end(second);
	ck_assert(quiet());
}
END_TEST

START_TEST(a_begin_that_fails_adds_nothing)
{
	CUstream stream = start_capture();

	ck_cu(cuStreamBeginCapture_v2(stream, RELAXED),
	      CUDA_ERROR_ILLEGAL_STATE);
	ck_assert_int_ne(cuStreamBeginCapture_v2(NULL, RELAXED),
			 CUDA_SUCCESS);
	end(stream);
	ck_assert(quiet());
}
END_TEST

START_TEST(an_end_that_leaves_it_capturing_leaves_it_in_the_set)
{
	CUstream stream = start_capture();

	ck_cu(cuStreamEndCapture(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert(vs_capture_any());
	ck_assert(!quiet());
	end(stream);
	ck_assert(quiet());
}
END_TEST

START_TEST(a_broken_capture_leaves_the_set_with_its_end)
{
	CUstream stream;
	CUdeviceptr base;
	CUgraph graph;

	fixture_start("default", "");
	stream = new_stream();
	ck_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_ne(cuMemAlloc_v2(&base, 64), CUDA_SUCCESS);
	ck_assert(!quiet());
	ck_cu(cuStreamEndCapture(stream, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert(quiet());
}
END_TEST

START_TEST(a_capture_that_the_driver_ended_is_found_out)
{
	CUstream stream = start_capture();
	CUgraph graph;

	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	ck_assert(vs_capture_any());
	ck_assert(quiet());
}
END_TEST

START_TEST(a_destroyed_stream_leaves_the_set)
{
	CUstream stream = start_capture();

	sim_fail("cuStreamDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuStreamDestroy_v2(stream), CUDA_ERROR_UNKNOWN);
	ck_assert(!quiet());
	ck_ok(cuStreamDestroy_v2(stream));
	ck_assert(!vs_capture_any());
	ck_assert(quiet());
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

START_TEST(a_destroyed_context_takes_its_captures_out)
{
	CUstream kept = start_capture(), gone;
	CUcontext context = fixture_new_context(0);

	gone = new_stream();
	begin(gone);
	sim_fail("cuCtxDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuCtxDestroy_v2(context), CUDA_ERROR_UNKNOWN);
	end(kept);
	ck_assert(vs_capture_any());
	ck_assert(!quiet());
	ck_ok(cuCtxDestroy_v2(context));
	ck_assert(!vs_capture_any());
	ck_assert(quiet());
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

/* The context that is current when a capture begins is not always its own. */
START_TEST(a_capture_goes_with_the_context_of_its_stream)
{
	CUcontext context;
	CUstream stream;

	fixture_start("default", "");
	stream = new_stream();
	context = fixture_new_context(0);
	begin(stream);
	ck_ok(cuCtxDestroy_v2(context));
	ck_assert(!quiet());
	fixture_current(fixture_context);
	end(stream);
	ck_assert(quiet());
}
END_TEST

START_TEST(a_reset_device_has_no_captures)
{
	start_capture();
	ck_ok(cuDevicePrimaryCtxReset_v2(0));
	ck_assert(!vs_capture_any());
	ck_assert(quiet());
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

/* Its end on another thread is that of another stream, which nobody there
 * can ask about. */
static int end_another(void *graph)
{
	fixture_current(fixture_context);
	ck_assert(!quiet());
	return (int)cuStreamEndCapture_ptsz(NULL, graph);
}

START_TEST(a_threads_default_stream_is_that_threads_alone)
{
	CUgraph graph;

	fixture_start("default", "");
	ck_ok(cuStreamBeginCapture_v2_ptsz(NULL, RELAXED));
	ck_cu(fixture_on_thread(end_another, &graph),
	      CUDA_ERROR_ILLEGAL_STATE);
	ck_assert(vs_capture_any());
	ck_assert(!quiet());
	ck_ok(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
	ck_assert(quiet());
}
END_TEST

static _Atomic(struct vs_gate_thread *) beginner;
static atomic_bool begun;

static void *begin_there(void *stream)
{
	fixture_current(fixture_context);
	ck_assert(vs_gate_enter("cuBefore"));
	vs_gate_leave();
	atomic_store(&beginner, vs_gate_self);
	begin(stream);
	atomic_store(&begun, true);
	return NULL;
}

START_TEST(none_begins_while_the_set_is_locked)
{
	pthread_t thread;
	CUstream stream;
	char text[96];
	int i;

	fixture_start("default", "");
	stream = new_stream();
	ck_assert(vs_capture_lock_quiet(text, sizeof(text)));
	pthread_create(&thread, NULL, begin_there, stream);
	while (!atomic_load(&beginner) || !atomic_load(&beginner->depth))
		sched_yield();
	for (i = 0; i < 1000; i++)
		sched_yield();
	ck_assert(!atomic_load(&begun));
	ck_assert_uint_eq(sim_calls("cuStreamBeginCapture_v2"), 0);
	vs_capture_unlock();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!quiet());
	end(stream);
	ck_assert(quiet());
}
END_TEST

static size_t waiting(void)
{
	size_t bytes;

	vs_lock_take(&vs_segment_lock);
	bytes = vs_quarantine_bytes(0);
	vs_lock_drop(&vs_segment_lock);
	return bytes;
}

/* _i: small, large. */
START_TEST(memory_freed_beside_a_capture_stays_until_it_is_over)
{
	size_t size = sizes[_i], before, after, total;
	CUdeviceptr base, others[4];
	CUstream stream;
	int i;

	fixture_start("default", "");
	base = fixture_alloc("w", size);
	stream = new_stream();
	begin(stream);
	ck_ok(cuMemGetInfo_v2(&before, &total));
	ck_ok(cuMemFree_v2(base));
	ck_assert_ptr_null(fixture_segment(base));
	ck_assert_uint_ge(waiting(), size);
	ck_ok(cuMemGetInfo_v2(&after, &total));
	ck_assert_uint_ge(after + 2 * MIB, before + size);
	for (i = 0; i < 4; i++) {
		others[i] = fixture_alloc("w", size);
		ck_assert(others[i] + size <= base ||
			  base + size <= others[i]);
	}
	fixture_assert_filled(base, size);
	ck_assert_int_ne(cuMemFree_v2(base), CUDA_SUCCESS);
	end(stream);
	fixture_assert_filled(base, size);
	for (i = 0; i < 4; i++) {
		fixture_assert_filled(others[i], size);
		ck_ok(cuMemFree_v2(others[i]));
	}
	ck_assert_uint_eq(waiting(), 0);
	fixture_later();
	ck_assert_uint_le(sim_used(0), 4 * MIB);
}
END_TEST

/* Not as long as the capture runs. */
START_TEST(a_request_that_runs_short_gets_what_was_freed_beside_a_capture)
{
	CUdeviceptr base, again;
	CUstream stream;

	fixture_start("default", "");
	base = fixture_alloc("w", 100 * MIB);
	ck_ok(cuMemAlloc_v2(&again, 100 * MIB));
	stream = new_stream();
	begin(stream);
	ck_ok(cuMemFree_v2(base));
	ck_cu(cuMemAlloc_v2(&base, 100 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	end(stream);
	ck_ok(cuMemAlloc_v2(&base, 100 * MIB));
	ck_assert_ptr_nonnull(fixture_segment(base));
	ck_assert_uint_eq(waiting(), 0);
	fixture_free(base);
	fixture_free(again);
	fixture_assert_empty();
}
END_TEST

/* _i: small, large. */
START_TEST(a_context_that_is_not_destroyed_keeps_freed_memory_freed)
{
	CUdeviceptr base, live;
	CUcontext context;
	CUstream stream;

	fixture_start("default", "");
	context = fixture_new_context(0);
	base = fixture_alloc("w", sizes[_i]);
	live = fixture_alloc("w", sizes[_i]);
	stream = new_stream();
	begin(stream);
	ck_ok(cuMemFree_v2(base));
	sim_fail("cuCtxDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuCtxDestroy_v2(context), CUDA_ERROR_UNKNOWN);
	ck_assert_ptr_null(fixture_segment(base));
	ck_assert_ptr_nonnull(fixture_segment(live));
	fixture_assert_filled(live, sizes[_i]);
	end(stream);
	ck_ok(cuMemFree_v2(live));
	ck_assert_uint_eq(waiting(), 0);
	fixture_assert_empty();
}
END_TEST

/* _i: small, large. */
START_TEST(a_context_that_is_destroyed_takes_freed_memory_with_it)
{
	CUdeviceptr base;
	CUcontext context;

	fixture_start("default", "");
	context = fixture_new_context(0);
	base = fixture_alloc("w", sizes[_i]);
	begin(new_stream());
	ck_ok(cuMemFree_v2(base));
	ck_ok(cuCtxDestroy_v2(context));
	fixture_current(fixture_context);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_stream_is_in_the_set_from_begin_to_end_and_named);
	tcase_add_test(tc, each_of_several_captures_counts);
	tcase_add_test(tc, a_begin_that_fails_adds_nothing);
	tcase_add_test(tc,
		an_end_that_leaves_it_capturing_leaves_it_in_the_set);
	tcase_add_test(tc, a_broken_capture_leaves_the_set_with_its_end);
	tcase_add_test(tc, a_capture_that_the_driver_ended_is_found_out);
	tcase_add_test(tc, a_destroyed_stream_leaves_the_set);
	tcase_add_test(tc, a_destroyed_context_takes_its_captures_out);
	tcase_add_test(tc, a_capture_goes_with_the_context_of_its_stream);
	tcase_add_test(tc, a_reset_device_has_no_captures);
	tcase_add_test(tc, a_threads_default_stream_is_that_threads_alone);
	tcase_add_test(tc, none_begins_while_the_set_is_locked);
	tcase_add_loop_test(tc,
	memory_freed_beside_a_capture_stays_until_it_is_over, 0,
		COUNT(sizes));
	tcase_add_test(tc,
		a_request_that_runs_short_gets_what_was_freed_beside_a_capture);
	tcase_add_loop_test(tc,
	a_context_that_is_not_destroyed_keeps_freed_memory_freed, 0,
		COUNT(sizes));
	tcase_add_loop_test(tc,
	a_context_that_is_destroyed_takes_freed_memory_with_it, 0,
		COUNT(sizes));
}

int main(void)
{
	return fixture_main("capture_set", fill);
}
