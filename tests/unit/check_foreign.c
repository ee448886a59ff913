/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program creates and maps itself sleeps and wakes. */
#include <config.h>

#include "foreign_fixture.h"

#include "memory/allocator.h"
#include "memory/detach.h"
#include "memory/unmanaged.h"

#include <stdlib.h>

#define SIZE (3 * MIB)

static void start(void)
{
	fixture_start("default", "kv=discard,scratch=keep");
}

START_TEST(it_sleeps_and_wakes_with_its_bytes)
{
	handle_t handle, seen;
	CUdeviceptr base;
	int i;

	start();
	base = foreign_whole("w", SIZE, &handle);
	for (i = 0; i < 3; i++) {
		foreign_sleep();
		ck_assert_uint_eq(fixture_ledger().evicted_bytes, SIZE);
		ck_assert_uint_eq(fixture_ledger().last.released_bytes, SIZE);
		ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
		foreign_wake();
		ck_assert_uint_eq(fixture_ledger().resident_bytes, SIZE);
		fixture_assert_filled(base, SIZE);
	}
	ck_ok(vs_foreign_retain(&seen, base + SIZE - 1));
	ck_assert_uint_eq(seen, handle);
	ck_ok(vs_foreign_release(seen));
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

/* A whole one, a read-only one, a part, and one that nobody may touch. */
START_TEST(every_alias_comes_back_with_its_own_rights)
{
	CUdeviceptr base, at;
	handle_t handle;

	start();
	base = foreign_whole("w", SIZE, &handle);
	at = foreign_reserve(3 * SIZE);
	foreign_map(at, SIZE, handle);
	foreign_allow(at, SIZE, 0, RO);
	foreign_map(at + SIZE, 2 * UNIT, handle);
	foreign_allow(at + SIZE, 2 * UNIT, 0, RW);
	foreign_map(at + 2 * SIZE, SIZE, handle);
	foreign_cycle();
	fixture_assert_filled(base, SIZE);
	ck_assert_mem_eq((void *)at, (void *)base, SIZE);
	ck_assert_mem_eq((void *)(at + SIZE), (void *)base, 2 * UNIT);
	ck_assert_uint_eq(foreign_access(base, 0), RW);
	ck_assert_uint_eq(foreign_access(at, 0), RO);
	ck_assert_uint_eq(foreign_access(at + SIZE, 0), RW);
	ck_assert_uint_eq(foreign_access(at + 2 * SIZE, 0), NO);
	*(int *)(at + SIZE) = 5;
	ck_assert_int_eq(*(int *)base, 5);
	ck_ok(vs_foreign_unmap(at, SIZE));
	ck_ok(vs_foreign_unmap(at + SIZE, 2 * UNIT));
	ck_ok(vs_foreign_unmap(at + 2 * SIZE, SIZE));
	ck_ok(vs_foreign_unreserve(at, 3 * SIZE));
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

/* _i: 0 mapped nowhere, 1 read-only alone, 2 without rights, 3 in parts. */
START_TEST(bytes_that_no_mapping_shows_survive)
{
	CUdeviceptr base;
	handle_t handle;

	start();
	base = foreign_whole("w", SIZE, &handle);
	if (_i == 1)
		foreign_allow(base, SIZE, 0, RO);
	if (_i == 2)
		foreign_allow(base, SIZE, 0, NO);
	if (_i == 3)
		foreign_allow(base, UNIT, 0, RO);
	if (!_i)
		ck_ok(vs_foreign_unmap(base, SIZE));
	foreign_cycle();
	ck_assert_uint_eq(fixture_sim().reservations, 1);
	if (!_i)
		foreign_map(base, SIZE, handle);
	else
		ck_assert_uint_eq(foreign_access(base, 0), _i == 2 ? NO : RO);
	foreign_allow(base, SIZE, 0, RO);
	fixture_assert_filled(base, SIZE);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

/* Any order of settings, over both mappings or parts of one. */
START_TEST(rights_are_as_they_were_and_do_not_grow)
{
	static const CUmemAccess_flags flags[] = { NO, RO, RW };
	enum { UNITS = 16 };
	unsigned before[2][UNITS];
	CUdeviceptr base;
	handle_t two[2];
	int i, k, from, count;

	start();
	srand((unsigned)_i + 1);
	base = foreign_reserve(UNITS * UNIT);
	for (i = 0; i < 2; i++) {
		two[i] = foreign_make("w", 8 * UNIT);
		foreign_map(base + i * 8 * UNIT, 8 * UNIT, two[i]);
	}
	for (i = 0; i < 300; i++) {
		from = rand() % UNITS;
		count = 1 + rand() % (UNITS - from);
		foreign_allow(base + from * UNIT, count * UNIT, rand() % 2,
			      flags[rand() % 3]);
	}
	for (i = 0; i < UNITS; i++)
		for (k = 0; k < 2; k++)
			before[k][i] = foreign_access(base + i * UNIT, k);
	foreign_cycle();
	for (i = 0; i < UNITS; i++)
		for (k = 0; k < 2; k++)
			ck_assert_uint_eq(foreign_access(base + i * UNIT, k),
					  before[k][i]);
	ck_assert_uint_le(foreign_of(two[0])->mappings->access_count, 16);
	foreign_allow(base, UNITS * UNIT, 0, RW);
	foreign_allow(base, UNITS * UNIT, 1, NO);
	ck_assert_uint_eq(foreign_of(two[0])->mappings->access_count, 1);
	ck_ok(vs_foreign_unmap(base, UNITS * UNIT));
	ck_ok(vs_foreign_release(two[0]));
	ck_ok(vs_foreign_release(two[1]));
	ck_ok(vs_foreign_unreserve(base, UNITS * UNIT));
	fixture_assert_empty();
}
END_TEST

/* _i: 1 asleep from the first release to the last unmap. */
START_TEST(it_lives_as_long_as_a_reference_or_a_mapping)
{
	handle_t handle, again = 0;
	CUdeviceptr base, alias;

	start();
	base = foreign_whole("w", SIZE, &handle);
	alias = foreign_reserve(SIZE);
	foreign_map(alias, SIZE, handle);
	if (_i)
		foreign_sleep();
	ck_ok(vs_foreign_release(handle));
	ck_cu(vs_foreign_release(handle), CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base, SIZE, 0, handle, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_ok(vs_foreign_unmap(base, SIZE));
	ck_ok(vs_foreign_retain(&again, alias + 5));
	ck_assert_uint_eq(again, handle);
	ck_ok(vs_foreign_unmap(alias, SIZE));
	ck_assert_uint_eq(vs_segment_count(), 1);
	if (!_i)
		ck_assert_uint_eq(fixture_sim().device_bytes, SIZE);
	ck_ok(vs_foreign_release(again));
	ck_assert_uint_eq(vs_segment_count(), 0);
	ck_assert_uint_eq(fixture_sim().device_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().host_bytes, 0);
	ck_ok(vs_foreign_unreserve(base, SIZE));
	ck_ok(vs_foreign_unreserve(alias, SIZE));
	fixture_assert_empty();
}
END_TEST

START_TEST(handles_are_never_the_same_twice)
{
	handle_t first, second;

	start();
	first = foreign_make("w", SIZE);
	ck_ok(vs_foreign_release(first));
	second = foreign_make("w", SIZE);
	ck_assert_uint_ne(first, second);
	ck_cu(vs_foreign_release(first), CUDA_ERROR_INVALID_VALUE);
	ck_ok(vs_foreign_release(second));
	fixture_assert_empty();
}
END_TEST

START_TEST(properties_are_those_that_were_asked_for)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = 1,
		.allocFlags.gpuDirectRDMACapable = 1,
		.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC,
	}, seen, asleep;
	handle_t handle;

	start();
	fixture_new_context(1);
	ck_ok(vs_foreign_create(&handle, SIZE, &prop, 0));
	foreign_sleep();
	ck_ok(vs_foreign_properties(&asleep, handle));
	foreign_wake();
	ck_ok(vs_foreign_properties(&seen, handle));
	ck_assert_mem_eq(&seen, &prop, sizeof(prop));
	ck_assert_mem_eq(&asleep, &prop, sizeof(prop));
	ck_assert_uint_eq(sim_used(1), SIZE);
	ck_ok(vs_foreign_release(handle));
	ck_cu(vs_foreign_properties(&seen, handle), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* _i: 0 tag native, 1 on the host. */
START_TEST(what_is_not_ours_keeps_the_drivers_handle)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = _i ? CU_MEM_LOCATION_TYPE_HOST :
				      CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUdeviceptr base;
	handle_t handle;
	size_t counted = _i ? 0 : SIZE;

	fixture_start(_i ? "w" : "", "");
	ck_ok(vs_foreign_create(&handle, SIZE, &prop, 0));
	ck_assert(!vs_foreign_is_name(handle));
	ck_assert_uint_eq(vs_segment_count(), 0);
	base = foreign_reserve(SIZE);
	foreign_map(base, SIZE, handle);
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_VMM), counted);
	foreign_allow(base, SIZE, 0, RW);
	ck_ok(vs_foreign_release(handle));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_VMM), counted);
	ck_ok(vs_foreign_unmap(base, SIZE));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_VMM), 0);
	ck_ok(vs_foreign_unreserve(base, SIZE));
	fixture_assert_empty();
}
END_TEST

