/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory: who gets what was freed, and when.  A stream is kept
 * busy by a host function that waits for a word.
 */
#include <config.h>

#include "pool_fixture.h"

#include "memory/pool.h"
#include "memory/pool_stream.h"
#include "memory/unmanaged.h"

#include <stdlib.h>
#include <string.h>

/* _i: the size. */
START_TEST(the_same_stream_gets_it_back_without_asking_the_driver)
{
	CUdeviceptr a, b;
	unsigned long marks;

	pool_start();
	a = pool_alloc(pool_sizes[_i], one);
	pool_busy(one);
	pool_free(a, one);
	marks = pool_questions();
	b = pool_alloc(pool_sizes[_i], one);
	ck_assert_uint_eq(b, a);
	ck_assert_uint_eq(pool_questions(), marks);
	pool_free(b, one);
	pool_let_go();
	pool_end();
}
END_TEST

/* _i: the size. */
START_TEST(another_stream_gets_it_when_the_device_is_past_the_free)
{
	CUdeviceptr a, b, c;

	pool_start();
	a = pool_alloc(pool_sizes[_i], one);
	pool_busy(one);
	pool_free(a, one);
	b = pool_alloc(pool_sizes[_i], two);
	ck_assert_uint_ne(b, a);
	pool_let_go();
	ck_ok(vs_real.cuStreamSynchronize(one));
	c = pool_alloc(pool_sizes[_i], two);
	ck_assert_uint_eq(c, a);
	pool_free(b, two);
	pool_free(c, two);
	pool_end();
}
END_TEST

/* What follows the free in its stream may still run. */
START_TEST(a_stream_that_goes_on_is_past_the_free_by_its_event)
{
	CUdeviceptr a, b, c;

	pool_start();
	a = pool_alloc(MIB, one);
	pool_busy(one);
	pool_free(a, one);
	b = pool_alloc(MIB, two);
	ck_assert_uint_ne(b, a);
	pool_busy_more(one);
	pool_let_go();
	pool_wait_for_second();
	c = pool_alloc(MIB, two);
	ck_assert_uint_eq(c, a);
	ck_cu(vs_real.cuStreamQuery(one), CUDA_ERROR_NOT_READY);
	pool_let_go_more();
	pool_free(b, two);
	pool_free(c, two);
	pool_end();
}
END_TEST

