/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that look at pages in several rounds, and copy in between. */
#include <config.h>

#include "store_fixture.h"

#include "backup/backup.h"
#include "backup/host_pool.h"
#include "backup/look.h"
#include "backup/page_hash.h"

#include <stdlib.h>
#include <string.h>

static atomic_uint copies_seen;	/* when a round was last waited for */
static atomic_uint rounds;

enum vs_status __real_vs_page_hash_wait(struct vs_page_hash *hash,
					CUstream stream, struct vs_why *why);
enum vs_status __wrap_vs_page_hash_wait(struct vs_page_hash *hash,
					CUstream stream, struct vs_why *why);
enum vs_status __wrap_vs_page_hash_wait(struct vs_page_hash *hash,
					CUstream stream, struct vs_why *why)
{
	atomic_store(&copies_seen, sim_calls("cuMemcpyDtoHAsync_v2"));
	atomic_fetch_add(&rounds, 1);
	return __real_vs_page_hash_wait(hash, stream, why);
}

static void save(void)
{
	sim_calls_reset();
	rounds = copies_seen = 0;
	store_save_well();
}

/* Every page becomes another one. */
static void paint(int value)
{
	size_t page;
	int i;

	for (i = 0; i < STORE_ITEMS; i++)
		for (page = 0; page * VS_PAGE < store_sizes[i]; page++)
			*store_at(i, page) = (char)value;
}

/* The first of each page of item @i. */
static void assert_byte(int i, int value)
{
	size_t page;

	for (page = 0; page * VS_PAGE < store_sizes[i]; page++)
		ck_assert_int_eq(*store_at(i, page), value);
}

static void assert_painted(int value)
{
	int i;

	for (i = 0; i < STORE_ITEMS; i++)
		assert_byte(i, value);
}

static void drop(void)
{
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}

START_TEST(pages_are_copied_while_others_are_looked_at)
{
	store_set_up();
	paint(1);
	save();
	ck_assert_uint_gt(rounds, 10);
	ck_assert_uint_eq(copies_seen, 0);	/* there was no place yet */
	paint(2);
	save();
	ck_assert_uint_eq(store_meter.copied, store_total());
	ck_assert_uint_gt(copies_seen, 0);
	paint(3);
	store_load_well();
	assert_painted(2);
	drop();
}
END_TEST

/* What is known until then counts, the rest is copied. */
START_TEST(a_look_that_ends_on_the_way_is_made_up_for)
{
	unsigned nth;

	store_set_up();
	paint(1);
	save();
	for (nth = 1; nth <= 14; nth += fixture_every(3)) {
		sim_fail_clear();
		sim_fail(_i ? "cuLaunchKernel" : "cuMemHostAlloc", nth,
			 CUDA_ERROR_OUT_OF_MEMORY);
		save();
		sim_fail_clear();
		if (nth == 1)
			ck_assert_uint_gt(store_meter.copied, 0);
		if (nth > 3 && _i)
			ck_assert_uint_gt(store_meter.unchanged, 0);
		paint(3);
		store_load_well();
		assert_painted(1);
		save();
		save();
		ck_assert_uint_eq(store_meter.unchanged, store_total());
	}
	drop();
}
END_TEST

