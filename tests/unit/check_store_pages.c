/* SPDX-License-Identifier: Apache-2.0 */
/* Backups that are kept: what a second save copies, and what is lost. */
#include <config.h>

#include "store_fixture.h"

#include "backup/backup.h"
#include "backup/host_pool.h"
#include "base/config.h"

#include <stdlib.h>
#include <string.h>

#define PAGES (STORE_TAKEN / VS_PAGE)

START_TEST(what_has_not_changed_is_not_copied)
{
	size_t taken;

	store_set_up();
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, store_total());
	taken = vs_host_pool_taken();
	store_load_well();
	sim_calls_reset();
	store_save_well();
	ck_assert_uint_eq(store_meter.unchanged, store_total());
	ck_assert_uint_eq(sim_calls("cuMemcpyDtoHAsync_v2"), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), taken);
	store_overwrite();
	store_load_well();
	store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

/* One byte: the first, one in the middle, the last of an odd tail. */
START_TEST(one_byte_copies_its_page_and_no_other)
{
	static const struct {
		int item;
		size_t page, byte, size;
	} cases[] = {
		{ 0, 0, 0, VS_PAGE }, { 0, 11, VS_PAGE / 2 + 1, VS_PAGE },
		{ 2, 13, 64 * KIB - 1, 64 * KIB }, { 3, 0, 511, 512 },
		{ 1, 1, MIB - 1, MIB },
	};
	size_t i;

	store_set_up();
	store_save_well();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *byte = store_at(cases[i].item, cases[i].page) +
			     cases[i].byte;

		*byte ^= 16;
		store_save_well();
		ck_assert_uint_eq(store_meter.copied, cases[i].size);
		*byte ^= 16;
		store_assert_loaded();
		store_load_well();
		*byte ^= 16;
		store_assert_loaded();
		store_save_well();
		ck_assert_uint_eq(store_meter.copied, cases[i].size);
	}
	store_drop_all();
}
END_TEST

START_TEST(pages_of_zeros_take_no_host_memory)
{
	struct vs_why why;

	store_set_up();
	memset(store_at(0, 0), 0, 40 * MIB);
	store_save_well();
	ck_assert_uint_eq(store_meter.zero, 40 * MIB);
	ck_assert_uint_eq(vs_host_pool_taken(), STORE_TAKEN - 40 * MIB);
	ck_assert_uint_eq(vs_store_held(store_items[0].backup), 0);
	memset(store_at(0, 0), 1, 40 * MIB);
	ck_assert_int_eq(store_load(0, 1, &why), VS_OK);
	ck_assert_uint_eq(store_meter.copied, 0);
	fixture_assert_zero(store_items[0].base, 40 * MIB);
	/* they get a place, and give it up again */
	memset(store_at(0, 3), 1, 1);
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, VS_PAGE);
	ck_assert_uint_eq(vs_store_held(store_items[0].backup), VS_PAGE);
	memset(store_at(0, 3), 0, 1);
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, 0);
	ck_assert_uint_eq(vs_store_held(store_items[0].backup), 0);
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

/* What is to be there, page by page: a byte that fills it, or random ones. */
static uint32_t content[STORE_ITEMS][32];

static void write_page(int item, size_t page)
{
	size_t size = store_sizes[item] - page * VS_PAGE, k;
	uint32_t seed = content[item][page];
	char *to = store_at(item, page);

	if (size > VS_PAGE)
		size = VS_PAGE;
	memset(to, seed < 3 ? (int)seed : 0, size);
	for (k = 0; seed >= 3 && k + 4 <= size; k += 4096)
		memcpy(to + k, &seed, 4);
}

static bool page_is_right(int item, size_t page)
{
	size_t size = store_sizes[item] - page * VS_PAGE;
	char *seen, *to = store_at(item, page);
	bool same;

	if (size > VS_PAGE)
		size = VS_PAGE;
	seen = malloc(size);
	memcpy(seen, to, size);
	write_page(item, page);
	same = !memcmp(seen, to, size);
	free(seen);
	return same;
}

static size_t pages_of(int item)
{
	return (store_sizes[item] + VS_PAGE - 1) / VS_PAGE;
}

static void change_some(unsigned share)
{
	size_t page;
	int item;

	for (item = 0; item < STORE_ITEMS; item++)
		for (page = 0; page < pages_of(item); page++)
			if ((unsigned)rand() % 100 < share) {
				content[item][page] = (uint32_t)rand() % 6;
				write_page(item, page);
			}
}