START_TEST(policies_and_levels_hold_for_it_too)
{
	handle_t dropped, kept;
	CUdeviceptr kv, scratch;

	start();
	kv = foreign_whole("kv", SIZE, &dropped);
	scratch = foreign_whole("scratch", MIB, &kept);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_uint_eq(fixture_sim().device_bytes, MIB);
	ck_assert_uint_eq(fixture_ledger().last.lost_bytes, SIZE);
	fixture_assert_filled(scratch, MIB);
	foreign_wake();
	fixture_assert_zero(kv, SIZE);
	fixture_assert_filled(scratch, MIB);
	foreign_end(kv, SIZE, dropped);
	foreign_end(scratch, MIB, kept);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_dry_run_foretells_it)
{
	struct vs_request dry = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000, .dry_run = true,
	};
	handle_t plain, dropped, kept;
	struct vs_reply reply;

	start();
	plain = foreign_make("w", SIZE);
	dropped = foreign_make("kv", 2 * SIZE);
	kept = foreign_make("scratch", MIB);
	reply = fixture_ask(&dry);
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(reply.outlook.release_bytes, 3 * SIZE);
	ck_assert_uint_eq(reply.outlook.host_bytes, SIZE + MIB);
	ck_assert_uint_eq(reply.outlook.keep_bytes, MIB);
	ck_ok(vs_foreign_release(plain));
	ck_ok(vs_foreign_release(dropped));
	ck_ok(vs_foreign_release(kept));
	fixture_assert_empty();
}
END_TEST

