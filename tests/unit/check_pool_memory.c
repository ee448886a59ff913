/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of pools as memory: it sleeps, outlives contexts, and is asked about
 * as the driver's own is. */
#include <config.h>

#include "pool_fixture.h"

#include "memory/pool.h"
#include "memory/unmanaged.h"

#include <stdlib.h>

#define LAST 21

/* _i: the size. */
START_TEST(it_sleeps_and_wakes_where_it_was)
{
	CUdeviceptr a, b;

	pool_start();
	a = pool_alloc(pool_sizes[_i], one);
	b = pool_alloc(pool_sizes[_i], two);
	fixture_fill(a, pool_sizes[_i]);
	pool_free(b, two);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(fixture_ledger().live_bytes, pool_sizes[_i]);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(a, pool_sizes[_i]);
	pool_free(a, one);
	pool_end();
}
END_TEST

START_TEST(a_dry_run_leaves_out_what_pools_keep)
{
	struct vs_request dry = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000, .dry_run = true,
	};
	CUdeviceptr blocks[20], large;
	struct vs_reply told;
	int i;

	pool_start();
	for (i = 0; i < 20; i++)
		blocks[i] = pool_alloc(300 * KIB, one);
	large = pool_alloc(20 * MIB, one);
	for (i = 1; i < 20; i++)
		pool_free(blocks[i], one);
	pool_free(large, one);
	ck_ok(vs_real.cuStreamSynchronize(one));
	told = fixture_ask(&dry);
	ck_assert_uint_gt(told.outlook.release_bytes, 0);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_uint_eq(told.outlook.release_bytes,
			  fixture_ledger().last.released_bytes);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	pool_free(blocks[0], one);
	pool_end();
}
END_TEST

/* _i: the size. */
START_TEST(a_free_while_it_sleeps_drops_the_backup)
{
	CUdeviceptr a, b;

	pool_start();
	a = pool_alloc(pool_sizes[_i], one);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	pool_free(a, one);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	ck_assert_uint_eq(fixture_ledger().allocations, 0);
	b = pool_alloc(pool_sizes[_i], one);
	fixture_fill(b, pool_sizes[_i]);
	pool_free(b, one);
	pool_end();
}
END_TEST

