/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "base/config.h"
#include "base/context.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 4

/* Sizes that leave pieces on both sides of a block's end. */
static const size_t sizes[ITEMS] = {
	40 * MIB, 4096, 26 * MIB + 64 * KIB, 512,
};

static struct vs_store_item items[ITEMS];
static struct vs_store_meter meter;
static struct vs_context *contexts[2];

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

static void set_up(void)
{
	int i;

	fixture_start("default", "");
	contexts[0] = vs_context_pin(fixture_context);
	contexts[1] = vs_context_pin(fixture_new_context(1));
	for (i = 0; i < ITEMS; i++) {
		fixture_current(contexts[i == 2]->handle);
		ck_ok(vs_real.cuMemAlloc_v2(&items[i].base, sizes[i]));
		items[i].size = sizes[i];
		items[i].context = contexts[i == 2];
		fixture_fill(items[i].base, sizes[i]);
	}
	fixture_current(NULL);
}

static void overwrite(void)
{
	int i;

	for (i = 0; i < ITEMS; i++)
		memset((void *)(uintptr_t)items[i].base, 0x33, sizes[i]);
}

static size_t total(void)
{
	size_t sum = 0;
	int i;

	for (i = 0; i < ITEMS; i++)
		sum += sizes[i];
	return sum;
}

static void drop_all(void)
{
	int i;

	for (i = 0; i < ITEMS; i++)
		vs_store_drop(items[i].backup);
}

static enum vs_status save(struct vs_why *why)
{
	memset(&meter, 0, sizeof(meter));
	return vs_store_save(items, ITEMS, &meter, why);
}

/* Items are asked for in turn; from the one that is refused on, no more. */
static size_t readied, refused;

static enum vs_status ready(void *arg, size_t index, struct vs_why *why)
{
	ck_assert_ptr_eq(arg, items);
	ck_assert_uint_eq(index, readied);
	if (++readied == refused)
		return vs_why_set(why, VS_NOMEM, "none");
	return VS_OK;
}

static enum vs_status load(size_t first, size_t count, struct vs_why *why)
{
	memset(&meter, 0, sizeof(meter));
	readied = 0;
	return vs_store_load(&items[first], count, ready, items, &meter, why);
}

static void assert_nothing_taken(void)
{
	int i;

	for (i = 0; i < ITEMS; i++) {
		ck_assert_ptr_null(items[i].backup);
		fixture_assert_filled(items[i].base, sizes[i]);
	}
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}

START_TEST(what_was_saved_comes_back)
{
	struct vs_why why;
	int i;

	set_up();
	ck_assert_int_eq(save(&why), VS_OK);
	ck_assert_uint_eq(meter.done, total());
	ck_assert_uint_eq(meter.pageable, 0);
	ck_assert_uint_eq(vs_store_bytes(), total());
	ck_assert_uint_ge(vs_host_pool_taken(), total());
	ck_assert_uint_eq(fixture_sim().registered, 2);
	overwrite();
	ck_assert_int_eq(load(0, ITEMS, &why), VS_OK);
	ck_assert_uint_eq(meter.done, total());
	for (i = 0; i < ITEMS; i++) {
		ck_assert_ptr_nonnull(items[i].backup);
		fixture_assert_filled(items[i].base, sizes[i]);
	}
	drop_all();
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

	set_up();
	ck_assert_int_eq(save(&why), VS_OK);
	for (round = 0; round < 2; round++) {
		overwrite();
		ck_assert_int_eq(load(2, 1, &why), VS_OK);
		fixture_assert_filled(items[2].base, sizes[2]);
	}
	drop_all();
}
END_TEST

START_TEST(an_item_without_a_backup_becomes_zero)
{
	struct vs_why why;

	set_up();
	ck_assert_int_eq(load(1, 2, &why), VS_OK);
	fixture_assert_filled(items[0].base, sizes[0]);
	fixture_assert_zero(items[1].base, sizes[1]);
	fixture_assert_zero(items[2].base, sizes[2]);
	fixture_assert_filled(items[3].base, sizes[3]);
	ck_assert_uint_eq(meter.done, sizes[1] + sizes[2]);
}
END_TEST

START_TEST(a_block_goes_back_with_the_last_backup_in_it)
{
	struct vs_why why;
	size_t all;

	set_up();
	ck_assert_int_eq(save(&why), VS_OK);
	all = vs_host_pool_taken();
	vs_store_drop(items[0].backup);
	vs_store_drop(items[1].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), all);
	ck_assert_uint_eq(vs_store_bytes(), sizes[2] + sizes[3]);
	vs_store_drop(items[2].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), all - VS_HOST_BLOCK);
	ck_assert_uint_eq(fixture_sim().registered, 1);
	overwrite();
	ck_assert_int_eq(load(3, 1, &why), VS_OK);
	fixture_assert_filled(items[3].base, sizes[3]);
	vs_store_drop(items[3].backup);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	vs_store_drop(NULL);
}
END_TEST

START_TEST(more_than_the_limit_is_refused_with_both_figures)
{
	struct vs_why why;

	set_up();
	vs_config.host_limit = total() - 1;
	ck_assert_int_eq(save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "need 66 MiB"));
	ck_assert_ptr_nonnull(strstr(why.text, "take 66 MiB"));
	assert_nothing_taken();
	vs_config.host_limit = total();
	ck_assert_int_eq(save(&why), VS_OK);
	ck_assert_uint_le(vs_host_pool_budget(), 2 * MIB);
	drop_all();
}
END_TEST

