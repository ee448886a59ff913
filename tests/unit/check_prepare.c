/* SPDX-License-Identifier: Apache-2.0 */
/* Backups that are made while the program runs. */
#include <config.h>

#include "prepare_fixture.h"

#include "backup/host_pool.h"
#include "backup/slice.h"
#include "base/config.h"
#include "memory/allocator.h"
#include "memory/staging.h"
#include "sleep/pass.h"

#include <string.h>

#define LARGE (40 * MIB)

START_TEST(a_sleep_after_a_pass_copies_nothing)
{
	struct vs_prepared got;
	struct vs_ledger_last last;
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	got = prepare_all();
	ck_assert_uint_eq(got.copied_bytes, SIZE);
	ck_assert_uint_eq(got.left_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().retained_bytes, got.copied_bytes);
	prepare_assert_backups();
	last = prepare_sleep();
	ck_assert_uint_eq(last.copied_bytes, 0);
	ck_assert_uint_eq(last.unchanged_bytes, got.copied_bytes);
	prepare_wake();
	fixture_assert_filled(base, SIZE);
	got = prepare_all();
	ck_assert_uint_eq(got.copied_bytes, 0);
	ck_assert_uint_eq(got.unchanged_bytes, SIZE);
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_changes_afterwards_is_copied)
{
	struct vs_ledger_last last;
	CUdeviceptr base;
	char *bytes;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	bytes = (char *)(uintptr_t)base;
	prepare_all();
	bytes[5 * MIB] ^= 1;
	bytes[SIZE - 1] ^= 1;
	last = prepare_sleep();
	ck_assert_uint_eq(last.copied_bytes, 3 * MIB);
	prepare_wake();
	bytes[5 * MIB] ^= 1;
	bytes[SIZE - 1] ^= 1;
	fixture_assert_filled(base, SIZE);
	ck_assert_uint_eq(prepare_all().copied_bytes, 3 * MIB);
	prepare_assert_backups();
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(zeros_take_no_host_memory)
{
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	prepare_all();
	memset((void *)(uintptr_t)base, 0, SIZE);
	ck_assert_uint_eq(prepare_all().zero_bytes, SIZE);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(prepare_sleep().zero_bytes, SIZE);
	prepare_wake();
	fixture_assert_zero(base, SIZE);
	memset((void *)(uintptr_t)base, 7, 1);
	ck_assert_uint_eq(prepare_all().copied_bytes, 2 * MIB);
	ck_assert_uint_eq(prepare_sleep().copied_bytes, 0);
	prepare_wake();
	ck_assert_int_eq(*(char *)(uintptr_t)base, 7);
	fixture_assert_zero(base + 1, SIZE - 1);
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(only_what_a_sleep_would_copy_is_prepared)
{
	CUdeviceptr w, k, d, o;

	prepare_start();
	w = fixture_alloc("w", SIZE);
	k = fixture_alloc("k", SIZE);
	d = fixture_alloc("d", SIZE);
	o = fixture_alloc("o", SIZE);
	ck_assert_uint_eq(prepare_ask("o").prepared.copied_bytes, SIZE);
	ck_assert_int_eq(fixture_sleep(1, "o").status, VS_OK);
	ck_assert_uint_eq(prepare_all().copied_bytes, SIZE);
	prepare_wake();
	fixture_assert_filled(o, SIZE);
	ck_assert_uint_eq(prepare_all().unchanged_bytes, 2 * SIZE);
	prepare_end();
	fixture_assert_filled(w, SIZE);
	fixture_assert_filled(k, SIZE);
	fixture_free(w);
	fixture_free(k);
	fixture_free(d);
	fixture_free(o);
	fixture_assert_empty();
}
END_TEST

/* Steps of a slice: a page is changed before the @_i-th, for good or only until
 * the next. */
enum { BEFORE_STAGING, BEFORE_HASH, BEFORE_COPY, AFTER_COPY, STEPS };

static struct vs_driver plain;
static unsigned char *page_at;
static int changes_at, changes_back_at;

static void reach(int now)
{
	if (now == changes_at)
		memset(page_at, 0x11, 64);
	if (now == changes_back_at)
		memset(page_at, 0x77, 64);
}

static CUresult copy_to_staging(CUdeviceptr to, CUdeviceptr from, size_t size,
				CUstream stream)
{
	CUresult rc;

	reach(BEFORE_STAGING);
	rc = plain.cuMemcpyDtoDAsync_v2(to, from, size, stream);
	ck_ok(plain.cuStreamSynchronize(stream));
	reach(BEFORE_HASH);
	return rc;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t size,
			 CUstream stream)
{
	CUresult rc;

	reach(BEFORE_COPY);
	rc = plain.cuMemcpyDtoHAsync_v2(to, from, size, stream);
	ck_ok(plain.cuStreamSynchronize(stream));
	reach(AFTER_COPY);
	return rc;
}

/* _i: where it changes and, if so, where it changes back. */
START_TEST(a_page_that_toggles_is_never_torn)
{
	unsigned char now[64];
	CUdeviceptr base;
	int round;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	page_at = (unsigned char *)(uintptr_t)base + 3 * MIB;
	memset(page_at, 0x77, 64);
	plain = vs_real;
	vs_real.cuMemcpyDtoDAsync_v2 = copy_to_staging;
	vs_real.cuMemcpyDtoHAsync_v2 = copy_out;
	changes_at = _i / STEPS;
	changes_back_at = _i % STEPS;
	for (round = 0; round < 3; round++) {
		prepare_all();
		prepare_assert_backups();
		memcpy(now, page_at, sizeof(now));
		if (round == 1)
			memset(page_at, now[0] ^ 0x66, 64);
		memcpy(now, page_at, sizeof(now));
		changes_at = changes_back_at = -1;
		prepare_sleep();
		prepare_assert_backups();
		prepare_wake();
		ck_assert_mem_eq(now, page_at, sizeof(now));
		changes_at = _i / STEPS;
		changes_back_at = _i % STEPS;
	}
	vs_real = plain;
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(without_retaining_it_is_refused)
{
	fixture_start("w", "");
	ck_assert_int_eq(prepare_ask(NULL).status, VS_REFUSED);
}
END_TEST

START_TEST(what_host_memory_lacks_for_is_left)
{
	struct vs_prepared got;
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", LARGE);
	vs_config.host_limit = 10 * MIB;
	got = prepare_all();
	ck_assert_uint_eq(got.copied_bytes, 10 * MIB);
	ck_assert_uint_eq(got.left_bytes, LARGE - 10 * MIB);
	ck_assert_uint_eq(vs_host_pool_taken(), 10 * MIB);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_NOHOST);
	vs_config.host_limit = LARGE;
	ck_assert_uint_eq(prepare_sleep().copied_bytes, LARGE - 10 * MIB);
	prepare_wake();
	fixture_assert_filled(base, LARGE);
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* The device is full but for what staging takes. */
static CUdeviceptr taken_meanwhile;

static void *allocate(void *size)
{
	CUdeviceptr base;

	fixture_current(fixture_context);
	ck_ok(vs_allocator_alloc(&base, *(size_t *)size));
	taken_meanwhile = base;
	return NULL;
}

START_TEST(the_program_gets_the_staging_memory)
{
	size_t size = 200 * MIB, available, total;
	enum vs_pass_result result;
	struct vs_why why;
	enum vs_status st;
	CUdeviceptr base;

	prepare_start_alone();
	base = fixture_alloc("w", SIZE);
	vs_pass_begin(~(vs_tag_set)0);
	do
		result = vs_pass_step(&st, &why);
	while (result == VS_PASS_WAIT);
	ck_assert_int_eq(result, VS_PASS_MORE);
	ck_assert_uint_eq(vs_staging_bytes(0), VS_SLICE_BYTES);
	ck_ok(vs_allocator_info(&available, &total));
	ck_assert_uint_ge(available, size);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
	allocate(&size);
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
	ck_assert_int_eq(vs_pass_step(&st, &why), VS_PASS_END);
	ck_assert_int_eq(st, VS_NOMEM);
	vs_pass_end();
	fixture_free(taken_meanwhile);
	fixture_later();
	prepare_assert_backups();
	prepare_end();
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_sleep_after_a_pass_copies_nothing);
	tcase_add_test(tc, what_changes_afterwards_is_copied);
	tcase_add_test(tc, zeros_take_no_host_memory);
	tcase_add_test(tc, only_what_a_sleep_would_copy_is_prepared);
	tcase_add_loop_test(tc, a_page_that_toggles_is_never_torn, 0,
			    STEPS * STEPS);
	tcase_add_test(tc, without_retaining_it_is_refused);
	tcase_add_test(tc, what_host_memory_lacks_for_is_left);
	tcase_add_test(tc, the_program_gets_the_staging_memory);
}

int main(void)
{
	return fixture_main("prepare", fill);
}
