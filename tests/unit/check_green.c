/* SPDX-License-Identifier: Apache-2.0 */
/* A green context is part of the primary one, in work and in memory. */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/capture.h"
#include "memory/unmanaged.h"
#include "sleep/gate.h"

#include <string.h>

#define SMALL (3 * MIB)
#define LARGE (17 * MIB)
#define BOTH (SMALL + LARGE)

static struct vs_reply reply;

static CUgreenCtx make(CUcontext *context)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int count = 1;
	CUgreenCtx green;

	ck_ok(vs_real.cuDeviceGetDevResource(0, &all,
					     CU_DEV_RESOURCE_TYPE_SM));
	ck_ok(vs_real.cuDevSmResourceSplitByCount(&part, &count, &all, NULL,
						  0, 16));
	ck_ok(vs_real.cuDevResourceGenerateDesc(&desc, &part, 1));
	ck_ok(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	ck_ok(vs_real.cuCtxFromGreenCtx(context, green));
	return green;
}

static void cycle(void)
{
	reply = fixture_sleep(1, NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_uint_eq(sim_used(0), 0);
	reply = fixture_wake(NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	fixture_assert_sound();
}

START_TEST(its_memory_is_the_primary_contexts)
{
	CUdeviceptr small, large;
	CUcontext context;
	CUgreenCtx green;

	fixture_start("w", "");
	green = make(&context);
	ck_assert_ptr_ne(context, fixture_context);
	ck_ok(cuCtxSetCurrent(context));
	small = fixture_alloc("w", SMALL);
	large = fixture_alloc("w", LARGE);
	ck_assert_ptr_eq(fixture_segment(small)->context, fixture_context);
	ck_assert_ptr_eq(fixture_segment(large)->context, fixture_context);
	ck_assert_int_eq(vs_context_count(), 1);
	ck_assert_int_eq(fixture_ledger().devices[0].contexts, 1);
	cycle();	/* on another thread, and it stays current to this */
	fixture_assert_filled(small, SMALL);
	fixture_assert_filled(large, LARGE);
	ck_ok(cuCtxSetCurrent(fixture_context));
	ck_ok(cuGreenCtxDestroy(green));
	cycle();
	fixture_assert_filled(large, LARGE);
	fixture_free(small);
	fixture_free(large);
	fixture_assert_empty();
}
END_TEST

START_TEST(native_memory_of_it_goes_with_the_primary_context)
{
	CUdeviceptr base;
	CUcontext context;

	fixture_start("", "");
	make(&context);
	ck_ok(cuCtxSetCurrent(context));
	ck_ok(cuMemAlloc_v2(&base, 5000));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), 5000);
	ck_ok(cuDevicePrimaryCtxReset_v2(0));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), 0);
}
END_TEST