START_TEST(it_outlives_the_context_in_which_it_was_made)
{
	struct vs_detached *detached;
	CUcontext other;
	CUdeviceptr base;
	handle_t handle;

	start();
	other = fixture_new_context(0);
	base = foreign_whole("w", SIZE, &handle);
	detached = vs_detach_take(other, 0);
	ck_ok(vs_real.cuCtxDestroy_v2(other));
	vs_detach_drop(detached);
	fixture_current(fixture_context);
	fixture_assert_filled(base, SIZE);
	foreign_cycle();
	fixture_assert_filled(base, SIZE);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

/* What is freed, but not given back, is the program's when it creates. */
START_TEST(creating_takes_what_we_hold_spare)
{
	CUdeviceptr plain;
	handle_t handle;

	start();
	plain = fixture_alloc("w", MIB);
	fixture_free(plain);
	ck_assert_uint_gt(sim_used(0), 0);
	sim_limit(0, SIZE);
	handle = foreign_make("w", SIZE);
	ck_ok(vs_foreign_release(handle));
	sim_limit(0, 256 * MIB);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, it_sleeps_and_wakes_with_its_bytes);
	tcase_add_test(tc, every_alias_comes_back_with_its_own_rights);
	tcase_add_loop_test(tc, bytes_that_no_mapping_shows_survive, 0, 4);
	tcase_add_loop_test(tc, rights_are_as_they_were_and_do_not_grow, 0,
			    8);
	tcase_add_loop_test(tc, it_lives_as_long_as_a_reference_or_a_mapping,
			    0, 2);
	tcase_add_test(tc, handles_are_never_the_same_twice);
	tcase_add_test(tc, properties_are_those_that_were_asked_for);
	tcase_add_loop_test(tc, what_is_not_ours_keeps_the_drivers_handle, 0,
			    2);
	tcase_add_test(tc, policies_and_levels_hold_for_it_too);
	tcase_add_test(tc, a_dry_run_foretells_it);
	tcase_add_test(tc, it_outlives_the_context_in_which_it_was_made);
	tcase_add_test(tc, creating_takes_what_we_hold_spare);
}

int main(void)
{
	return fixture_main("foreign", fill);
}
