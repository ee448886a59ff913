/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: what they count, keep and give back, and which stay the driver's. */
#include <config.h>

#include "pool_fixture.h"

#include "base/lock.h"
#include "memory/pool.h"
#include "memory/unmanaged.h"

static CUmemoryPool make_pool(CUmemAllocationHandleType handles, size_t most)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = handles, .maxSize = most,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;

	ck_ok(cuMemPoolCreate(&pool, &props));
	return pool;
}

static CUdeviceptr from_pool(CUmemoryPool pool, size_t size)
{
	CUdeviceptr base = 0;

	ck_ok(cuMemAllocFromPoolAsync(&base, size, pool, one));
	return base;
}

static cuuint64_t get(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = ~(cuuint64_t)0;

	ck_ok(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static void set(CUmemoryPool pool, CUmemPool_attribute attribute,
		cuuint64_t value)
{
	ck_ok(cuMemPoolSetAttribute(pool, attribute, &value));
}

static void assert_used(CUmemoryPool pool, size_t now, size_t high)
{
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), now);
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), high);
}

static void assert_reserved(CUmemoryPool pool, size_t now, size_t high)
{
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
			  now);
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), high);
}

/* _i: 1 the default pool. */
START_TEST(attributes_count_what_is_used_and_what_is_kept)
{
	CUmemoryPool pool;
	CUdeviceptr a, b;

	pool_start();
	pool = _i ? pool_default() : make_pool(0, 0);
	a = from_pool(pool, MIB);
	b = from_pool(pool, 20 * MIB);
	assert_used(pool, 21 * MIB, 21 * MIB);
	assert_reserved(pool, 21 * MIB, 21 * MIB);
	pool_free(b, one);
	assert_used(pool, MIB, 21 * MIB);
	assert_reserved(pool, 21 * MIB, 21 * MIB);
	set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
	assert_used(pool, MIB, MIB);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_ok(cuMemPoolTrimTo(pool, 2 * MIB));
	assert_reserved(pool, 21 * MIB, 21 * MIB);
	ck_ok(cuMemPoolTrimTo(pool, 0));
	assert_reserved(pool, MIB, 21 * MIB);
	set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
	assert_reserved(pool, MIB, MIB);
	pool_free(a, one);
	pool_end();
}
END_TEST

