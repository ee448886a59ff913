/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "store_fixture.h"

#include "backup/host_pool.h"
#include "base/config.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Populating fails with this error, 0: never, but for so many calls. */
static int populate_error;
static atomic_int populate_calls;

int madvise(void *address, size_t size, int advice)
{
#ifdef MADV_POPULATE_WRITE
	if (advice == MADV_POPULATE_WRITE && populate_error &&
	    atomic_fetch_sub(&populate_calls, 1) <= 0) {
		errno = populate_error;
		return -1;
	}
#endif
	return (int)syscall(SYS_madvise, address, size, advice);
}

START_TEST(what_was_saved_comes_back)
{
	struct vs_why why;
	int i;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(store_meter.done, store_total());
	ck_assert_uint_eq(store_meter.pageable, 0);
	ck_assert_uint_eq(vs_store_bytes(), store_total());
	ck_assert_uint_ge(vs_host_pool_taken(), store_total());
	ck_assert_uint_eq(fixture_sim().registered, 3);
	store_overwrite();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	ck_assert_uint_eq(store_meter.done, store_total());
	ck_assert_uint_eq(store_readied, STORE_ITEMS);
	store_assert_loaded();
	for (i = 0; i < STORE_ITEMS; i++)
		ck_assert_ptr_nonnull(store_items[i].backup);
	store_drop_all();
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

START_TEST(a_backup_may_be_loaded_twice)
{
	struct vs_why why;
	int round;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	for (round = 0; round < 2; round++) {
		store_overwrite();
		ck_assert_int_eq(store_load(2, 1, &why), VS_OK);
		fixture_assert_filled(store_items[2].base, store_sizes[2]);
	}
	store_drop_all();
}
END_TEST

START_TEST(an_item_without_a_backup_becomes_zero)
{
	struct vs_why why;

	store_set_up();
	ck_assert_int_eq(store_load(1, 2, &why), VS_OK);
	fixture_assert_filled(store_items[0].base, store_sizes[0]);
	fixture_assert_zero(store_items[1].base, store_sizes[1]);
	fixture_assert_zero(store_items[2].base, store_sizes[2]);
	fixture_assert_filled(store_items[3].base, store_sizes[3]);
	ck_assert_uint_eq(store_meter.done, store_sizes[1] + store_sizes[2]);
}
END_TEST

START_TEST(a_block_goes_back_with_the_last_backup_in_it)
{
	struct vs_why why;
	size_t all;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	all = vs_host_pool_taken();
	vs_store_drop(store_items[0].backup);
	vs_store_drop(store_items[1].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), all);
	ck_assert_uint_eq(vs_store_bytes(), store_total() - store_sizes[0] -
					    store_sizes[1]);
	vs_store_drop(store_items[2].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), all - VS_HOST_BLOCK);
	ck_assert_uint_eq(fixture_sim().registered, 2);
	store_overwrite();
	ck_assert_int_eq(store_load(3, 2, &why), VS_OK);
	fixture_assert_filled(store_items[3].base, store_sizes[3]);
	fixture_assert_filled(store_items[4].base, store_sizes[4]);
	vs_store_drop(store_items[4].backup);
	ck_assert_uint_eq(fixture_sim().registered, 1);
	vs_store_drop(store_items[3].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	vs_store_drop(NULL);
}
END_TEST

START_TEST(more_than_the_limit_is_refused_with_both_figures)
{
	struct vs_why why;

	store_set_up();
	vs_config.host_limit = STORE_TAKEN - 1;
	ck_assert_int_eq(store_save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "need 80 MiB"));
	ck_assert_ptr_nonnull(strstr(why.text, "take 79 MiB"));
	store_assert_nothing_taken();
	vs_config.host_limit = STORE_TAKEN;
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(vs_host_pool_budget(), 0);
	store_drop_all();
}
END_TEST