/* A sleep waits for the work of its streams. */
START_TEST(its_streams_come_to_rest_too)
{
	struct vs_request r = { .verb = VS_VERB_SLEEP, .level = 1,
				.all_tags = true, .timeout_ms = 300 };
	CUdeviceptr base;
	CUcontext context;
	CUgreenCtx green;
	CUstream stream;

	fixture_start("w", "");
	base = fixture_alloc("w", LARGE);
	green = make(&context);
	ck_ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING,
				     0));
	sim_hold(1);
	ck_ok(cuMemsetD8Async(base, 7, LARGE, stream));
	reply = fixture_ask(&r);
	ck_assert_int_eq(reply.status, VS_BUSY);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(sim_used(0), LARGE);
	sim_hold(0);
	ck_ok(vs_real.cuStreamSynchronize(stream));
	cycle();
	ck_assert_int_eq(*(unsigned char *)(uintptr_t)(base + LARGE - 1), 7);
	ck_ok(vs_real.cuStreamDestroy_v2(stream));
	ck_ok(cuGreenCtxDestroy(green));
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 its destruction fails first. */
START_TEST(destroyed_while_asleep_it_leaves_its_memory)
{
	CUdeviceptr base;
	CUcontext context;
	CUgreenCtx green;

	fixture_start("w", "");
	green = make(&context);
	ck_ok(cuCtxSetCurrent(context));
	base = fixture_alloc("w", LARGE);
	ck_ok(cuCtxSetCurrent(NULL));
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	if (_i) {
		sim_fail("cuGreenCtxDestroy", 1, CUDA_ERROR_UNKNOWN);
		ck_cu(cuGreenCtxDestroy(green), CUDA_ERROR_UNKNOWN);
		ck_assert_uint_eq(fixture_ledger().evicted_bytes, LARGE);
	}
	ck_ok(cuGreenCtxDestroy(green));
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, LARGE);
	reply = fixture_wake(NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	fixture_assert_filled(base, LARGE);
	fixture_current(fixture_context);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 asleep. */
START_TEST(the_last_to_hold_the_primary_context_takes_all_memory)
{
	CUcontext context;
	CUgreenCtx green;

	fixture_start("w", "");
	green = make(&context);
	fixture_alloc("w", SMALL);
	fixture_alloc("w", LARGE);
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	ck_assert_uint_eq(fixture_ledger().live_bytes, BOTH);
	if (_i) {
		reply = fixture_sleep(1, NULL);
		ck_assert_int_eq(reply.status, VS_OK);
	}
	ck_ok(cuGreenCtxDestroy(green));
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_int_eq(vs_context_count(), 0);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_reset_ends_it_with_the_primary_context)
{
	CUdeviceptr base;
	CUcontext context;

	fixture_start("w", "");
	make(&context);
	ck_ok(cuCtxSetCurrent(context));
	fixture_alloc("w", LARGE);
	ck_ok(cuCtxSetCurrent(NULL));
	ck_ok(cuDevicePrimaryCtxReset_v2(0));
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_int_eq(vs_context_count(), 0);
	ck_ok(cuDevicePrimaryCtxRetain(&fixture_context, 0));
	fixture_current(fixture_context);
	base = fixture_alloc("w", LARGE);
	cycle();
	fixture_assert_filled(base, LARGE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static int allocate(void *stream)
{
	CUdeviceptr base;
	int rc;

	fixture_current(fixture_context);
	rc = cuMemAllocAsync(&base, MIB, stream);
	return rc ? rc : (int)cuMemFreeAsync(base, stream);
}

/* It is current to another one: nobody may make it current for a question. */
START_TEST(a_thread_uses_its_streams_without_it)
{
	CUcontext context;
	CUgreenCtx green;
	CUstream stream;

	fixture_start("w", "");
	green = make(&context);
	ck_ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING,
				     0));
	ck_ok(cuCtxSetCurrent(context));
	ck_ok(fixture_on_thread(allocate, stream));
	ck_assert_uint_eq(fixture_sim().invalid, 0);
	cycle();
	ck_ok(cuCtxSetCurrent(NULL));
	ck_ok(cuStreamDestroy_v2(stream));
	ck_ok(cuGreenCtxDestroy(green));
}
END_TEST

/* _i: it is destroyed, the primary context is reset. */
START_TEST(captures_in_its_streams_end_with_it)
{
	CUcontext context;
	CUgreenCtx green;
	CUstream stream;

	fixture_start("w", "");
	green = make(&context);
	ck_ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING,
				     0));
	ck_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_assert(vs_capture_any());
	if (_i)
		ck_ok(cuDevicePrimaryCtxReset_v2(0));
	else
		ck_ok(cuGreenCtxDestroy(green));
	ck_assert(!vs_capture_any());
	fixture_assert_empty();
}
END_TEST

/* The program has never retained the primary context itself. */
START_TEST(a_program_may_know_green_contexts_only)
{
	CUdeviceptr base;
	CUcontext context;
	CUgreenCtx green;

	fixture_start("w", "");
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	ck_assert_int_eq(vs_context_count(), 0);
	green = make(&context);
	ck_assert_int_eq(vs_context_count(), 1);
	ck_ok(cuCtxSetCurrent(context));
	base = fixture_alloc("w", LARGE);
	cycle();
	fixture_assert_filled(base, LARGE);
	fixture_free(base);
	ck_ok(cuCtxSetCurrent(NULL));
	ck_ok(cuGreenCtxDestroy(green));
	ck_assert_int_eq(vs_context_count(), 0);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, its_memory_is_the_primary_contexts);
	tcase_add_test(tc, native_memory_of_it_goes_with_the_primary_context);
	tcase_add_test(tc, its_streams_come_to_rest_too);
	tcase_add_loop_test(tc, destroyed_while_asleep_it_leaves_its_memory,
			    0, 2);
	tcase_add_loop_test(tc,
		the_last_to_hold_the_primary_context_takes_all_memory, 0, 2);
	tcase_add_test(tc, a_reset_ends_it_with_the_primary_context);
	tcase_add_test(tc, a_thread_uses_its_streams_without_it);
	tcase_add_loop_test(tc, captures_in_its_streams_end_with_it, 0, 2);
	tcase_add_test(tc, a_program_may_know_green_contexts_only);
}

int main(void)
{
	return fixture_main("green", fill);
}