static void assert_right(void)
{
	size_t page;
	int item;

	for (item = 0; item < STORE_ITEMS; item++)
		for (page = 0; page < pages_of(item); page++)
			ck_assert_msg(page_is_right(item, page),
				      "item %d, page %zu", item, page);
}

/* Zero, one of few contents, and back: places come and go. */
START_TEST(random_changes_come_back_and_take_no_more_memory)
{
	int round;

	srand(7);
	store_set_up();
	change_some(100);
	for (round = 0; round < 25; round++) {
		store_save_well();
		ck_assert_uint_le(vs_host_pool_taken(),
				  STORE_TAKEN + VS_HOST_BLOCK);
		store_overwrite();
		store_load_well();
		assert_right();
		change_some(round % 3 ? 10 : 60);
	}
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

/* _i: what fails in the middle of a second save. */
static const char *const calls[] = {
	"cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuLaunchKernel",
	"cuMemHostAlloc", "cuMemHostRegister_v2", "cuModuleGetFunction",
};

START_TEST(a_second_save_that_fails_leaves_no_wrong_page)
{
	struct vs_why why;
	unsigned nth;

	srand(11);
	store_set_up();
	change_some(100);
	store_save_well();
	for (nth = 1; nth <= 12; nth += fixture_every(3)) {
		change_some(40);
		sim_fail_clear();
		sim_fail(calls[_i], nth, CUDA_ERROR_UNKNOWN);
		store_save(&why);
		sim_fail_clear();
		assert_right();
		if (nth % 2)
			change_some(10);
		store_save_well();
		store_overwrite();
		store_load_well();
		assert_right();
	}
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(a_second_save_without_room_leaves_no_wrong_page)
{
	struct vs_why why;

	store_set_up();
	memset(store_at(0, 0), 0, 40 * MIB);
	store_save_well();
	vs_config.host_limit = vs_host_pool_taken() + 30 * MIB;
	memset(store_at(0, 0), 1, 40 * MIB);
	memset(store_at(4, 0), 9, 5);
	ck_assert_int_eq(store_save(&why), VS_NOHOST);
	vs_config.host_limit = 0;
	store_save_well();
	memset(store_at(0, 0), 2, 40 * MIB);
	store_load_well();
	ck_assert_int_eq(*store_at(0, 19), 1);
	ck_assert_int_eq(*store_at(4, 0), 9);
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(pages_of_one_backup_serve_the_next)
{
	size_t taken;

	store_set_up();
	store_save_well();
	taken = vs_host_pool_taken();
	vs_store_drop(store_items[2].backup);
	store_items[2].backup = NULL;
	ck_assert_uint_gt(vs_pages_left(), 0);
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, store_sizes[2]);
	ck_assert_uint_eq(vs_host_pool_taken(), taken);
	ck_assert_uint_eq(vs_pages_left(), 0);
	store_overwrite();
	store_load_well();
	store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(vs_pages_left(), 0);
}
END_TEST

/* A page that was never copied out, or only began to be. */
START_TEST(what_is_not_valid_is_not_loaded)
{
	struct vs_why why;

	store_set_up();
	store_save_well();
	store_items[1].backup->pages[1].valid = false;
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_FAILED);
	ck_assert_ptr_nonnull(strstr(why.text, "page 1"));
	fixture_assert_filled(store_items[1].base, store_sizes[1]);
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, MIB);
	store_load_well();
	store_assert_loaded();
	store_drop_all();
}
END_TEST

/* The hash that is kept describes the backup, whatever the device has. */
START_TEST(a_backup_that_is_not_what_its_hash_says_is_seen)
{
	struct vs_page *page;

	store_set_up();
	store_save_well();
	page = &store_items[0].backup->pages[2];
	page->hash[1] ^= 1;
	store_save_well();
	ck_assert_uint_eq(store_meter.copied, VS_PAGE);
	store_drop_all();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, what_has_not_changed_is_not_copied);
	tcase_add_test(tc, one_byte_copies_its_page_and_no_other);
	tcase_add_test(tc, pages_of_zeros_take_no_host_memory);
	tcase_add_test(tc, random_changes_come_back_and_take_no_more_memory);
	tcase_add_loop_test(tc, a_second_save_that_fails_leaves_no_wrong_page,
			    0, sizeof(calls) / sizeof(calls[0]));
	tcase_add_test(tc, a_second_save_without_room_leaves_no_wrong_page);
	tcase_add_test(tc, pages_of_one_backup_serve_the_next);
	tcase_add_test(tc, what_is_not_valid_is_not_loaded);
	tcase_add_test(tc, a_backup_that_is_not_what_its_hash_says_is_seen);
}

int main(void)
{
	return fixture_main("store_pages", fill);
}