START_TEST(memory_that_cannot_be_pinned_is_used_and_counted)
{
	struct vs_why why;

	store_set_up();
	sim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert(store_meter.pageable == VS_HOST_BLOCK ||
		  store_meter.pageable == store_sizes[1] + store_sizes[4] ||
		  store_meter.pageable == store_sizes[0] + store_sizes[2] +
				    store_sizes[3] - VS_HOST_BLOCK);
	ck_assert_uint_eq(fixture_sim().registered, 2);
	store_overwrite();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(fixture_sim().invalid, 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(a_copy_out_that_fails_leaves_no_backup)
{
	struct vs_why why;
	unsigned nth;

	store_set_up();
	for (nth = 1; nth <= STORE_COPIES; nth++) {
		sim_fail_clear();
		sim_fail("cuMemcpyDtoHAsync_v2", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(store_save(&why), VS_CUDA);
		ck_assert_ptr_nonnull(strstr(why.text, "copy out of 0x"));
		store_assert_nothing_taken();
	}
	sim_fail_clear();
	sim_fail("cuMemcpyDtoHAsync_v2", STORE_COPIES + 1, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(store_save(&why), VS_OK);
	store_drop_all();
}
END_TEST

START_TEST(a_wait_for_copies_that_fails_leaves_no_backup)
{
	struct vs_why why;
	unsigned nth;

	store_set_up();
	for (nth = 1; nth <= 6; nth++) {
		sim_fail_clear();
		sim_fail_from("cuStreamSynchronize", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(store_save(&why), VS_CUDA);
		store_assert_nothing_taken();
	}
}
END_TEST

START_TEST(a_copy_back_that_fails_keeps_the_backups)
{
	struct vs_why why;
	unsigned nth;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	for (nth = 1; nth <= STORE_COPIES; nth++) {
		store_overwrite();
		sim_fail_clear();
		sim_fail("cuMemcpyHtoDAsync_v2", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_CUDA);
		ck_assert_uint_eq(vs_store_bytes(), store_total());
		ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
		store_assert_loaded();
	}
	store_drop_all();
}
END_TEST

#ifdef MADV_POPULATE_WRITE
/* _i: the block that cannot be populated. */
START_TEST(memory_that_the_kernel_does_not_give_is_refused)
{
	struct vs_why why;

	store_set_up();
	populate_error = ENOMEM;
	populate_calls = _i;
	ck_assert_int_eq(store_save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, strerror(ENOMEM)));
	store_assert_nothing_taken();
}
END_TEST

START_TEST(a_kernel_that_cannot_populate_is_made_up_for)
{
	struct vs_why why;

	store_set_up();
	populate_error = EINVAL;
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_int_lt(populate_calls, 0);
	store_overwrite();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	fixture_assert_filled(store_items[2].base, store_sizes[2]);
	store_drop_all();
}
END_TEST
#endif

START_TEST(nothing_to_save_takes_nothing)
{
	struct vs_why why;

	store_set_up();
	ck_assert_int_eq(vs_store_save(store_items, 0, &store_meter, &why),
			 VS_OK);
	ck_assert_int_eq(store_load(0, 0, &why), VS_OK);
	ck_assert_uint_eq(store_meter.done, 0);
	store_assert_nothing_taken();
}
END_TEST

static int wait_child(void)
{
	int status = -1;

	wait(&status);
	return status;
}

/* A child and a core dump have no use for the backups. */
START_TEST(a_forked_child_does_not_have_the_blocks)
{
	struct vs_host_batch *batch;
	struct vs_host_block *block;
	struct vs_why why;
	unsigned char seen;
	char *base;

	store_set_up();
	ck_assert_int_eq(vs_host_pool_prepare(3 * MIB, 3 * MIB,
					      store_contexts[0], &batch, &why),
			 VS_OK);
	ck_assert_uint_eq(vs_host_pool_count(batch), 1);
	block = vs_host_pool_at(batch, 0);
	ck_assert_int_eq(vs_host_pool_wait(block, &why), VS_OK);
	ck_assert_uint_eq(block->size, 4 * MIB);
	base = block->base;
	ck_assert_uint_eq((uintptr_t)base % (2 * MIB), 0);
	ck_assert_int_eq(mincore(base, 4096, &seen), 0);
	vs_host_pool_finish(batch);
	if (!fork())
		_exit(mincore(base, 4096, &seen) == 0 || errno != ENOMEM);
	ck_assert_int_eq(wait_child(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 4 * MIB);
	vs_host_pool_give_back(block);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_was_saved_comes_back);
	tcase_add_test(tc, a_backup_may_be_loaded_twice);
	tcase_add_test(tc, an_item_without_a_backup_becomes_zero);
	tcase_add_test(tc, a_block_goes_back_with_the_last_backup_in_it);
	tcase_add_test(tc, more_than_the_limit_is_refused_with_both_figures);
	tcase_add_test(tc, memory_that_cannot_be_pinned_is_used_and_counted);
	tcase_add_test(tc, a_copy_out_that_fails_leaves_no_backup);
	tcase_add_test(tc, a_wait_for_copies_that_fails_leaves_no_backup);
	tcase_add_test(tc, a_copy_back_that_fails_keeps_the_backups);
#ifdef MADV_POPULATE_WRITE
	tcase_add_loop_test(tc,
		memory_that_the_kernel_does_not_give_is_refused, 0, 3);
	tcase_add_test(tc, a_kernel_that_cannot_populate_is_made_up_for);
#endif
	tcase_add_test(tc, nothing_to_save_takes_nothing);
	tcase_add_test(tc, a_forked_child_does_not_have_the_blocks);
}

int main(void)
{
	return fixture_main("store", fill);
}