START_TEST(tags_share_no_memory_and_a_sleeping_one_gives_none)
{
	CUdeviceptr a, b, c;

	pool_start();
	ck_assert_int_eq(vs_tag_mark("x", NULL), VS_OK);
	a = pool_alloc(MIB, one);
	b = pool_alloc(MIB, one);
	pool_free(b, one);
	ck_assert_int_eq(vs_tag_mark("y", NULL), VS_OK);
	c = pool_alloc(MIB, one);
	ck_assert_uint_ne(c, b);
	pool_free(c, one);
	fixture_fill(a, MIB);
	ck_assert_int_eq(fixture_ask(&(struct vs_request){
		.verb = VS_VERB_SLEEP, .level = 1, .tags = fixture_tags("x"),
		.timeout_ms = 10000, .hold = VS_NO }).status, VS_OK);
	ck_assert_int_eq(vs_tag_mark("x", NULL), VS_OK);
	c = pool_alloc(MIB, one);
	fixture_fill(c, MIB);
	ck_assert_int_eq(fixture_segment(c)->level, 0);
	ck_assert_int_ne(fixture_segment(a)->level, 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(a, MIB);
	fixture_assert_filled(c, MIB);
	pool_free(a, one);
	pool_free(c, one);
	pool_end();
}
END_TEST

/* _i: 1 the primary one is reset. */
START_TEST(it_outlives_the_context_it_was_allocated_in)
{
	CUcontext second = NULL;
	CUdeviceptr a, b, c;
	CUstream stream;

	pool_start();
	if (!_i)
		second = fixture_new_context(0);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	a = pool_alloc(MIB, stream);
	b = pool_alloc(MIB, stream);
	fixture_fill(a, MIB);
	pool_free(b, stream);
	if (_i)
		ck_ok(cuDevicePrimaryCtxReset_v2(0));
	else
		ck_ok(cuCtxDestroy_v2(second));
	if (_i)
		ck_ok(cuDevicePrimaryCtxRetain(&fixture_context, 0));
	fixture_current(fixture_context);
	fixture_assert_filled(a, MIB);
	ck_ok(vs_real.cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	c = pool_alloc(MIB, one);
	ck_assert_uint_eq(c, b);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(a, MIB);
	ck_ok(cuMemFree_v2(a));
	pool_free(c, one);
	pool_end();
}
END_TEST

START_TEST(a_context_that_is_not_destroyed_keeps_its_streams)
{
	CUdeviceptr a;

	pool_start();
	a = pool_alloc(MIB, one);
	pool_busy(one);
	pool_free(a, one);
	sim_fail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_UNKNOWN);
	ck_assert_uint_eq(pool_alloc(MIB, one), a);
	pool_free(a, one);
	ck_assert_uint_ne(pool_alloc(MIB, two), a);
	pool_let_go();
}
END_TEST

START_TEST(what_is_kept_counts_as_free_and_serves_plain_requests)
{
	size_t before, kept, total;
	CUdeviceptr a, b;

	pool_start();
	ck_ok(cuMemGetInfo_v2(&before, &total));
	a = pool_alloc(pool_large, one);
	pool_free(a, one);
	ck_ok(cuMemGetInfo_v2(&kept, &total));
	ck_assert_uint_eq(kept, before);
	ck_ok(cuMemAlloc_v2(&b, pool_large));
	ck_assert_uint_eq(vs_pool_spare(0), 0);
	ck_ok(cuMemFree_v2(b));
	a = pool_alloc(20 * MIB, one);
	pool_free(a, one);
	b = pool_alloc(240 * MIB, two);
	pool_free(b, two);
	pool_end();
}
END_TEST

START_TEST(a_pools_device_need_not_be_the_streams)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
	};
	CUmemoryPool pool;
	CUdeviceptr a, b;

	pool_start();
	ck_ok(cuMemPoolCreate(&pool, &props));
	ck_ok(cuMemAllocFromPoolAsync(&a, MIB, pool, one));
	ck_assert_int_eq(fixture_segment(a)->device, 1);
	b = pool_alloc(MIB, one);
	ck_assert_int_eq(fixture_segment(b)->device, 0);
	pool_free(a, one);
	pool_free(b, one);
	ck_ok(cuMemAllocFromPoolAsync(&b, MIB, pool, one));
	ck_assert_uint_eq(b, a);
	pool_free(b, one);
	pool_end();
}
END_TEST

/* The pieces that pools are mapped in lie next to each other. */
static uint64_t relative(int attribute, uint64_t value, CUdeviceptr base)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return value % (32 * MIB);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return value - base;
	default:
		return value;
	}
}

/* Those that tell addresses and numbers of the driver's own. */
static bool differs(int attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
	       attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
	       attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
	       attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
}

/* _i: the size. */
START_TEST(questions_are_answered_as_those_about_the_drivers_own)
{
	size_t size = pool_sizes[_i], range;
	CUdeviceptr ours, native, base;
	uint64_t mine, theirs;
	CUresult rc;
	int a;

	pool_start();
	ours = pool_alloc(size, one);
	ck_ok(vs_real.cuMemAllocAsync(&native, size, one));
	for (a = 1; a <= LAST; a++) {
		if (differs(a))
			continue;
		mine = theirs = 0;
		rc = vs_real.cuPointerGetAttribute(&theirs,
			(CUpointer_attribute)a, native + size / 2);
		ck_assert_msg(cuPointerGetAttribute(&mine,
			(CUpointer_attribute)a, ours + size / 2) == rc,
			"attribute %d", a);
		ck_assert_msg(rc || relative(a, mine, ours) ==
			      relative(a, theirs, native),
			      "attribute %d: 0x%llx", a,
			      (unsigned long long)mine);
	}
	ck_ok(cuMemGetAddressRange_v2(&base, &range, ours + size - 1));
	ck_assert_uint_eq(base, ours);
	ck_assert_uint_eq(range, size);
	pool_free(ours, one);
	ck_cu(cuMemGetAddressRange_v2(&base, &range, ours),
	      CUDA_ERROR_NOT_FOUND);
	ck_ok(vs_real.cuMemFreeAsync(native, one));
	pool_end();
}
END_TEST

