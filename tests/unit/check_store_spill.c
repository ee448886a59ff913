/* SPDX-License-Identifier: Apache-2.0 */
/* Backups that host memory has no room for, and memory that is not pinned. */
#include <config.h>

#include "store_fixture.h"

#include "backup/backup.h"
#include "backup/host_pool.h"
#include "backup/spill.h"
#include "base/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES (STORE_TAKEN / VS_PAGE)

static char folder[] = "/tmp/check_store_spill.XXXXXX";

static void set_up(size_t limit)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("VSLEEP_SPILL_DIR", folder, 1);
	store_set_up();
	vs_config.host_limit = limit;
}

/* Nothing has a name there. */
static void tear_down(void)
{
	store_drop_all();
	ck_assert_uint_eq(vs_spill_bytes(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

static void save_and_load(void)
{
	struct vs_why why = { .text = "" };

	ck_assert_msg(store_save(&why) == VS_OK, "%s", why.text);
	ck_assert_uint_eq(store_meter.done, store_total());
	store_overwrite();
	ck_assert_msg(store_load(0, STORE_ITEMS, &why) == VS_OK, "%s",
		      why.text);
	ck_assert_uint_eq(store_meter.done, store_total());
	store_assert_loaded();
}

/* Of 100 MiB two rings take a quarter each, at least 16 MiB. */
START_TEST(what_host_memory_has_no_room_for_is_spilled)
{
	set_up(64 * MIB);
	save_and_load();
	ck_assert_uint_gt(vs_spill_bytes(), 0);
	ck_assert_uint_gt(vs_store_bytes(), 0);
	ck_assert_uint_le(vs_host_pool_taken(), 64 * MIB);
	tear_down();
}
END_TEST

START_TEST(all_of_it_may_be_spilled)
{
	set_up(33 * MIB);
	save_and_load();
	ck_assert_uint_eq(vs_spill_bytes(), PAGES * VS_PAGE);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	tear_down();
}
END_TEST

/* What was spilled is compared, overwritten in its place, and given up. */
START_TEST(spilled_pages_are_saved_again)
{
	struct vs_why why;

	set_up(33 * MIB);
	save_and_load();
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(store_meter.unchanged, store_total());
	ck_assert_uint_eq(store_meter.copied, 0);
	memset((void *)(uintptr_t)store_items[0].base, 7, 5);
	memset((void *)(uintptr_t)store_items[1].base, 0, VS_PAGE);
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(store_meter.copied, VS_PAGE);
	ck_assert_uint_eq(store_meter.zero, VS_PAGE);
	ck_assert_uint_eq(vs_spill_bytes(), (PAGES - 1) * VS_PAGE);
	memset((void *)(uintptr_t)store_items[0].base, 8, VS_PAGE);
	ck_assert_int_eq(store_load(0, 2, &why), VS_OK);
	ck_assert_int_eq(*(char *)(uintptr_t)store_items[0].base, 7);
	fixture_assert_zero(store_items[1].base, VS_PAGE);
	tear_down();
}
END_TEST

START_TEST(without_room_for_a_ring_nothing_is_spilled)
{
	struct vs_why why;

	set_up(8 * MIB);
	ck_assert_int_eq(store_save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "host memory"));
	store_assert_nothing_taken();
	tear_down();
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_named)
{
	struct vs_why why;

	set_up(33 * MIB);
	ck_assert_int_eq(rmdir(folder), 0);
	ck_assert_int_eq(store_save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, folder));
	store_assert_nothing_taken();
	ck_assert_uint_eq(vs_spill_bytes(), 0);
}
END_TEST

/* _i: the call that fails. */
static const char *const calls[] = {
	"cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize",
	"cuMemHostRegister_v2", "cuEventCreate", "cuLaunchKernel",
};

START_TEST(a_call_that_fails_leaves_nothing_behind)
{
	struct vs_why why;
	unsigned nth;

	set_up(64 * MIB);
	for (nth = 1; nth <= 40; nth += 6) {
		sim_fail_clear();
		sim_fail(calls[_i], nth, CUDA_ERROR_UNKNOWN);
		if (store_save(&why)) {
			store_assert_nothing_taken();
			ck_assert_uint_eq(vs_spill_bytes(), 0);
		}
		sim_fail_clear();
		save_and_load();
		store_drop_all();
	}
	tear_down();
}
END_TEST

/* All blocks are pageable, and the ring is pinned: it registers first. */
START_TEST(pageable_memory_is_reached_by_the_ring)
{
	struct vs_why why;

	set_up(0);
	sim_fail_from("cuMemHostRegister_v2", 1, CUDA_ERROR_NOT_PERMITTED);
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(store_meter.pageable, store_total());
	store_overwrite();
	sim_fail_clear();
	sim_calls_reset();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	ck_assert_uint_eq(sim_calls("cuMemHostRegister_v2"), 4);
	ck_assert_uint_eq(sim_calls("cuMemcpyHtoDAsync_v2"), PAGES);
	store_assert_loaded();
	tear_down();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, what_host_memory_has_no_room_for_is_spilled);
	tcase_add_test(tc, all_of_it_may_be_spilled);
	tcase_add_test(tc, spilled_pages_are_saved_again);
	tcase_add_test(tc, without_room_for_a_ring_nothing_is_spilled);
	tcase_add_test(tc, a_folder_that_is_not_there_is_named);
	tcase_add_loop_test(tc, a_call_that_fails_leaves_nothing_behind, 0,
			    sizeof(calls) / sizeof(calls[0]));
	tcase_add_test(tc, pageable_memory_is_reached_by_the_ring);
}

int main(void)
{
	return fixture_main("store_spill", fill);
}
