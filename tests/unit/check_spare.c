/* SPDX-License-Identifier: Apache-2.0 */
/* Freed memory is kept for a moment: for whom, how much, and until when. */
#include <config.h>

#include "spare_fixture.h"

#include "base/context.h"
#include "base/lock.h"
#include "memory/allocator.h"
#include "memory/query.h"

#include <stdlib.h>

static uint64_t id_of(CUdeviceptr base)
{
	uint64_t id = 0;

	ck_ok(vs_query_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, base));
	return id;
}

/* Driver calls of a second pair, after the first has made what is kept. */
static unsigned long pair_calls(size_t size)
{
	unsigned long before;
	CUdeviceptr base;

	fixture_free(fixture_alloc("w", size));
	before = spare_calls();
	ck_ok(vs_allocator_alloc(&base, size));
	ck_ok(vs_allocator_free(base));
	return spare_calls() - before;
}

static const size_t pair_sizes[] = { 4 * KIB, MIB, OWN, 40 * MIB };

/* _i: the size.  Two are of the allocation: which context, and is it lost; four
 * of the free: the capture mode, which context, the wait, the mode. */
START_TEST(a_pair_makes_six_driver_calls)
{
	fixture_start("w", "");
	ck_assert_uint_eq(pair_calls(pair_sizes[_i]), 6);
	fixture_assert_empty();
}
END_TEST

/* The arena takes large steps then. */
START_TEST(a_pair_beside_much_other_memory_makes_no_more)
{
	CUdeviceptr held[8];
	int i;

	fixture_start("w", "");
	for (i = 0; i < 8; i++)
		held[i] = fixture_alloc("w", 8 * MIB);
	ck_assert_uint_eq(pair_calls(8 * MIB), 6);
	ck_assert_uint_eq(pair_calls(MIB), 6);
	for (i = 0; i < 8; i++) {
		fixture_assert_filled(held[i], 8 * MIB);
		fixture_free(held[i]);
	}
	fixture_assert_empty();
}
END_TEST

/* Five calls more: to enter it, to wait, to leave it. */
START_TEST(a_pair_beside_another_context_waits_for_it_too)
{
	fixture_start("w", "");
	fixture_new_context(0);
	fixture_current(fixture_context);
	ck_assert_uint_eq(pair_calls(4 * KIB), 6 + 5);
	fixture_assert_empty();
}
END_TEST

START_TEST(the_same_size_gets_it_with_a_fresh_id)
{
	CUdeviceptr base, again, other;
	uint64_t id;
	size_t size;

	fixture_start("w", "");
	base = fixture_alloc("w", OWN);
	id = id_of(base);
	fixture_free(base);
	ck_assert_uint_eq(spare_bytes(0), OWN);
	ck_assert_int_ne(vs_query_range(NULL, &size, base), CUDA_SUCCESS);
	/* Another one of the same size when rounded. */
	again = fixture_alloc("w", OWN - 5);
	ck_assert_uint_eq(again, base);
	ck_assert_uint_gt(id_of(again), id);
	ck_ok(vs_query_range(NULL, &size, again + OWN / 2));
	ck_assert_uint_eq(size, OWN - 5);
	ck_assert_uint_eq(spare_bytes(0), 0);
	other = fixture_alloc("w", OWN);
	ck_assert_uint_ne(other, base);
	ck_assert_uint_eq(fixture_ledger().live_bytes, 2 * OWN - 5);
	fixture_free(other);
	fixture_assert_filled(again, OWN - 5);
	fixture_free(again);
	fixture_assert_empty();
}
END_TEST