START_TEST(memory_that_cannot_be_pinned_is_used_and_counted)
{
	struct vs_why why;

	set_up();
	sim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(save(&why), VS_OK);
	ck_assert(meter.pageable == VS_HOST_BLOCK ||
		  meter.pageable == total() - VS_HOST_BLOCK);
	ck_assert_uint_eq(fixture_sim().registered, 1);
	overwrite();
	ck_assert_int_eq(load(0, ITEMS, &why), VS_OK);
	fixture_assert_filled(items[0].base, sizes[0]);
	fixture_assert_filled(items[2].base, sizes[2]);
	drop_all();
	ck_assert_uint_eq(fixture_sim().invalid, 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(a_copy_out_that_fails_leaves_no_backup)
{
	struct vs_why why;
	unsigned nth;

	set_up();
	for (nth = 1; nth <= 5; nth++) {
		sim_fail_clear();
		sim_fail("cuMemcpyDtoHAsync_v2", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(save(&why), VS_CUDA);
		ck_assert_ptr_nonnull(strstr(why.text, "copy out of 0x"));
		assert_nothing_taken();
	}
	sim_fail_clear();
	sim_fail("cuMemcpyDtoHAsync_v2", 6, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(save(&why), VS_OK);
	drop_all();
}
END_TEST

START_TEST(a_wait_for_copies_that_fails_leaves_no_backup)
{
	struct vs_why why;
	unsigned nth;

	set_up();
	for (nth = 1; nth <= 3; nth++) {
		sim_fail_clear();
		sim_fail("cuStreamSynchronize", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(save(&why), VS_CUDA);
		assert_nothing_taken();
	}
}
END_TEST

START_TEST(a_copy_back_that_fails_keeps_the_backups)
{
	struct vs_why why;
	unsigned nth;
	int i;

	set_up();
	ck_assert_int_eq(save(&why), VS_OK);
	for (nth = 1; nth <= 5; nth++) {
		overwrite();
		sim_fail_clear();
		sim_fail("cuMemcpyHtoDAsync_v2", nth, CUDA_ERROR_UNKNOWN);
		ck_assert_int_eq(load(0, ITEMS, &why), VS_CUDA);
		ck_assert_uint_eq(vs_store_bytes(), total());
		ck_assert_int_eq(load(0, ITEMS, &why), VS_OK);
		for (i = 0; i < ITEMS; i++)
			fixture_assert_filled(items[i].base, sizes[i]);
	}
	drop_all();
}
END_TEST

START_TEST(an_item_that_cannot_be_made_ready_ends_the_copy_back)
{
	struct vs_why why;

	set_up();
	ck_assert_int_eq(save(&why), VS_OK);
	overwrite();
	refused = 3;
	ck_assert_int_eq(load(0, ITEMS, &why), VS_NOMEM);
	ck_assert_uint_eq(readied, 3);
	ck_assert_uint_eq(vs_store_bytes(), total());
	fixture_assert_filled(items[0].base, sizes[0]);
	ck_assert_int_eq(*(char *)(uintptr_t)items[2].base, 0x33);
	refused = 0;
	ck_assert_int_eq(load(0, ITEMS, &why), VS_OK);
	fixture_assert_filled(items[2].base, sizes[2]);
	drop_all();
}
END_TEST

#ifdef MADV_POPULATE_WRITE
/* _i: the block that cannot be populated. */
START_TEST(memory_that_the_kernel_does_not_give_is_refused)
{
	struct vs_why why;

	set_up();
	populate_error = ENOMEM;
	populate_calls = _i;
	ck_assert_int_eq(save(&why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, strerror(ENOMEM)));
	assert_nothing_taken();
}
END_TEST

START_TEST(a_kernel_that_cannot_populate_is_made_up_for)
{
	struct vs_why why;

	set_up();
	populate_error = EINVAL;
	ck_assert_int_eq(save(&why), VS_OK);
	ck_assert_int_lt(populate_calls, 0);
	overwrite();
	ck_assert_int_eq(load(0, ITEMS, &why), VS_OK);
	fixture_assert_filled(items[2].base, sizes[2]);
	drop_all();
}
END_TEST
#endif

START_TEST(nothing_to_save_takes_nothing)
{
	struct vs_why why;

	set_up();
	ck_assert_int_eq(vs_store_save(items, 0, &meter, &why), VS_OK);
	ck_assert_int_eq(load(0, 0, &why), VS_OK);
	ck_assert_uint_eq(meter.done, 0);
	assert_nothing_taken();
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

	set_up();
	ck_assert_int_eq(vs_host_pool_prepare(3 * MIB, contexts[0], &batch,
					      &why), VS_OK);
	block = vs_host_pool_wait(batch, 0, &why);
	ck_assert_ptr_nonnull(block);
	ck_assert_uint_eq(block->size, 4 * MIB);
	base = block->base;
	ck_assert_uint_eq((uintptr_t)base % (2 * MIB), 0);
	ck_assert_int_eq(mincore(base, 4096, &seen), 0);
	vs_host_pool_finish(batch, false);
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
	tcase_add_test(tc,
		an_item_that_cannot_be_made_ready_ends_the_copy_back);
#ifdef MADV_POPULATE_WRITE
	tcase_add_loop_test(tc,
		memory_that_the_kernel_does_not_give_is_refused, 0, 2);
	tcase_add_test(tc, a_kernel_that_cannot_populate_is_made_up_for);
#endif
	tcase_add_test(tc, nothing_to_save_takes_nothing);
	tcase_add_test(tc, a_forked_child_does_not_have_the_blocks);
}

int main(void)
{
	return fixture_main("store", fill);
}
