/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "page_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Around the end of a word, of a load, of a step, of four, and of a part. */
static const size_t sizes[] = {
	1, 3, 4, 5, 15, 16, 17, 31, 4095, 4096, 4097, 4112, 16383, 16384,
	16385, 20479, 65536, 100001, VS_PAGE_PART - 1, VS_PAGE_PART,
	VS_PAGE_PART + 1, 3 * VS_PAGE_PART + 7, VS_PAGE - 17, VS_PAGE - 1,
	VS_PAGE,
};

static struct vs_page_span spans[COUNT(sizes)];
static struct vs_page_sum sums[COUNT(sizes)];

/* A page for each size, of which the span is the beginning. */
static struct vs_page_hash *set_up(size_t max)
{
	CUdeviceptr base;
	int i;

	fixture_start("default", "");
	page_use(fixture_context);
	base = page_alloc(COUNT(sizes));
	for (i = 0; i < COUNT(sizes); i++) {
		spans[i].base = base + (size_t)i * VS_PAGE;
		spans[i].size = sizes[i];
	}
	return page_open(max);
}

static char *bytes_of(int i)
{
	return (char *)(uintptr_t)spans[i].base;
}

static void run(struct vs_page_hash *hash, struct vs_page_sum *out)
{
	struct vs_why why = { .text = "" };

	ck_assert_msg(!page_run(hash, spans, COUNT(spans), out, &why), "%s",
		      why.text);
}