START_TEST(no_other_tag_context_device_or_size_gets_it)
{
	CUdeviceptr base, others[4];
	CUcontext context;
	int i;

	fixture_start("w", "");
	base = fixture_alloc("w", OWN);
	fixture_free(base);
	others[0] = fixture_alloc("v", OWN);
	others[1] = fixture_alloc("w", OWN + MIB);
	context = fixture_new_context(0);
	others[2] = fixture_alloc("w", OWN);
	ck_assert_ptr_eq(fixture_segment(others[2])->context, context);
	fixture_new_context(1);
	others[3] = fixture_alloc("w", OWN);
	ck_assert_int_eq(fixture_segment(others[3])->device, 1);
	ck_assert_uint_eq(spare_bytes(0), OWN);
	for (i = 0; i < 4; i++) {
		ck_assert_uint_ne(others[i], base);
		fixture_free(others[i]);
	}
	fixture_current(fixture_context);
	ck_assert_uint_eq(fixture_alloc("w", OWN), base);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* The oldest goes first. */
START_TEST(a_device_keeps_no_more_than_its_limit)
{
	CUdeviceptr bases[8];
	int i;

	setenv("VSLEEP_SIM_MEMORY", "2G", 1);
	setenv("VSLEEP_SIM_DIRTY", "0", 1);
	fixture_start("w", "");
	vs_segment_chunk = 256 * MIB;
	for (i = 0; i < 8; i++)
		ck_ok(vs_allocator_alloc(&bases[i], 100 * MIB));
	for (i = 0; i < 8; i++)
		ck_ok(vs_allocator_free(bases[i]));
	ck_assert_uint_eq(spare_bytes(0), 500 * MIB);
	ck_assert_uint_eq(sim_used(0), 500 * MIB);
	ck_ok(vs_allocator_alloc(&bases[0], 100 * MIB));
	ck_assert_uint_eq(bases[0], bases[7]);
	ck_ok(vs_allocator_free(bases[0]));
	ck_ok(vs_allocator_alloc(&bases[0], VS_SPARE_MAX + MIB));
	ck_ok(vs_allocator_free(bases[0]));
	ck_assert_uint_eq(sim_used(0), 500 * MIB);
	/* Chunks of arenas count as well. */
	for (i = 0; i < 8; i++)
		ck_ok(vs_allocator_alloc(&bases[i], 15 * MIB));
	for (i = 0; i < 8; i++)
		ck_ok(vs_allocator_free(bases[i]));
	ck_assert_uint_le(sim_used(0), VS_SPARE_MAX);
	fixture_assert_empty();
}
END_TEST

/* _i: a large allocation, many small ones. */
START_TEST(what_is_not_used_goes_back_in_time)
{
	CUdeviceptr bases[8];
	double now;
	int i;

	fixture_start("w", "");
	ck_assert(!vs_spare_unwatched());
	ck_assert(vs_spare_idle(vs_lock_now()) == 0);
	for (i = 0; i < 8; i++)
		bases[i] = fixture_alloc("w", _i ? 4 * MIB : OWN);
	for (i = 0; i < (_i ? 8 : 2); i++)
		fixture_free(bases[i]);
	ck_assert(vs_spare_unwatched());
	ck_assert(!vs_spare_unwatched());
	now = vs_lock_now();
	ck_assert(vs_spare_idle(now) == now + VS_SPARE_TIME);
	ck_assert_uint_gt(spare_bytes(0), 16 * MIB);
	/* It is watched already. */
	fixture_free(fixture_alloc("w", OWN));
	ck_assert(!vs_spare_unwatched());
	ck_assert(vs_spare_idle(now + 10) == 0);
	ck_assert_uint_le(spare_bytes(0), 4 * MIB);
	for (i = 2; !_i && i < 8; i++) {
		fixture_assert_filled(bases[i], OWN);
		fixture_free(bases[i]);
	}
	fixture_free(fixture_alloc("w", OWN));
	ck_assert(vs_spare_unwatched());
	fixture_assert_empty();
}
END_TEST

/* Small pairs in what an arena keeps for ever wake nobody. */
START_TEST(small_pairs_need_no_watch)
{
	int i;

	fixture_start("w", "");
	for (i = 0; i < 100; i++)
		fixture_free(fixture_alloc("w", 4 * KIB));
	ck_assert(!vs_spare_unwatched());
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_pair_makes_six_driver_calls, 0,
			    COUNT(pair_sizes));
	tcase_add_test(tc, a_pair_beside_much_other_memory_makes_no_more);
	tcase_add_test(tc, a_pair_beside_another_context_waits_for_it_too);
	tcase_add_test(tc, the_same_size_gets_it_with_a_fresh_id);
	tcase_add_test(tc, no_other_tag_context_device_or_size_gets_it);
	tcase_add_test(tc, a_device_keeps_no_more_than_its_limit);
	tcase_add_loop_test(tc, what_is_not_used_goes_back_in_time, 0, 2);
	tcase_add_test(tc, small_pairs_need_no_watch);
}

int main(void)
{
	return fixture_main("spare", fill);
}