START_TEST(a_pools_settings_are_the_drivers_and_unknown_ones_are_refused)
{
	CUmemoryPool pool;
	cuuint64_t value = 1;
	int flag = 7;

	pool_start();
	pool = make_pool(0, 0);
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 5 * MIB);
	ck_ok(vs_real.cuMemPoolGetAttribute(pool,
			CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	ck_assert_uint_eq(value, 5 * MIB);
	ck_ok(cuMemPoolGetAttribute(pool,
			CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
	ck_assert_int_eq(flag, 1);
	value = 1;
	ck_cu(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
				    &value), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value),
	      CUDA_ERROR_INVALID_VALUE);
	pool_end();
}
END_TEST

START_TEST(a_trim_leaves_what_the_device_has_not_come_past)
{
	CUmemoryPool pool;
	CUdeviceptr a;

	pool_start();
	pool = make_pool(0, 0);
	a = from_pool(pool, 20 * MIB);
	pool_busy(one);
	pool_free(a, one);
	ck_ok(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
			  20 * MIB);
	pool_let_go();
	ck_ok(vs_real.cuStreamSynchronize(one));
	ck_ok(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	pool_end();
}
END_TEST

/* After a synchronise, whichever stream it was freed in. */
START_TEST(a_trim_gives_back_what_default_streams_have_freed)
{
	CUdeviceptr a, b;

	pool_start();
	ck_ok(cuMemAllocAsync(&a, 20 * MIB, NULL));
	ck_ok(cuMemAllocAsync_ptsz(&b, 20 * MIB, NULL));
	ck_ok(cuMemFreeAsync(a, NULL));
	ck_ok(cuMemFreeAsync_ptsz(b, NULL));
	ck_ok(vs_real.cuCtxSynchronize());
	ck_ok(cuMemPoolTrimTo(pool_default(), 0));
	ck_assert_uint_eq(sim_used(0), 0);
	pool_end();
}
END_TEST

START_TEST(allocations_outlive_their_pool)
{
	CUmemoryPool pool, asked;
	CUdeviceptr a, b;

	pool_start();
	pool = make_pool(0, 0);
	ck_ok(cuDeviceSetMemPool(0, pool));
	a = pool_alloc(20 * MIB, one);
	b = pool_alloc(20 * MIB, one);
	ck_ok(cuPointerGetAttribute(&asked,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	ck_assert_ptr_eq(asked, pool);
	pool_free(b, one);
	ck_ok(vs_real.cuStreamSynchronize(one));
	ck_ok(cuMemPoolDestroy(pool));
	ck_assert_uint_eq(sim_used(0), 20 * MIB);
	fixture_fill(a, 20 * MIB);
	fixture_assert_filled(a, 20 * MIB);
	b = pool_alloc(MIB, one);
	ck_ok(cuPointerGetAttribute(&asked,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b));
	ck_assert_ptr_eq(asked, pool_default());
	pool_free(a, one);
	pool_free(b, one);
	pool_end();
}
END_TEST

START_TEST(a_pool_that_cannot_be_destroyed_goes_on)
{
	CUmemoryPool pool;
	CUdeviceptr a;

	pool_start();
	ck_cu(cuMemPoolDestroy(pool_default()), CUDA_ERROR_INVALID_VALUE);
	pool = make_pool(0, 0);
	sim_fail("cuMemPoolDestroy", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuMemPoolDestroy(pool), CUDA_ERROR_UNKNOWN);
	a = from_pool(pool, MIB);
	ck_assert_ptr_nonnull(fixture_segment(a));
	pool_free(a, one);
	ck_ok(cuMemPoolDestroy(pool));
	ck_cu(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_pool_grows_to_its_size_and_no_further)
{
	CUmemoryPool pool;
	CUdeviceptr a, b;

	pool_start();
	pool = make_pool(0, 30 * MIB);
	a = from_pool(pool, 20 * MIB);
	ck_cu(cuMemAllocFromPoolAsync(&b, 20 * MIB, pool, one),
	      CUDA_ERROR_OUT_OF_MEMORY);
	pool_free(a, one);
	/* what is kept makes room, once it can */
	b = from_pool(pool, 25 * MIB);
	ck_assert_uint_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
			  25 * MIB);
	pool_free(b, one);
	ck_cu(cuMemAllocFromPoolAsync(&b, 31 * MIB, pool, one),
	      CUDA_ERROR_OUT_OF_MEMORY);
	pool_end();
}
END_TEST

/* Each tick finds the pool unused since the last one, or not. */
START_TEST(a_pool_left_unused_gives_back_what_is_over_its_threshold)
{
	CUmemoryPool pool;
	CUdeviceptr a, b;

	pool_start();
	pool = pool_default();
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 22 * MIB);
	a = pool_alloc(20 * MIB, one);
	pool_free(a, one);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_pool_idle(4) == 0);
	a = pool_alloc(20 * MIB, one);
	b = pool_alloc(20 * MIB, two);
	pool_free(a, one);
	pool_free(b, two);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_pool_idle(5) > 5);
	ck_assert_uint_eq(vs_pool_spare(0), 40 * MIB);
	a = pool_alloc(20 * MIB, one);
	pool_free(a, one);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_pool_idle(6) > 6);
	ck_assert_uint_eq(vs_pool_spare(0), 40 * MIB);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_pool_idle(7) == 0);
	ck_assert_uint_eq(vs_pool_spare(0), 20 * MIB);
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_pool_idle(8) == 0);
	ck_assert_uint_eq(sim_used(0), 0);
	pool_end();
}
END_TEST

/* Not for ever, because others do. */
START_TEST(what_a_pool_in_use_does_not_use_goes_back)
{
	CUdeviceptr a, b;
	int now;

	pool_start();
	a = pool_alloc(20 * MIB, one);
	b = pool_alloc(MIB, two);
	pool_free(a, one);
	for (now = 10; now < 16; now++) {
		ck_ok(vs_real.cuCtxSynchronize());
		pool_free(b, two);
		b = pool_alloc(MIB, two);
		ck_assert(vs_pool_idle(now) >= 0);
		if (now < 12)
			ck_assert_uint_ge(vs_pool_spare(0), 20 * MIB);
	}
	ck_assert_uint_lt(vs_pool_spare(0), 20 * MIB);
	pool_free(b, two);
	pool_end();
}
END_TEST

START_TEST(what_is_not_done_is_looked_at_again)
{
	CUdeviceptr a;

	pool_start();
	a = pool_alloc(20 * MIB, one);
	pool_busy(one);
	pool_free(a, one);
	ck_assert(vs_pool_idle(5) > 5);
	ck_assert(vs_pool_idle(6) > 6);
	ck_assert_uint_eq(vs_pool_spare(0), 20 * MIB);
	pool_let_go();
	ck_ok(vs_real.cuStreamSynchronize(one));
	ck_assert(vs_pool_idle(7) == 0);
	ck_assert_uint_eq(sim_used(0), 0);
	pool_end();
}
END_TEST

