/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the driver fail while backups are made. */
#include <config.h>

#include "prepare_fixture.h"

#include "memory/staging.h"

static const char *const calls[] = {
	"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuLaunchKernel",
	"cuMemAddressFree", "cuMemAddressReserve", "cuMemCreate",
	"cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemHostRegister_v2", "cuMemMap",
	"cuMemRelease", "cuMemSetAccess", "cuMemUnmap", "cuMemcpyDtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuModuleGetFunction",
	"cuModuleGetGlobal_v2", "cuStreamCreate",
	"cuStreamQuery", "cuThreadExchangeStreamCaptureMode",
};

static void fill_anew(CUdeviceptr base, int seed)
{
	fixture_fill(base, SIZE);
	*(int *)(uintptr_t)(base + 5 * MIB) = seed;
}

static void assert_anew(CUdeviceptr base, int seed)
{
	ck_assert_int_eq(*(int *)(uintptr_t)(base + 5 * MIB), seed);
	fixture_assert_filled(base, 5 * MIB);
	fixture_assert_filled(base + 5 * MIB + 8, SIZE - 5 * MIB - 8);
}

/* What a failure leaves is right, and goes. */
static bool try_fault(const char *name, unsigned nth, bool lasting,
		      CUdeviceptr base)
{
	bool struck;

	fill_anew(base, (int)nth);
	if (lasting)
		sim_fail_from(name, nth, CUDA_ERROR_OUT_OF_MEMORY);
	else
		sim_fail(name, nth, CUDA_ERROR_OUT_OF_MEMORY);
	prepare_ask(NULL);
	struck = sim_injected();
	sim_fail_clear();
	prepare_assert_backups();
	prepare_sleep();
	prepare_assert_backups();
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
	prepare_wake();
	assert_anew(base, (int)nth);
	fixture_assert_sound();
	if (nth % 2)
		prepare_end();
	return struck;
}

/* _i: which. */
START_TEST(any_call_may_fail)
{
	unsigned nth;
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	ck_assert_msg(try_fault(calls[_i], 1, true, base), "%s", calls[_i]);
	for (nth = 1; nth < 12 && try_fault(calls[_i], nth, false, base); nth++)
		;
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, any_call_may_fail, 0, COUNT(calls));
}

int main(void)
{
	return fixture_main("prepare_faults", fill);
}
