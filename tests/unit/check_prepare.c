/* SPDX-License-Identifier: Apache-2.0 */
/* Backups that are made while the program runs. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/backup.h"
#include "backup/host_pool.h"
#include "backup/slice.h"
#include "base/config.h"
#include "base/context.h"
#include "base/lock.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "memory/detach.h"
#include "memory/staging.h"
#include "sleep/pass.h"
#include "sleep/prepare.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (17 * MIB)		/* a segment of its own, in chunks of 2 MiB */
#define LARGE (40 * MIB)

static void start(void)
{
	setenv("VSLEEP_RETAIN", "yes", 1);
	fixture_start("w", "k=keep,d=discard");
}

static struct vs_reply prepare(const char *tags)
{
	struct vs_request request = {
		.verb = VS_VERB_PREPARE, .level = 1, .all_tags = !tags,
		.tags = tags ? fixture_tags(tags) : 0, .timeout_ms = 10000,
	};

	return fixture_ask(&request);
}

static struct vs_prepared prepared(void)
{
	struct vs_reply reply = prepare(NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
	ck_assert(reply.prepared.filled);
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
	return reply.prepared;
}

static struct vs_ledger_last slept(void)
{
	struct vs_reply reply = fixture_sleep(1, NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
	return reply.ledger.last;
}

static void woken(void)
{
	struct vs_reply reply = fixture_wake(NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
}

/* What a backup says of a page is so. */
static void assert_page(const struct vs_backup *backup, size_t i)
{
	const struct vs_page *page = &backup->pages[i];
	struct vs_page_sum sum;

	if (!page->valid || !page->hashed || page->place != VS_PLACE_HOST)
		return;
	vs_page_math_sum(vs_page_hash_keys(),
			 page->block->base + page->index * VS_PAGE,
			 vs_backup_page_size(backup, i), &sum);
	ck_assert_msg(sum.hash[0] == page->hash[0] &&
		      sum.hash[1] == page->hash[1], "page %zu", i);
}

static void assert_backups(void)
{
	const struct vs_segment *s;
	const struct vs_chunk *c;
	size_t i, k;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
			for (k = 0; c->backup && k < c->backup->count; k++)
				assert_page(c->backup, k);
	}
}

static void end(void)
{
	slept();
	woken();
	ck_assert_int_eq(fixture_ask(&(struct vs_request){
		.verb = VS_VERB_TRIM }).status, VS_OK);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}

START_TEST(a_sleep_after_a_pass_copies_nothing)
{
	struct vs_prepared got;
	struct vs_ledger_last last;
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", SIZE);
	got = prepared();
	ck_assert_uint_eq(got.copied_bytes, SIZE);
	ck_assert_uint_eq(got.left_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().retained_bytes, got.copied_bytes);
	assert_backups();
	last = slept();
	ck_assert_uint_eq(last.copied_bytes, 0);
	ck_assert_uint_eq(last.unchanged_bytes, got.copied_bytes);
	woken();
	fixture_assert_filled(base, SIZE);
	got = prepared();
	ck_assert_uint_eq(got.copied_bytes, 0);
	ck_assert_uint_eq(got.unchanged_bytes, SIZE);
	end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_changes_afterwards_is_copied)
{
	struct vs_ledger_last last;
	CUdeviceptr base;
	char *bytes;

	start();
	base = fixture_alloc("w", SIZE);
	bytes = (char *)(uintptr_t)base;
	prepared();
	bytes[5 * MIB] ^= 1;
	bytes[SIZE - 1] ^= 1;
	last = slept();
	ck_assert_uint_eq(last.copied_bytes, 3 * MIB);
	woken();
	bytes[5 * MIB] ^= 1;
	bytes[SIZE - 1] ^= 1;
	fixture_assert_filled(base, SIZE);
	ck_assert_uint_eq(prepared().copied_bytes, 3 * MIB);
	assert_backups();
	end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(zeros_take_no_host_memory)
{
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", SIZE);
	prepared();
	memset((void *)(uintptr_t)base, 0, SIZE);
	ck_assert_uint_eq(prepared().zero_bytes, SIZE);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(slept().zero_bytes, SIZE);
	woken();
	fixture_assert_zero(base, SIZE);
	memset((void *)(uintptr_t)base, 7, 1);
	ck_assert_uint_eq(prepared().copied_bytes, 2 * MIB);
	ck_assert_uint_eq(slept().copied_bytes, 0);
	woken();
	ck_assert_int_eq(*(char *)(uintptr_t)base, 7);
	fixture_assert_zero(base + 1, SIZE - 1);
	end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(only_what_a_sleep_would_copy_is_prepared)
{
	CUdeviceptr w, k, d, o;

	start();
	w = fixture_alloc("w", SIZE);
	k = fixture_alloc("k", SIZE);
	d = fixture_alloc("d", SIZE);
	o = fixture_alloc("o", SIZE);
	ck_assert_uint_eq(prepare("o").prepared.copied_bytes, SIZE);
	ck_assert_int_eq(fixture_sleep(1, "o").status, VS_OK);
	ck_assert_uint_eq(prepared().copied_bytes, SIZE);
	woken();
	fixture_assert_filled(o, SIZE);
	ck_assert_uint_eq(prepared().unchanged_bytes, 2 * SIZE);
	end();
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

	start();
	base = fixture_alloc("w", SIZE);
	page_at = (unsigned char *)(uintptr_t)base + 3 * MIB;
	memset(page_at, 0x77, 64);
	plain = vs_real;
	vs_real.cuMemcpyDtoDAsync_v2 = copy_to_staging;
	vs_real.cuMemcpyDtoHAsync_v2 = copy_out;
	changes_at = _i / STEPS;
	changes_back_at = _i % STEPS;
	for (round = 0; round < 3; round++) {
		prepared();
		assert_backups();
		memcpy(now, page_at, sizeof(now));
		if (round == 1)
			memset(page_at, now[0] ^ 0x66, 64);
		memcpy(now, page_at, sizeof(now));
		changes_at = changes_back_at = -1;
		slept();
		assert_backups();
		woken();
		ck_assert_mem_eq(now, page_at, sizeof(now));
		changes_at = _i / STEPS;
		changes_back_at = _i % STEPS;
	}
	vs_real = plain;
	end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(without_retaining_it_is_refused)
{
	fixture_start("w", "");
	ck_assert_int_eq(prepare(NULL).status, VS_REFUSED);
}
END_TEST

START_TEST(what_host_memory_lacks_for_is_left)
{
	struct vs_prepared got;
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", LARGE);
	vs_config.host_limit = 10 * MIB;
	got = prepared();
	ck_assert_uint_eq(got.copied_bytes, 10 * MIB);
	ck_assert_uint_eq(got.left_bytes, LARGE - 10 * MIB);
	ck_assert_uint_eq(vs_host_pool_taken(), 10 * MIB);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_NOHOST);
	vs_config.host_limit = LARGE;
	ck_assert_uint_eq(slept().copied_bytes, LARGE - 10 * MIB);
	woken();
	fixture_assert_filled(base, LARGE);
	end();
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

	start();
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
	assert_backups();
	end();
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