START_TEST(pools_that_can_be_shared_stay_the_drivers)
{
	CUmemoryPool pool, asked;
	CUdeviceptr a;

	pool_start();
	pool = make_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	a = from_pool(pool, 5000);
	ck_assert_ptr_null(fixture_segment(a));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_POOL), 5000);
	ck_ok(cuPointerGetAttribute(&asked,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	ck_assert_ptr_eq(asked, pool);
	ck_assert_uint_ge(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 5000);
	ck_ok(cuMemFree_v2(a));
	a = from_pool(pool, 5000);
	ck_ok(cuDeviceSetMemPool(0, pool));
	ck_ok(cuMemFreeAsync(a, one));
	ck_ok(cuMemAllocAsync(&a, 700, one));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_POOL), 700);
	ck_ok(cuMemFreeAsync(a, one));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	pool_end();
}
END_TEST

START_TEST(without_a_tag_it_is_the_drivers)
{
	CUdeviceptr a;

	pool_start();
	ck_assert_int_eq(vs_tag_push("", NULL), VS_OK);
	ck_ok(cuMemAllocAsync(&a, 5000, one));
	ck_assert_ptr_null(fixture_segment(a));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_POOL), 5000);
	ck_ok(cuMemFreeAsync(a, one));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	pool_end();
}
END_TEST

START_TEST(in_a_capture_allocations_are_the_graphs)
{
	CUdeviceptr a, ours, beside;
	CUgraph graph;

	pool_start();
	ours = pool_alloc(MIB, one);
	ck_ok(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_ok(cuMemAllocAsync(&a, 5000, one));
	ck_assert_ptr_null(fixture_segment(a));
	ck_cu(cuMemFreeAsync(ours, one), CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_nonnull(fixture_segment(ours));
	/* a stream beside it is as ever, and breaks nothing */
	beside = pool_alloc(20 * MIB, two);
	pool_free(ours, two);
	ck_assert_uint_eq(pool_alloc(MIB, two), ours);
	pool_free(beside, two);
	ck_ok(cuMemFreeAsync(a, one));
	ck_ok(cuStreamEndCapture(one, &graph));
	ck_assert_ptr_nonnull(graph);
	pool_free(ours, two);
	ck_ok(vs_real.cuGraphDestroy(graph));
}
END_TEST

static unsigned long about_streams(void)
{
	return sim_calls("cuStreamQuery") + sim_calls("cuEventRecord") +
	       sim_calls("cuCtxRecordEvent");
}

/* No question about a stream that another one's capture would break by. */
START_TEST(beside_a_capture_other_streams_are_left_alone)
{
	CUdeviceptr a, b, c;
	unsigned long asked;
	CUgraph graph;

	pool_start();
	a = pool_alloc(MIB, one);
	b = pool_alloc(MIB, one);
	pool_free(a, one);
	pool_free(b, one);
	ck_ok(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_GLOBAL));
	asked = about_streams();
	a = pool_alloc(MIB, two);
	c = pool_alloc(MIB, two);
	ck_assert_uint_ne(a, b);
	ck_assert_uint_ne(c, b);
	ck_ok(cuMemPoolTrimTo(pool_default(), 0));
	ck_assert(vs_pool_idle(5) >= 0);
	ck_assert_uint_eq(about_streams(), asked);
	ck_ok(cuStreamEndCapture(one, &graph));
	ck_assert_ptr_nonnull(graph);
	ck_ok(vs_real.cuGraphDestroy(graph));
	pool_free(a, two);
	pool_free(c, two);
	pool_end();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		attributes_count_what_is_used_and_what_is_kept, 0, 2);
	tcase_add_test(tc,
		a_pools_settings_are_the_drivers_and_unknown_ones_are_refused);
	tcase_add_test(tc, a_trim_leaves_what_the_device_has_not_come_past);
	tcase_add_test(tc, a_trim_gives_back_what_default_streams_have_freed);
	tcase_add_test(tc, allocations_outlive_their_pool);
	tcase_add_test(tc, a_pool_that_cannot_be_destroyed_goes_on);
	tcase_add_test(tc, a_pool_grows_to_its_size_and_no_further);
	tcase_add_test(tc,
		a_pool_left_unused_gives_back_what_is_over_its_threshold);
	tcase_add_test(tc, what_a_pool_in_use_does_not_use_goes_back);
	tcase_add_test(tc, what_is_not_done_is_looked_at_again);
	tcase_add_test(tc, pools_that_can_be_shared_stay_the_drivers);
	tcase_add_test(tc, without_a_tag_it_is_the_drivers);
	tcase_add_test(tc, in_a_capture_allocations_are_the_graphs);
	tcase_add_test(tc, beside_a_capture_other_streams_are_left_alone);
}

int main(void)
{
	return fixture_main("pool_life", fill);
}
