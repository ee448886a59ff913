/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory is after a sleep where it was before, so far as there is
 * room. */
#include <config.h>

#include "managed_fixture.h"

#include "backup/host_pool.h"
#include "memory/managed_pages.h"

#include <stdlib.h>

/* Then a wake tries once and leaves it at that. */
START_TEST(what_the_driver_keeps_for_it_is_there_for_others)
{
	CUdeviceptr a, b, card;
	unsigned long calls;
	size_t before;

	managed_start("");
	a = managed_get("w", SIZE);
	b = managed_get("w", PAGE);
	managed_put_on(0, a, SIZE);
	managed_put_on(0, b, PAGE);
	before = managed_available();
	managed_sleep(VS_OK, NULL, SIZE + PAGE);
	ck_assert_uint_eq(managed_available(), before);
	card = managed_take(256 * MIB);
	ck_assert_uint_eq(sim_reserved(0), 0);
	fixture_assert_filled(a, SIZE);
	calls = sim_calls("cuMemPrefetchAsync_v2");
	managed_wake(0);
	ck_assert_uint_eq(sim_calls("cuMemPrefetchAsync_v2"), calls + 1);
	ck_assert_uint_eq(managed_held(0), 256 * MIB);
	fixture_assert_filled(a, SIZE);
	fixture_assert_filled(b, PAGE);
	managed_give(card);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

/* Of the blocks: the host has two, most of the third, a part of the last. */
START_TEST(what_the_host_has_touched_last_has_not_been_on_a_device)
{
	unsigned long calls;
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	fixture_assert_filled(base, 2 * PAGE + PAGE / 4 * 3);
	fixture_assert_filled(base + 3 * PAGE, PAGE / 4);
	managed_sleep(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, PAGE);
	ck_assert_uint_eq(vs_host_pool_taken(), PAGE);
	ck_assert_uint_eq(managed_held(0), 0);
	calls = sim_calls("cuMemPrefetchAsync_v2");
	managed_wake(PAGE);
	ck_assert_uint_eq(sim_calls("cuMemPrefetchAsync_v2"), calls + 1);
	ck_assert_uint_eq(managed_held(0), PAGE);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: in which way it cannot be read; 3: it tells nothing, as the host
 * reaches what a device has. */
START_TEST(where_pages_are_not_told_all_of_it_goes)
{
	const char *const ways[] = { "/nowhere", "/", "/dev/null" };
	const char *pagemap = vs_managed_pagemap;
	CUdeviceptr base;

	if (_i == COUNT(ways))
		setenv("VSLEEP_SIM_DIRECT", "0", 1);
	managed_start("");
	if (_i < COUNT(ways))
		vs_managed_pagemap = ways[_i];
	base = managed_get("w", SIZE + 5);
	managed_put_on(0, base, PAGE);
	managed_sleep(VS_OK, NULL, SIZE + 5);
	managed_wake(SIZE + 5);
	ck_assert_uint_eq(managed_held(0), SIZE + PAGE);
	fixture_assert_filled(base, SIZE + 5);
	vs_managed_pagemap = pagemap;
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_nobody_has_touched_counts_as_on_a_device)
{
	unsigned long calls;
	CUdeviceptr base;

	managed_start("");
	base = managed_get_fresh("w", SIZE);
	managed_sleep(VS_OK, NULL, SIZE);
	sim_limit(0, 3 * PAGE);
	calls = sim_calls("cuMemPrefetchAsync_v2");
	managed_wake(3 * PAGE);
	ck_assert_uint_eq(sim_calls("cuMemPrefetchAsync_v2"), calls + 1);
	ck_assert_int_eq(managed_attribute(base + 3 * PAGE, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION),
			CU_DEVICE_CPU);
	sim_limit(0, 256 * MIB);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_was_on_the_host_stays_there_after_a_wake)
{
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE + 70);
	managed_put_on(0, base + PAGE, 2 * PAGE);
	managed_sleep(VS_OK, NULL, 2 * PAGE);
	managed_wake(2 * PAGE);
	ck_assert_int_eq(managed_attribute(base + PAGE, 2 * PAGE,
			CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), 0);
	ck_assert_int_eq(managed_attribute(base, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION),
			CU_DEVICE_CPU);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(each_device_gets_its_own_back)
{
	CUdeviceptr a, b;

	managed_start("");
	fixture_new_context(1);
	fixture_current(fixture_context);
	a = managed_get("w", PAGE);
	b = managed_get("w", 3 * PAGE);
	managed_put_on(0, a, PAGE);
	managed_put_on(1, b, 3 * PAGE);
	managed_sleep(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(managed_held(0) + managed_held(1), 0);
	managed_wake(SIZE);
	ck_assert_uint_eq(managed_held(0), PAGE);
	ck_assert_uint_eq(managed_held(1), 3 * PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

/* Brought there, wished there, allocated there, in this order; _i: the driver
 * does not tell. */
START_TEST(it_goes_to_the_device_that_it_was_likely_on)
{
	const CUmemLocation one = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
				    .id = 1 };
	CUdeviceptr a, b;

	managed_start("");
	fixture_new_context(1);
	a = managed_get_fresh("w", PAGE);
	fixture_current(fixture_context);
	b = managed_get_fresh("w", 3 * PAGE);
	ck_ok(cuMemAdvise_v2(b, 2 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			     one));
	managed_put_on(0, b, PAGE);
	if (_i)
		sim_fail_from("cuMemRangeGetAttribute", 1,
			      CUDA_ERROR_UNKNOWN);
	managed_sleep(VS_OK, NULL, SIZE);
	sim_fail_clear();
	managed_wake(SIZE);
	ck_assert_uint_eq(managed_held(0), (_i ? 3 : 2) * PAGE);
	ck_assert_uint_eq(managed_held(1), (_i ? 1 : 2) * PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_full_device_gets_back_what_fits_and_no_error)
{
	CUdeviceptr base, most;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	managed_sleep(VS_OK, NULL, SIZE);
	most = managed_take(256 * MIB - PAGE);
	managed_wake(PAGE);
	ck_assert_uint_eq(managed_held(0), 256 * MIB);
	managed_sleep(VS_OK, NULL, PAGE);
	managed_give(most);
	managed_wake(PAGE);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: of two prefetches the one that fails; 2: how much is free is not told,
 * 3: nor what this thread would need to ask. */
START_TEST(what_does_not_come_back_is_on_the_host)
{
	static const char *const calls[] = {
		"cuMemPrefetchAsync_v2", "cuMemPrefetchAsync_v2",
		"cuMemGetInfo_v2", "cuCtxPushCurrent_v2",
	};
	static const unsigned nth[] = { 1, 2, 1, 1 };
	const size_t come = _i < 2 ? (1 + !_i) * PAGE : 0;
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, PAGE);
	managed_put_on(0, base + 2 * PAGE, 2 * PAGE);
	managed_sleep(VS_OK, NULL, 3 * PAGE);
	sim_fail(calls[_i], nth[_i], CUDA_ERROR_UNKNOWN);
	managed_wake(come);
	sim_fail_clear();
	ck_assert_uint_eq(managed_held(0), come);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* Only the host has it, however it is read. */
START_TEST(what_is_mostly_read_on_the_host_stays_there)
{
	const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	ck_ok(cuMemAdvise_v2(base, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY,
			     host));
	managed_sleep(VS_OK, NULL, 0);
	managed_wake(0);
	ck_assert_uint_eq(managed_held(0), 0);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_the_driver_keeps_for_it_is_there_for_others);
	tcase_add_test(tc,
		what_the_host_has_touched_last_has_not_been_on_a_device);
	tcase_add_loop_test(tc, where_pages_are_not_told_all_of_it_goes, 0, 4);
	tcase_add_test(tc, what_nobody_has_touched_counts_as_on_a_device);
	tcase_add_test(tc, what_was_on_the_host_stays_there_after_a_wake);
	tcase_add_test(tc, each_device_gets_its_own_back);
	tcase_add_loop_test(tc, it_goes_to_the_device_that_it_was_likely_on,
			    0, 2);
	tcase_add_test(tc, a_full_device_gets_back_what_fits_and_no_error);
	tcase_add_loop_test(tc, what_does_not_come_back_is_on_the_host,
			    0, 4);
	tcase_add_test(tc, what_is_mostly_read_on_the_host_stays_there);
}

int main(void)
{
	return fixture_main("managed_place", fill);
}
