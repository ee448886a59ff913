/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_fixture - a context with our stream, and random pages on the device,
 * for tests of backup/page_hash.
 */
#ifndef TESTS_PAGE_FIXTURE_H
#define TESTS_PAGE_FIXTURE_H

#include "backup/page_hash.h"
#include "memory_fixture.h"

static struct vs_context *page_context;		/* pinned and entered */
static CUstream page_stream;
static struct vs_context_scope page_scope;

static uint64_t page_state = 4711;

static inline uint64_t page_random(void)
{
	uint64_t x = page_state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline void page_fill(void *to, size_t size)
{
	uint64_t *words = to;
	size_t i;

	for (i = 0; i < size / sizeof(*words); i++)
		words[i] = page_random();
}

static inline void page_use(CUcontext handle)
{
	struct vs_why why;

	page_context = vs_context_pin(handle);
	ck_assert_ptr_nonnull(page_context);
	ck_assert_int_eq(vs_context_enter(page_context, &page_scope, &why),
			 VS_OK);
	ck_assert_int_eq(vs_context_stream(page_context, &page_stream, &why),
			 VS_OK);
}

/* So many pages, filled. */
static inline CUdeviceptr page_alloc(size_t count)
{
	CUdeviceptr base;

	ck_ok(vs_real.cuMemAlloc_v2(&base, count * VS_PAGE));
	page_fill((void *)(uintptr_t)base, count * VS_PAGE);
	return base;
}

static inline struct vs_page_hash *page_open(size_t max)
{
	struct vs_page_hash *hash;
	struct vs_why why = { .text = "" };

	ck_assert_msg(!vs_page_hash_open(page_context, max, &hash, &why),
		      "%s", why.text);
	return hash;
}

/* At most as many as it has room for. */
static inline enum vs_status page_run(struct vs_page_hash *hash,
				      const struct vs_page_span *spans,
				      size_t count, struct vs_page_sum *out,
				      struct vs_why *why)
{
	enum vs_status st, waited;

	st = vs_page_hash_queue(hash, page_stream, spans, count, why);
	waited = vs_page_hash_wait(hash, page_stream, st ? NULL : why);
	st = st ? st : waited;
	if (!st)
		vs_page_hash_collect(hash, out);
	return st;
}

static inline bool page_same(const struct vs_page_sum *a,
			     const struct vs_page_sum *b)
{
	return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
	       a->zero == b->zero;
}

/* By the host, of bytes that the simulation lets it touch. */
static inline struct vs_page_sum page_sum_of(const void *data, size_t size)
{
	struct vs_page_sum sum;

	vs_page_math_sum(vs_page_hash_keys(), data, size, &sum);
	return sum;
}

static inline void page_assert_sums(const struct vs_page_span *spans,
				    const struct vs_page_sum *sums, size_t n)
{
	struct vs_page_sum sum;
	size_t i;

	for (i = 0; i < n; i++) {
		sum = page_sum_of((void *)(uintptr_t)spans[i].base,
				  spans[i].size);
		ck_assert_msg(page_same(&sum, &sums[i]),
			      "span %zu of %zu bytes", i, spans[i].size);
	}
}

#endif