/* Allocated in one, used in two, freed in three. */
START_TEST(work_that_a_free_waits_for_is_waited_for)
{
	CUdeviceptr a, b, c;
	CUstream three;
	CUevent event;

	pool_start();
	ck_ok(vs_real.cuStreamCreate(&three, CU_STREAM_NON_BLOCKING));
	ck_ok(vs_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	a = pool_alloc(MIB, one);
	pool_busy(two);
	ck_ok(vs_real.cuMemsetD8Async(a, 1, MIB, two));
	ck_ok(vs_real.cuEventRecord(event, two));
	ck_ok(vs_real.cuStreamWaitEvent(three, event, 0));
	pool_free(a, three);
	b = pool_alloc(MIB, one);
	ck_assert_uint_ne(b, a);
	pool_let_go();
	ck_ok(vs_real.cuStreamSynchronize(three));
	c = pool_alloc(MIB, one);
	ck_assert_uint_eq(c, a);
	pool_free(b, one);
	pool_free(c, one);
	ck_ok(vs_real.cuEventDestroy_v2(event));
	ck_ok(cuStreamDestroy_v2(three));
	pool_end();
}
END_TEST

START_TEST(on_a_full_device_the_stream_waits_for_the_one_that_frees)
{
	unsigned char got = 0;
	CUdeviceptr a, b;

	pool_start();
	a = pool_alloc(pool_large, one);
	ck_ok(vs_real.cuMemsetD8_v2(a, 11, 1));
	ck_ok(vs_real.cuCtxSynchronize());
	pool_busy(one);
	ck_ok(vs_real.cuMemsetD8Async(a, 12, 1, one));
	pool_free(a, one);
	pool_full();
	b = pool_alloc(pool_large, two);
	ck_assert_uint_eq(b, a);
	ck_ok(vs_real.cuMemsetD8Async(b, 13, 1, two));
	ck_cu(vs_real.cuStreamQuery(two), CUDA_ERROR_NOT_READY);
	memcpy(&got, (void *)(uintptr_t)b, 1);
	ck_assert_int_eq(got, 11);
	pool_let_go();
	ck_ok(vs_real.cuStreamSynchronize(two));
	memcpy(&got, (void *)(uintptr_t)b, 1);
	ck_assert_int_eq(got, 13);
	pool_free(b, two);
	pool_end();
}
END_TEST

/* _i: 1 the driver fails to record, 2 to let it wait. */
START_TEST(without_dependencies_it_is_the_program_that_waits)
{
	CUdeviceptr a, b;
	int off = 0;

	pool_start();
	if (!_i)
		ck_ok(cuMemPoolSetAttribute(pool_default(),
			CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
			&off));
	a = pool_alloc(pool_large, one);
	pool_busy(one);
	if (_i)
		sim_fail_from(_i == 1 ? "cuEventRecord" : "cuStreamWaitEvent",
			      1, CUDA_ERROR_UNKNOWN);
	pool_free(a, one);
	pool_full();
	pool_let_go_later();
	b = pool_alloc(pool_large, two);
	ck_assert(pool_was_let_go());
	sim_fail_clear();
	pool_free(b, two);
	pool_end();
}
END_TEST

START_TEST(without_opportunities_only_waits_make_it_anybodys)
{
	CUdeviceptr a, b;
	int off = 0;

	pool_start();
	ck_ok(cuMemPoolSetAttribute(pool_default(),
				    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
				    &off));
	a = pool_alloc(MIB, one);
	pool_free(a, one);
	ck_ok(vs_real.cuStreamSynchronize(one));
	b = pool_alloc(MIB, two);
	ck_assert_uint_ne(b, a);
	ck_assert_uint_eq(pool_alloc(MIB, one), a);
	pool_free(a, one);
	pool_free(b, two);
	pool_end();
}
END_TEST

/* _i: 1 no event can be recorded in it. */
START_TEST(what_a_destroyed_stream_has_freed_is_waited_for)
{
	CUdeviceptr a, b, c;

	pool_start();
	a = pool_alloc(MIB, one);
	pool_busy(one);
	pool_free(a, one);
	if (_i)
		sim_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
	ck_ok(cuStreamDestroy_v2(one));
	b = pool_alloc(MIB, two);
	ck_assert_uint_ne(b, a);
	pool_let_go();
	ck_ok(vs_real.cuCtxSynchronize());
	c = pool_alloc(MIB, two);
	ck_assert_uint_eq(c, a);
	pool_free(b, two);
	pool_free(c, two);
	one = two;
	pool_end();
}
END_TEST

START_TEST(a_stream_that_takes_the_place_of_a_destroyed_one_is_another)
{
	CUdeviceptr a, b;
	CUstream was;
	int i;

	pool_start();
	a = pool_alloc(MIB, one);
	pool_busy(one);
	pool_free(a, one);
	was = one;
	ck_ok(cuStreamDestroy_v2(one));
	for (i = 0; i < 64; i++) {
		ck_ok(vs_real.cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
		b = pool_alloc(MIB, one);
		ck_assert_uint_ne(b, a);
		pool_free(b, one);
		if (one == was)
			break;
	}
	pool_let_go();
	pool_end();
}
END_TEST

static CUdeviceptr other_threads;

static int use_own_stream(void *arg)
{
	CUdeviceptr a, *not_this = arg;

	fixture_current(fixture_context);
	ck_ok(cuMemAllocAsync_ptsz(&a, MIB, NULL));
	ck_assert_uint_ne(a, *not_this);
	ck_ok(cuMemFreeAsync_ptsz(a, NULL));
	ck_ok(cuMemAllocAsync(&other_threads, MIB, CU_STREAM_PER_THREAD));
	ck_assert_uint_eq(other_threads, a);
	ck_ok(cuMemFreeAsync_ptsz(a, NULL));
	return 0;
}

START_TEST(each_thread_has_a_default_stream_of_its_own)
{
	CUdeviceptr a, b;

	pool_start();
	ck_ok(cuMemAllocAsync_ptsz(&a, MIB, NULL));
	ck_ok(vs_real.cuLaunchHostFunc(CU_STREAM_PER_THREAD, pool_wait_fn,
				       NULL));
	ck_ok(cuMemFreeAsync_ptsz(a, NULL));
	fixture_on_thread(use_own_stream, &a);
	ck_ok(cuMemAllocAsync_ptsz(&b, MIB, NULL));
	ck_assert_uint_eq(b, a);
	ck_ok(cuMemFreeAsync_ptsz(b, NULL));
	pool_let_go();
	pool_end();
}
END_TEST

/* _i: 1 freed in the legacy stream. */
START_TEST(the_legacy_stream_is_a_stream_of_its_own)
{
	CUdeviceptr a, b, c;
	CUstream from = _i ? NULL : one, to;

	pool_start();
	from = _i ? NULL : one;
	to = _i ? one : CU_STREAM_LEGACY;
	a = pool_alloc(MIB, from);
	pool_busy(from);
	pool_free(a, from);
	b = pool_alloc(MIB, to);
	ck_assert_uint_ne(b, a);
	pool_let_go();
	ck_ok(vs_real.cuCtxSynchronize());
	c = pool_alloc(MIB, to);
	ck_assert_uint_eq(c, a);
	pool_free(b, to);
	pool_free(c, to);
	pool_end();
}
END_TEST

START_TEST(what_one_stream_always_frees_for_another_does_not_pile_up)
{
	CUdeviceptr a;
	int i;

	pool_start();
	for (i = 0; i < 2000; i++) {
		if (i % 50 == 0)
			ck_ok(vs_real.cuCtxSynchronize());
		a = pool_alloc(1000, one);
		pool_free(a, i % 2 ? CU_STREAM_PER_THREAD : NULL);
	}
	ck_assert_uint_le(vs_pool_spare(0), 512 * 1024);
	pool_end();
}
END_TEST

/* Whose thread alone makes it go on. */
START_TEST(nobody_waits_for_room_in_the_queue_of_another_stream)
{
	CUdeviceptr a, b[4], c[4];
	int i;

	setenv("VSLEEP_SIM_QUEUE", "8", 1);
	pool_start();
	a = pool_alloc(MIB, one);
	for (i = 0; i < 4; i++)
		b[i] = pool_alloc(MIB, i % 2 ? one : NULL);
	pool_busy(one);
	pool_free(a, one);
	for (i = 0; i < 4; i++)
		pool_free(b[i], i % 2 ? one : NULL);
	for (i = 2; i < 8; i++)
		ck_ok(vs_real.cuLaunchHostFunc(one, pool_nothing_fn, NULL));
	for (i = 0; i < 4; i++)
		c[i] = pool_alloc(MIB, two);
	pool_let_go();
	for (i = 0; i < 4; i++)
		pool_free(c[i], two);
	pool_end();
}
END_TEST

/* A thread or a stream for each piece of work is nothing unusual. */
START_TEST(streams_that_are_gone_leave_nothing)
{
	struct vs_pool_stream *s;
	CUstream own;
	CUdeviceptr a;
	int i, count = 0;

	pool_start();
	for (i = 0; i < 300; i++) {
		ck_ok(vs_real.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
		a = pool_alloc(1000, own);
		pool_free(a, own);
		ck_ok(vs_real.cuStreamSynchronize(own));
		ck_ok(cuStreamDestroy_v2(own));
	}
	for (s = vs_pool_streams; s; s = s->all_next)
		count++;
	ck_assert_int_le(count, 40);
	ck_assert_uint_le(vs_pool_spare(0), 40 * 1024);
	pool_end();
}
END_TEST

/* Who frees it so has waited for its own use, not for the one before. */
START_TEST(a_plain_free_of_memory_got_early_makes_it_nobody_elses)
{
	CUdeviceptr a, b;

	pool_start();
	a = pool_alloc(MIB, one);
	pool_busy(one);
	pool_free(a, one);
	ck_assert_uint_eq(pool_alloc(MIB, one), a);
	ck_ok(cuMemFree_v2(a));
	b = pool_alloc(MIB, two);
	ck_assert_uint_ne(b, a);
	ck_assert_uint_eq(pool_alloc(MIB, one), a);
	pool_free(a, one);
	pool_free(b, two);
	pool_let_go();
	pool_end();
}
END_TEST

/* _i: the size. */
START_TEST(memory_is_freed_in_either_way_whichever_way_it_came)
{
	CUdeviceptr plain, pooled;

	pool_start();
	ck_ok(cuMemAlloc_v2(&plain, pool_sizes[_i]));
	pooled = pool_alloc(pool_sizes[_i], one);
	ck_ok(cuMemFreeAsync(plain, one));
	ck_ok(cuMemFree_v2(pooled));
	ck_cu(cuMemFreeAsync(pooled, one), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFreeAsync(plain, one), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fixture_ledger().allocations, 0);
	pool_end();
}
END_TEST

START_TEST(errors_are_the_drivers_own)
{
	CUdeviceptr a, b;
	CUstream gone;

	pool_start();
	ck_cu(cuMemAllocAsync(NULL, 100, one), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemAllocAsync(&a, 0, one), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemAllocAsync(&a, (size_t)1 << 50, one),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuMemAllocAsync(&a, (size_t)1 << 36, one),
	      CUDA_ERROR_OUT_OF_MEMORY);
	a = pool_alloc(100, one);
	ck_cu(cuMemFreeAsync(a + 8, one), CUDA_ERROR_INVALID_VALUE);
	fixture_current(NULL);
	ck_cu(cuMemAllocAsync(&b, 100, NULL), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuMemFreeAsync(a, NULL), CUDA_ERROR_INVALID_CONTEXT);
	ck_ok(cuMemAllocAsync(&b, 3 * MIB, one));
	ck_ok(cuMemFreeAsync(b, one));
	fixture_current(fixture_context);
	pool_free(a, one);
	ck_ok(vs_real.cuStreamCreate(&gone, 0));
	ck_ok(cuStreamDestroy_v2(gone));
	ck_cu(cuMemAllocAsync(&a, 100, gone), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		the_same_stream_gets_it_back_without_asking_the_driver,
		0, POOL_SIZES);
	tcase_add_loop_test(tc,
		another_stream_gets_it_when_the_device_is_past_the_free,
		0, POOL_SIZES);
	tcase_add_test(tc, a_stream_that_goes_on_is_past_the_free_by_its_event);
	tcase_add_test(tc, work_that_a_free_waits_for_is_waited_for);
	tcase_add_test(tc,
		on_a_full_device_the_stream_waits_for_the_one_that_frees);
	tcase_add_loop_test(tc,
		without_dependencies_it_is_the_program_that_waits, 0, 3);
	tcase_add_test(tc, without_opportunities_only_waits_make_it_anybodys);
	tcase_add_loop_test(tc, what_a_destroyed_stream_has_freed_is_waited_for,
			    0, 2);
	tcase_add_test(tc,
		a_stream_that_takes_the_place_of_a_destroyed_one_is_another);
	tcase_add_test(tc, each_thread_has_a_default_stream_of_its_own);
	tcase_add_loop_test(tc, the_legacy_stream_is_a_stream_of_its_own, 0, 2);
	tcase_add_test(tc,
		what_one_stream_always_frees_for_another_does_not_pile_up);
	tcase_add_test(tc,
		       nobody_waits_for_room_in_the_queue_of_another_stream);
	tcase_add_test(tc, streams_that_are_gone_leave_nothing);
	tcase_add_test(tc,
		a_plain_free_of_memory_got_early_makes_it_nobody_elses);
	tcase_add_loop_test(tc,
		memory_is_freed_in_either_way_whichever_way_it_came, 0,
		POOL_SIZES);
	tcase_add_test(tc, errors_are_the_drivers_own);
}

int main(void)
{
	return fixture_main("pool", fill);
}