START_TEST(it_does_without_a_stream_of_its_own)
{
	store_set_up();
	paint(1);
	save();
	sim_fail_from("cuStreamCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
	save();
	ck_assert_uint_eq(store_meter.unchanged, store_total());
	paint(2);
	save();
	ck_assert_uint_eq(store_meter.copied, store_total());
	sim_fail_clear();
	paint(3);
	store_load_well();
	assert_painted(2);
	drop();
}
END_TEST

/* The wait for the copies in one context comes when the next is entered, in the
 * middle of the look; what it says is not the look's. */
START_TEST(copies_that_fail_at_a_change_of_context_are_said)
{
	struct vs_why why = { .text = "" };
	struct vs_store_item *two = &store_items[2];
	struct vs_context *other;

	store_set_up();
	vs_look_batch = VS_LOOK_MOST;
	other = vs_context_pin(fixture_new_context(0));
	ck_assert_ptr_nonnull(other);
	two[1].context = other;
	paint(1);
	ck_assert_int_eq(vs_store_save(two, 2, &store_meter, &why), VS_OK);
	paint(2);
	sim_calls_reset();
	sim_fail("cuStreamSynchronize", 2, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(vs_store_save(two, 2, &store_meter, &why), VS_CUDA);
	sim_fail_clear();
	ck_assert_ptr_nonnull(strstr(why.text, "copies on device 0"));
	ck_assert(!two[0].backup->pages[0].valid);
	ck_assert_int_eq(vs_store_save(two, 2, &store_meter, &why), VS_OK);
	paint(3);
	ck_assert_int_eq(store_load(2, 2, &why), VS_OK);
	assert_byte(2, 2);
	assert_byte(3, 2);
	drop();
	vs_context_unpin(other);
}
END_TEST

/* Each has its own stream and buffers; none of them is left. */
START_TEST(contexts_of_one_device_take_turns)
{
	struct vs_context *other;
	CUcontext fresh;
	size_t streams;

	store_set_up();
	fresh = fixture_new_context(0);
	other = vs_context_pin(fresh);
	ck_assert_ptr_nonnull(other);
	store_items[2].context = other;
	paint(1);
	save();
	ck_assert_uint_eq(sim_calls("cuModuleLoadData"), 3);
	paint(2);
	save();
	ck_assert_uint_eq(store_meter.copied, store_total());
	ck_assert_uint_gt(copies_seen, 0);
	streams = sim_calls("cuStreamCreate");
	ck_assert_uint_eq(sim_calls("cuStreamDestroy_v2"), streams);
	save();
	ck_assert_uint_eq(store_meter.unchanged, store_total());
	paint(3);
	store_load_well();
	assert_painted(2);
	drop();
	vs_context_unpin(other);
}
END_TEST

/* Any of two contexts for each item, rounds of any size, looks that fail. */
START_TEST(whatever_changes_comes_back)
{
	struct vs_context *other[2];
	unsigned seed = 77 + (unsigned)_i, round;
	char want[STORE_ITEMS][32] = { { 0 } };
	size_t page, pages;
	int i;

	store_set_up();
	other[0] = vs_context_pin(fixture_new_context(0));
	other[1] = vs_context_pin(fixture_new_context(1));
	paint(0);
	for (round = 0; round < 12; round += fixture_every(3)) {
		vs_look_batch = 1 + (size_t)rand_r(&seed) % 30;
		for (i = 0; i < STORE_ITEMS; i++) {
			store_items[i].context = (rand_r(&seed) % 2 ? other :
				store_contexts)[store_devices[i]];
			pages = (store_sizes[i] + VS_PAGE - 1) / VS_PAGE;
			for (page = 0; page < pages; page++)
				if (!round || rand_r(&seed) % 3 == 0)
					want[i][page] = (char)(rand_r(&seed) %
							       4);
			for (page = 0; page < pages; page++)
				*store_at(i, page) = want[i][page];
		}
		if (rand_r(&seed) % 3 == 0)
			sim_fail(rand_r(&seed) % 2 ? "cuLaunchKernel" :
				 "cuMemHostAlloc", 1 + rand_r(&seed) % 10,
				 CUDA_ERROR_OUT_OF_MEMORY);
		save();
		sim_fail_clear();
		paint(0x55);
		store_load_well();
		for (i = 0; i < STORE_ITEMS; i++)
			for (page = 0; page * VS_PAGE < store_sizes[i]; page++)
				ck_assert_msg(*store_at(i, page) ==
					      want[i][page],
					      "round %u, item %d, page %zu",
					      round, i, page);
	}
	drop();
}
END_TEST

START_TEST(what_came_back_is_verified_to_its_last_page)
{
	struct vs_store_verdict verdict;
	struct vs_why why = { .text = "" };
	char *last;

	store_set_up();
	save();
	paint(3);
	store_load_well();
	ck_assert_msg(!vs_store_verify(store_items, STORE_ITEMS, &store_meter,
				       &verdict, &why), "%s", why.text);
	ck_assert_uint_eq(verdict.verified, store_total());
	ck_assert_uint_eq(verdict.unverified, 0);
	last = (char *)(uintptr_t)store_items[2].base + store_sizes[2] - 1;
	*last ^= 1;
	ck_assert_int_eq(vs_store_verify(store_items, STORE_ITEMS, &store_meter,
					 &verdict, &why), VS_CUDA);
	ck_assert(verdict.differs);
	ck_assert_uint_eq(verdict.item, 2);
	ck_assert_uint_eq(verdict.page, (store_sizes[2] - 1) / VS_PAGE);
	drop();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, pages_are_copied_while_others_are_looked_at);
	tcase_add_loop_test(tc, a_look_that_ends_on_the_way_is_made_up_for, 0,
			    2);
	tcase_add_test(tc, it_does_without_a_stream_of_its_own);
	tcase_add_test(tc, contexts_of_one_device_take_turns);
	tcase_add_test(tc, copies_that_fail_at_a_change_of_context_are_said);
	tcase_add_loop_test(tc, whatever_changes_comes_back, 0, 3);
	tcase_add_test(tc, what_came_back_is_verified_to_its_last_page);
}

int main(void)
{
	return fixture_main("look", fill);
}
