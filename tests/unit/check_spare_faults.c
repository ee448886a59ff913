/* SPDX-License-Identifier: Apache-2.0 */
/* The driver fails a call while freed memory is kept, used again, or goes. */
#include <config.h>

#include "spare_fixture.h"

#include "memory/allocator.h"

#include <stdlib.h>

static const char *const calls[] = {
	"cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxGetStreamPriorityRange",
	"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuCtxSynchronize",
	"cuMemAddressFree", "cuMemAddressReserve", "cuMemAlloc_v2",
	"cuMemCreate", "cuMemMap", "cuMemRelease", "cuMemSetAccess",
	"cuMemUnmap", "cuThreadExchangeStreamCaptureMode",
};

#define OCCURRENCES 6
#define ROUNDS 3

static const size_t sizes[] = { 4 * KIB, 8 * MIB, OWN, OWN + MIB };

/* A free that fails leaves the allocation to the program. */
static void end(CUdeviceptr base, size_t size)
{
	if (!vs_allocator_free(base))
		return;
	if (fixture_segment(base))
		fixture_assert_filled(base, size);
	ck_ok(vs_allocator_free(base));
}

static void come_and_go(void)
{
	CUdeviceptr bases[COUNT(sizes)];
	int i, round;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < COUNT(sizes); i++) {
			if (vs_allocator_alloc(&bases[i], sizes[i]))
				bases[i] = 0;
			else
				fixture_fill(bases[i], sizes[i]);
		}
		for (i = 0; i < COUNT(sizes); i++) {
			if (!bases[i])
				continue;
			fixture_assert_filled(bases[i], sizes[i]);
			end(bases[i], sizes[i]);
		}
		if (round == 1)
			fixture_later();
	}
}

/* _i: the call, which of its occurrences, and whether the next one too. */
START_TEST(a_call_that_fails_loses_nothing)
{
	const char *name = calls[_i / 2 / OCCURRENCES];
	unsigned nth = (unsigned)(_i / 2 % OCCURRENCES) + 1;
	CUdeviceptr live;

	setenv("VSLEEP_SIM_DIRTY", "0", 1);
	fixture_start("w", "");
	fixture_new_context(0);
	fixture_current(fixture_context);
	live = fixture_alloc("w", OWN);
	sim_fail(name, nth, CUDA_ERROR_OUT_OF_MEMORY);
	if (_i & 1)
		sim_fail(name, nth + 1, CUDA_ERROR_OUT_OF_MEMORY);
	come_and_go();
	sim_fail_clear();
	fixture_assert_sound();
	fixture_assert_filled(live, OWN);
	ck_assert_uint_eq(fixture_ledger().live_bytes, OWN);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
	fixture_current(fixture_context);
	fixture_free(live);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_call_that_fails_loses_nothing, 0,
			    COUNT(calls) * OCCURRENCES * 2);
}

int main(void)
{
	return fixture_main("spare-faults", fill);
}
