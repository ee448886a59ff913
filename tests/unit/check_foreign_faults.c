/* SPDX-License-Identifier: Apache-2.0 */
/* The driver fails a call while memory of the program sleeps or wakes. */
#include <config.h>

#include "foreign_fixture.h"

#include <string.h>

#define SIZE (2 * MIB)

static CUdeviceptr base, alias;
static handle_t handle, bare;

/* Two aliases, one read-only in part, and memory that is mapped nowhere. */
static void start(void)
{
	fixture_start("default", "");
	base = foreign_whole("w", SIZE, &handle);
	alias = foreign_reserve(SIZE);
	foreign_map(alias, SIZE, handle);
	foreign_allow(alias, SIZE, 0, RW);
	foreign_allow(alias + UNIT, UNIT, 0, RO);
	bare = foreign_make("w", MIB);
}

static void assert_whole(void)
{
	ck_assert_uint_eq(fixture_sim().mappings, 2);
	fixture_assert_filled(base, SIZE);
	ck_assert_mem_eq((void *)alias, (void *)base, SIZE);
	ck_assert_uint_eq(foreign_access(alias, 0), RW);
	ck_assert_uint_eq(foreign_access(alias + UNIT, 0), RO);
	ck_assert_uint_eq(fixture_sim().device_bytes, SIZE + MIB);
}

static void finish(void)
{
	assert_whole();
	ck_ok(vs_foreign_unmap(alias, SIZE));
	ck_ok(vs_foreign_unreserve(alias, SIZE));
	ck_ok(vs_foreign_release(bare));
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}

static const char *const calls[] = {
	"cuMemAddressFree", "cuMemAddressReserve", "cuMemCreate",
	"cuMemGetAllocationPropertiesFromHandle", "cuMemMap", "cuMemRelease",
	"cuMemSetAccess", "cuMemUnmap", "cuPointerGetAttributes",
	"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemcpyDtoHAsync_v2",
	"cuMemcpyHtoDAsync_v2",
};

#define OCCURRENCES 8

/* Awake with all bytes, or asleep with none on the device. */
static void assert_sleep_ended(enum vs_status st)
{
	struct vs_ledger now = fixture_ledger();

	fixture_assert_sound();
	if (st && st != VS_PARTIAL) {
		ck_assert_int_eq(now.state, VS_AWAKE);
		ck_assert_uint_eq(now.evicted_bytes, 0);
		assert_whole();
	} else {
		ck_assert_uint_eq(now.evicted_bytes + now.resident_bytes,
				  SIZE + MIB);
	}
}

/* _i: the call, and which of its occurrences. */
START_TEST(a_sleep_that_fails_can_be_tried_again)
{
	const char *name = calls[_i / OCCURRENCES];
	enum vs_status st;

	start();
	fixture_wake(NULL);
	sim_fail(name, (unsigned)(_i % OCCURRENCES) + 1, CUDA_ERROR_UNKNOWN);
	st = fixture_sleep(1, NULL).status;
	sim_fail_clear();
	assert_sleep_ended(st);
	st = fixture_sleep(1, NULL).status;
	ck_assert(st == VS_OK || st == VS_PARTIAL);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, SIZE + MIB);
	foreign_wake();
	finish();
}
END_TEST

START_TEST(a_wake_that_fails_can_be_tried_again)
{
	const char *name = calls[_i / OCCURRENCES];
	enum vs_status st;

	start();
	foreign_sleep();
	sim_fail(name, (unsigned)(_i % OCCURRENCES) + 1, CUDA_ERROR_UNKNOWN);
	st = fixture_wake(NULL).status;
	sim_fail_clear();
	fixture_assert_sound();
	if (st) {
		ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
		ck_assert_uint_eq(fixture_ledger().evicted_bytes, SIZE + MIB);
	}
	foreign_wake();
	fixture_wake(NULL);
	finish();
}
END_TEST

/* The first alias is out already: it comes back. */
START_TEST(an_alias_that_stays_brings_the_others_back)
{
	start();
	sim_fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_CUDA);
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	assert_whole();
	foreign_cycle();
	finish();
}
END_TEST

/* Nor does that work: the program stays held until it does, and its bytes
 * stay on the device.  _i: 1 what is missing is unmapped meanwhile. */
START_TEST(what_cannot_be_put_back_is_put_back_by_the_wake)
{
	start();
	sim_fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN);
	sim_fail("cuMemMap", 2, CUDA_ERROR_UNKNOWN);
	sim_fail("cuMemMap", 3, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_PARTIAL);
	sim_fail_clear();
	ck_assert_uint_eq(fixture_ledger().last.kept_bytes, SIZE);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, MIB);
	ck_assert_uint_eq(fixture_sim().mappings, 1);
	if (_i)
		ck_ok(vs_foreign_unmap(base, SIZE));
	foreign_wake();
	if (_i) {
		foreign_map(base, SIZE, handle);
		foreign_allow(base, SIZE, 0, RW);
	}
	assert_whole();
	foreign_cycle();
	finish();
}
END_TEST

static CUresult allow(CUdeviceptr at, CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = flags,
	};

	return vs_foreign_set_access(at, SIZE, &desc, 1);
}

START_TEST(the_drivers_refusal_changes_no_record)
{
	handle_t other = 0;

	start();
	sim_fail("cuMemSetAccess", 1, CUDA_ERROR_NOT_SUPPORTED);
	ck_cu(allow(base, RO), CUDA_ERROR_NOT_SUPPORTED);
	sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(vs_foreign_unmap(base, SIZE), CUDA_ERROR_UNKNOWN);
	sim_fail("cuMemAddressFree", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(vs_foreign_unreserve(base, SIZE), CUDA_ERROR_UNKNOWN);
	sim_fail("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(vs_foreign_map(alias + 4 * SIZE, SIZE, 0, bare, 0),
	      CUDA_ERROR_UNKNOWN);
	sim_fail("cuMemRetainAllocationHandle", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(vs_foreign_retain(&other, 4096), CUDA_ERROR_UNKNOWN);
	sim_fail_clear();
	foreign_cycle();
	finish();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_sleep_that_fails_can_be_tried_again, 0,
			    COUNT(calls) * OCCURRENCES);
	tcase_add_loop_test(tc, a_wake_that_fails_can_be_tried_again, 0,
			    COUNT(calls) * OCCURRENCES);
	tcase_add_test(tc, an_alias_that_stays_brings_the_others_back);
	tcase_add_loop_test(tc,
		what_cannot_be_put_back_is_put_back_by_the_wake, 0, 2);
	tcase_add_test(tc, the_drivers_refusal_changes_no_record);
}

int main(void)
{
	return fixture_main("foreign-faults", fill);
}