/* Each driver call of it once; _i: the call. */
static const char *const calls[] = {
	"cuCtxGetCurrent", "cuStreamGetId", "cuStreamGetCtx",
	"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuDeviceGetMemPool",
	"cuDeviceGetDefaultMemPool", "cuDeviceGetCount",
	"cuMemPoolGetAttribute", "cuStreamQuery", "cuEventCreate",
	"cuEventRecord", "cuEventQuery", "cuCtxRecordEvent",
	"cuThreadExchangeStreamCaptureMode", "cuMemAddressReserve",
	"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
	"cuMemRelease", "cuMemAddressFree", "cuStreamWaitEvent",
	"cuEventSynchronize", "cuMemAllocAsync", "cuMemFreeAsync",
	"cuMemPoolTrimTo",
};

static CUdeviceptr try_alloc(size_t size, CUstream stream)
{
	CUdeviceptr base;

	return cuMemAllocAsync(&base, size, stream) ? 0 : base;
}

static void try_free(CUdeviceptr base, CUstream stream)
{
	CUresult rc;

	if (!base)
		return;
	rc = cuMemFreeAsync(base, stream);
	if (rc)
		ck_ok(cuMemFreeAsync(base, stream));
}

static void live_a_little(CUmemoryPool pool)
{
	CUdeviceptr a, b, c, d;

	a = try_alloc(MIB, one);
	b = try_alloc(20 * MIB, NULL);
	try_free(a, one);
	try_free(b, NULL);
	c = try_alloc(MIB, two);
	d = try_alloc(20 * MIB, two);
	if (c)
		fixture_fill(c, MIB);
	try_free(d, two);
	d = try_alloc(28 * MIB, one);
	try_free(d, one);
	if (c)
		fixture_assert_filled(c, MIB);
	try_free(c, two);
	cuMemPoolTrimTo(pool, 0);
	vs_pool_idle(5);
	vs_pool_idle(6);
}

START_TEST(no_failing_call_loses_memory)
{
	const char *name = calls[_i / 4];
	CUmemoryPool pool;

	setenv("VSLEEP_SIM_MEMORY", "44M", 1);
	pool_start();
	pool = pool_default();
	sim_fail(name, (unsigned)_i % 4 + 1, CUDA_ERROR_UNKNOWN);
	live_a_little(pool);
	sim_fail_clear();
	live_a_little(pool);
	ck_assert_msg(!fixture_ledger().allocations, "%s", name);
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	pool_end();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, it_sleeps_and_wakes_where_it_was, 0,
			    POOL_SIZES);
	tcase_add_test(tc, a_dry_run_leaves_out_what_pools_keep);
	tcase_add_loop_test(tc, a_free_while_it_sleeps_drops_the_backup, 0,
			    POOL_SIZES);
	tcase_add_test(tc, tags_share_no_memory_and_a_sleeping_one_gives_none);
	tcase_add_loop_test(tc, it_outlives_the_context_it_was_allocated_in, 0,
			    2);
	tcase_add_test(tc, a_context_that_is_not_destroyed_keeps_its_streams);
	tcase_add_test(tc,
		what_is_kept_counts_as_free_and_serves_plain_requests);
	tcase_add_test(tc, a_pools_device_need_not_be_the_streams);
	tcase_add_loop_test(tc,
		questions_are_answered_as_those_about_the_drivers_own, 0,
		POOL_SIZES);
	tcase_add_loop_test(tc, no_failing_call_loses_memory, 0,
			    4 * COUNT(calls));
}

int main(void)
{
	return fixture_main("pool_memory", fill);
}