START_TEST(the_device_sums_as_the_host_does)
{
	struct vs_page_hash *hash = set_up(COUNT(spans));
	struct vs_why why;

	ck_assert_int_eq(vs_page_hash_queue(hash, page_stream, spans,
					    COUNT(spans), &why), VS_OK);
	ck_ok(vs_real.cuStreamSynchronize(page_stream));
	vs_page_hash_collect(hash, sums);
	page_assert_sums(spans, sums, COUNT(spans));
	vs_page_hash_close(hash);
	vs_page_hash_close(NULL);
	ck_assert_uint_eq(fixture_sim().allocations, 1);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

/* A grid of code for an old target has 65535 blocks, 8 for each span. */
START_TEST(more_spans_than_a_grid_has_blocks_for_are_summed)
{
	enum { MANY = 20000, STEP = 256 };
	struct vs_page_span *many = calloc(MANY, sizeof(*many));
	struct vs_page_sum *out = calloc(MANY, sizeof(*out));
	struct vs_page_hash *hash = set_up(MANY);
	struct vs_why why;
	int i;

	for (i = 0; i < MANY; i++)
		many[i] = (struct vs_page_span){
			spans[0].base + (size_t)i % 4096 * STEP, STEP };
	sim_calls_reset();
	ck_assert_int_eq(page_run(hash, many, MANY, out, &why), VS_OK);
	ck_assert_uint_eq(sim_calls("cuLaunchKernel"), 3);
	page_assert_sums(many, out, MANY);
	vs_page_hash_close(hash);
	free(many);
	free(out);
}
END_TEST

START_TEST(bytes_past_the_end_do_not_count)
{
	struct vs_page_hash *hash = set_up(COUNT(spans));
	struct vs_page_sum again[COUNT(sizes)];
	int i;

	run(hash, sums);
	for (i = 0; i < COUNT(spans); i++)
		memset(bytes_of(i) + sizes[i], 0x77, VS_PAGE - sizes[i]);
	run(hash, again);
	for (i = 0; i < COUNT(spans); i++)
		ck_assert(page_same(&sums[i], &again[i]));
	vs_page_hash_close(hash);
}
END_TEST

START_TEST(zero_is_all_bytes_and_no_other)
{
	struct vs_page_hash *hash = set_up(COUNT(spans));
	int i;

	run(hash, sums);
	for (i = 0; i < COUNT(spans); i++) {
		ck_assert(!sums[i].zero);
		memset(bytes_of(i), 0, sizes[i]);
	}
	run(hash, sums);
	for (i = 0; i < COUNT(spans); i++) {
		ck_assert(sums[i].zero);
		bytes_of(i)[sizes[i] - 1] = (char)0x80;
	}
	run(hash, sums);
	for (i = 0; i < COUNT(spans); i++) {
		ck_assert(!sums[i].zero);
		bytes_of(i)[sizes[i] - 1] = 0;
		bytes_of(i)[sizes[i] / 2] = 1;
	}
	run(hash, sums);
	for (i = 0; i < COUNT(spans); i++)
		ck_assert(!sums[i].zero);
	vs_page_hash_close(hash);
}
END_TEST

/* What the tests below change, and its sum before. */
#define SIZE (VS_PAGE_PART + 3 * VS_PAGE_STEP + 5)
static char page[SIZE + 16], copy[SIZE];
static struct vs_page_sum before;

static void make_page(void)
{
	page_fill(page, SIZE);
	memcpy(copy, page, SIZE);
	before = page_sum_of(page, SIZE);
}

/* Differs from the page, unless it is the same; then it is the page again. */
static void assert_noticed(const char *what, size_t at)
{
	struct vs_page_sum sum = page_sum_of(page, SIZE);

	ck_assert_int_eq(!memcmp(page, copy, SIZE), page_same(&sum, &before));
	ck_assert_msg(sum.hash[0] != before.hash[0] ||
		      page_same(&sum, &before), "%s at %zu", what, at);
	ck_assert_msg(sum.hash[1] != before.hash[1] ||
		      page_same(&sum, &before), "%s at %zu", what, at);
	memcpy(page, copy, SIZE);
}

START_TEST(any_bit_changes_both_halves)
{
	size_t at[] = { 0, VS_PAGE_STEP - 16, VS_PAGE_PART - 16, SIZE - 16 };
	size_t bit;
	int i;

	make_page();
	for (i = 0; i < COUNT(at); i++)
		for (bit = at[i] * 8; bit < at[i] * 8 + 128; bit++) {
			page[bit / 8] ^= (char)(1 << bit % 8);
			assert_noticed("bit", bit);
		}
	for (i = 0; i < 500; i++) {
		bit = page_random() % (SIZE * 8);
		page[bit / 8] ^= (char)(1 << bit % 8);
		assert_noticed("bit", bit);
	}
}
END_TEST

static void swap(size_t a, size_t b, size_t size)
{
	memcpy(page + a, copy + b, size);
	memcpy(page + b, copy + a, size);
}

START_TEST(what_moves_changes_both_halves)
{
	size_t distance, size, from, to;
	int i;

	make_page();
	for (distance = 4; distance < SIZE - 4; distance *= 2) {
		from = page_random() % ((SIZE - 4 - distance) / 4 + 1) * 4;
		swap(from, from + distance, 4);
		assert_noticed("words swapped", from);
		memcpy(page, copy + distance, SIZE - distance);
		memcpy(page + SIZE - distance, copy, distance);
		assert_noticed("rotation", distance);
	}
	swap(0, VS_PAGE_STEP, VS_PAGE_STEP);
	assert_noticed("steps swapped", 0);
	swap(0, VS_PAGE_PART, 3 * VS_PAGE_STEP);
	assert_noticed("parts swapped", 0);
	for (i = 0; i < 200; i++) {
		size = 1 + page_random() % 5000;
		from = page_random() % (SIZE - size);
		to = page_random() % (SIZE - size);
		memcpy(page + to, copy + from, size);
		assert_noticed("block moved", to);
	}
}
END_TEST

static int by_hash(const void *a, const void *b)
{
	return memcmp(((const struct vs_page_sum *)a)->hash,
		      ((const struct vs_page_sum *)b)->hash,
		      sizeof(before.hash));
}

static void assert_all_differ(struct vs_page_sum *all, size_t count)
{
	size_t i;

	qsort(all, count, sizeof(*all), by_hash);
	for (i = 1; i < count; i++)
		ck_assert_int_lt(by_hash(&all[i - 1], &all[i]), 0);
}

START_TEST(the_length_counts)
{
	static const char nothing[VS_PAGE];
	static struct vs_page_sum all[5000 + COUNT(sizes)];
	size_t i;

	for (i = 0; i < 5000; i++) {
		all[i] = page_sum_of(nothing, i + 1);
		ck_assert(all[i].zero);
	}
	for (i = 0; i < COUNT(sizes); i++)
		if (sizes[i] > 5000)
			all[5000 + i] = page_sum_of(nothing, sizes[i]);
		else
			all[5000 + i].hash[0] = i;
	assert_all_differ(all, 5000 + COUNT(sizes));
}
END_TEST

START_TEST(a_hundred_thousand_changes_give_as_many_hashes)
{
	static struct vs_page_sum all[100000];
	size_t i, at, size = 6000;
	uint32_t was, number;

	page_fill(page, size);
	for (i = 0; i < COUNT(all); i++) {
		at = page_random() % (size - sizeof(was));
		memcpy(&was, page + at, sizeof(was));
		number = was ^ (uint32_t)(i + 1);
		memcpy(page + at, &number, sizeof(number));
		all[i] = page_sum_of(page, size);
	}
	assert_all_differ(all, COUNT(all));
}
END_TEST

START_TEST(processes_do_not_share_keys)
{
	struct vs_page_sum mine, theirs;
	int ends[2], status;

	page_fill(page, 4096);
	ck_assert_int_eq(pipe(ends), 0);
	if (!fork()) {
		theirs = page_sum_of(page, 4096);
		_exit(write(ends[1], &theirs, sizeof(theirs)) !=
		      sizeof(theirs));
	}
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(read(ends[0], &theirs, sizeof(theirs)),
			 sizeof(theirs));
	mine = page_sum_of(page, 4096);
	ck_assert_uint_ne(mine.hash[0], theirs.hash[0]);
	ck_assert_uint_ne(mine.hash[1], theirs.hash[1]);
	theirs = page_sum_of(page, 4096);
	ck_assert(page_same(&mine, &theirs));
}
END_TEST

START_TEST(each_context_loads_the_kernel_once)
{
	struct vs_page_hash *hash = set_up(COUNT(spans)), *more[4];
	CUdeviceptr there;
	int i;

	run(hash, sums);
	sim_calls_reset();
	for (i = 0; i < COUNT(more); i++) {
		page_use(fixture_new_context(i % 2));
		ck_ok(vs_real.cuMemAlloc_v2(&there, VS_PAGE));
		page_fill((void *)(uintptr_t)there, VS_PAGE);
		spans[0].base = there;
		more[i] = page_open(1);
		vs_page_hash_close(page_open(2));
		ck_assert_int_eq(page_run(more[i], spans, 1, sums, NULL),
				 VS_OK);
		page_assert_sums(spans, sums, 1);
	}
	ck_assert_uint_eq(sim_calls("cuModuleLoadData"), COUNT(more));
	for (i = 0; i < COUNT(more); i++)
		vs_page_hash_close(more[i]);
	vs_page_hash_close(hash);
	ck_assert_uint_eq(fixture_sim().allocations, 1 + COUNT(more));
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

START_TEST(a_context_that_was_reset_loads_it_again)
{
	struct vs_context *gone;

	vs_page_hash_close(set_up(1));
	vs_context_leave(&page_scope);
	vs_context_unpin(page_context);
	gone = vs_context_detach(fixture_context);
	ck_ok(vs_real.cuDevicePrimaryCtxReset_v2(0));
	vs_context_forget(gone);
	ck_ok(vs_real.cuDevicePrimaryCtxRetain(&fixture_context, 0));
	vs_context_note_primary(fixture_context, 0);
	page_use(fixture_context);
	sim_calls_reset();
	spans[0].base = page_alloc(1);
	vs_page_hash_close(page_open(1));
	ck_assert_uint_eq(sim_calls("cuModuleLoadData"), 1);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_device_sums_as_the_host_does);
	tcase_add_test(tc, more_spans_than_a_grid_has_blocks_for_are_summed);
	tcase_add_test(tc, bytes_past_the_end_do_not_count);
	tcase_add_test(tc, zero_is_all_bytes_and_no_other);
	tcase_add_test(tc, any_bit_changes_both_halves);
	tcase_add_test(tc, what_moves_changes_both_halves);
	tcase_add_test(tc, the_length_counts);
	tcase_add_test(tc, a_hundred_thousand_changes_give_as_many_hashes);
	tcase_add_test(tc, processes_do_not_share_keys);
	tcase_add_test(tc, each_context_loads_the_kernel_once);
	tcase_add_test(tc, a_context_that_was_reset_loads_it_again);
}

int main(void)
{
	return fixture_main("page_hash", fill);
}
