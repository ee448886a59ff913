/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/allocator.h"
#include "memory/unmanaged.h"
#include "memory/vmm.h"

#include <stdlib.h>
#include <string.h>

#define UNTOUCHED ((CUdeviceptr)0x5a5a5a5a5a5a5a5a)
#define OWN (17 * MIB)		/* a segment of its own, of nine chunks */
#define OWN_CHUNKS 9

static const char *const granularities[] = { "64K", "2M", "16M" };

static const size_t sizes[] = {
	1, 128, 6912, 64 * KIB - 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1,
	40 * MIB + 5,
};
#define SIZES COUNT(sizes)

static void start(void)
{
	fixture_start("default", "");
}

static void assert_apart(CUdeviceptr a, size_t a_size, CUdeviceptr b,
			 size_t b_size)
{
	ck_assert(a + a_size <= b || b + b_size <= a);
}

/* Interior addresses lead to the allocation, the one behind it does not. */
static void assert_found(CUdeviceptr base, size_t size)
{
	const CUdeviceptr inside[] = { base, base + size / 2, base + size - 1 };
	struct vs_block *block;
	int i;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < 3; i++) {
		block = vs_segment_find_inside(inside[i]);
		ck_assert_ptr_nonnull(block);
		ck_assert(block->base == base && block->size == size);
	}
	block = vs_segment_find_inside(base + size);
	ck_assert(!block || block->base != base);
	block = vs_segment_find_inside(base - 1);
	ck_assert(!block || block->base != base);
	vs_lock_drop(&vs_segment_lock);
}

/* _i: the granularity.  Freed in an order that is not that of allocation. */
START_TEST(every_size_is_aligned_apart_and_keeps_its_bytes)
{
	CUdeviceptr bases[SIZES];
	int i, k;

	setenv("VSLEEP_SIM_GRANULARITY", granularities[_i], 1);
	start();
	for (i = 0; i < SIZES; i++) {
		bases[i] = fixture_alloc("w", sizes[i]);
		ck_assert_uint_eq(bases[i] % 256, 0);
		for (k = 0; k < i; k++)
			assert_apart(bases[i], sizes[i], bases[k], sizes[k]);
	}
	for (i = 0; i < SIZES; i++) {
		assert_found(bases[i], sizes[i]);
		fixture_assert_filled(bases[i], sizes[i]);
	}
	for (i = 0; i < SIZES; i++) {
		k = i * 3 % SIZES;
		fixture_assert_filled(bases[k], sizes[k]);
		fixture_free(bases[k]);
	}
	fixture_assert_empty();
}
END_TEST

START_TEST(the_ledger_counts_what_was_asked_for_and_what_it_takes)
{
	CUdeviceptr small, large;
	struct vs_ledger l;

	start();
	small = fixture_alloc("w", 1000);
	large = fixture_alloc("w", OWN + 5);
	l = fixture_ledger();
	ck_assert_uint_eq(l.allocations, 2);
	ck_assert_uint_eq(l.live_bytes, 1000 + OWN + 5);
	ck_assert_uint_eq(l.resident_bytes, 64 * KIB + OWN + 64 * KIB);
	ck_assert_uint_eq(l.resident_bytes, sim_used(0));
	ck_assert_uint_eq(l.evicted_bytes, 0);
	ck_assert_uint_eq(l.unmanaged_bytes, 0);
	fixture_free(small);
	fixture_free(large);
	l = fixture_ledger();
	ck_assert_uint_eq(l.allocations, 0);
	ck_assert_uint_eq(l.live_bytes, 0);
	ck_assert_uint_eq(l.resident_bytes, sim_used(0));
	fixture_assert_empty();
}
END_TEST

START_TEST(a_large_one_lies_in_chunks_without_gaps)
{
	struct vs_segment *s;
	size_t i, end = 0;

	start();
	s = fixture_segment(fixture_alloc("w", OWN));
	ck_assert_uint_eq(s->chunk_count, OWN_CHUNKS);
	for (i = 0; i < s->chunk_count; i++) {
		ck_assert_uint_eq(s->chunks[i].offset, end);
		ck_assert_int_eq(s->chunks[i].state, VS_CHUNK_RESIDENT);
		end += s->chunks[i].size;
	}
	ck_assert_uint_eq(end, OWN);
	ck_assert_uint_eq(s->size, OWN);
}
END_TEST

struct pitched {
	CUresult rc;
	CUdeviceptr base;
	size_t pitch, size;
};

static const struct {
	size_t width, height;
	unsigned element;
} pitches[] = {
	{ 1, 1, 4 }, { 100, 7, 8 }, { 512, 3, 16 }, { 513, 3, 4 },
	{ 4097, 5000, 4 }, { 100, 0, 4 }, { 0, 100, 4 }, { 100, 100, 3 },
	{ SIZE_MAX, 2, 4 }, { (size_t)1 << 33, (size_t)1 << 33, 4 },
	{ 4096, (size_t)1 << 55, 4 }, { (size_t)300 << 20, 1, 4 },
};

/* _i: width, height, element size.  Against the driver's own answer. */
#define MIXED 20	/* of small and large ones each */

static size_t mixed_size(int i)
{
	return i % 2 ? MIB + 1 + 70000 * (size_t)i : 512 + 700 * (size_t)i;
}

/* Whoever exports memory exports whole pages of the host. */
START_TEST(large_ones_begin_on_a_page_and_take_no_more_for_it)
{
	CUdeviceptr bases[2 * MIXED];
	size_t used = 0;
	int i, round;

	fixture_start("default", "");
	for (i = 0; i < 2 * MIXED; i++)
		bases[i] = fixture_alloc("w", mixed_size(i));
	used = sim_used(0);
	for (round = 0; round < 5; round++)
		for (i = 1; i < 2 * MIXED; i += 2) {
			ck_assert_uint_eq(bases[i] % (64 * KIB), 0);
			fixture_free(bases[i]);
			bases[i] = fixture_alloc("w", mixed_size(i));
		}
	ck_assert_uint_le(sim_used(0), used);
	for (i = 0; i < 2 * MIXED; i++)
		fixture_free(bases[i]);
	fixture_assert_empty();
}
END_TEST

START_TEST(the_pitch_and_its_errors_are_the_drivers)
{
	const size_t width = pitches[_i].width, height = pitches[_i].height;
	const unsigned element = pitches[_i].element;
	struct pitched native = { 0, UNTOUCHED, 77, 0 }, ours = native;

	start();
	native.rc = vs_real.cuMemAllocPitch_v2(&native.base, &native.pitch,
					       width, height, element);
	if (!native.rc) {
		ck_ok(vs_real.cuMemGetAddressRange_v2(NULL, &native.size,
						      native.base));
		ck_ok(vs_real.cuMemFree_v2(native.base));
	}
	ours.rc = vs_allocator_alloc_pitch(&ours.base, &ours.pitch, width,
					   height, element);
	ck_assert_int_eq(ours.rc, native.rc);
	ck_assert_uint_eq(ours.pitch, native.pitch);
	if (native.rc) {
		ck_assert_uint_eq(ours.base, UNTOUCHED);
	} else {
		assert_found(ours.base, native.size);
		fixture_fill(ours.base, native.size);
		fixture_free(ours.base);
	}
	fixture_assert_empty();
}
END_TEST

START_TEST(a_pitch_without_a_place_to_put_it_is_refused_as_by_the_driver)
{
	CUdeviceptr base = UNTOUCHED;
	size_t pitch = 77;

	start();
	ck_cu(vs_allocator_alloc_pitch(NULL, &pitch, 8, 8, 4),
	      vs_real.cuMemAllocPitch_v2(NULL, &pitch, 8, 8, 4));
	ck_cu(vs_allocator_alloc_pitch(&base, NULL, 8, 8, 4),
	      vs_real.cuMemAllocPitch_v2(&base, NULL, 8, 8, 4));
	ck_assert_uint_eq(base, UNTOUCHED);
	ck_assert_uint_eq(pitch, 77);
	fixture_assert_empty();
}
END_TEST

static const size_t impossible[] = {
	SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1, SIZE_MAX / 2,
	(size_t)1 << 62, (size_t)1 << 40, 512 * MIB, 0,
};

/* _i: sizes that the driver refuses too. */
START_TEST(what_cannot_be_had_is_refused_as_by_the_driver_without_a_trace)
{
	CUdeviceptr base = UNTOUCHED, kept;
	struct sim_ledger before, after;
	CUresult native;

	start();
	kept = fixture_alloc("w", OWN);
	before = fixture_sim();
	native = vs_real.cuMemAlloc_v2(&base, impossible[_i]);
	ck_assert_int_ne(native, CUDA_SUCCESS);
	ck_cu(vs_allocator_alloc(&base, impossible[_i]), native);
	ck_assert_uint_eq(base, UNTOUCHED);
	ck_cu(vs_allocator_alloc(NULL, 4096),
	      vs_real.cuMemAlloc_v2(NULL, 4096));
	after = fixture_sim();
	ck_assert_mem_eq(&after, &before, sizeof(after));
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
	fixture_free(fixture_alloc("w", MIB));
	fixture_assert_filled(kept, OWN);
	fixture_free(kept);
	fixture_assert_empty();
}
END_TEST

static const char *const steps[] = {
	"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
};
#define STEPS COUNT(steps)

/* Each step of a large one, and of what makes a small one's arena grow. */
static void assert_all_or_nothing(const char *step, unsigned nth, size_t size)
{
	struct sim_ledger before = fixture_sim(), after;
	struct vs_ledger l = fixture_ledger();
	CUdeviceptr base = UNTOUCHED;

	sim_fail_from(step, nth, CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(vs_allocator_alloc(&base, size), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_gt(sim_injected(), 0);
	sim_fail_clear();
	after = fixture_sim();
	ck_assert_mem_eq(&after, &before, sizeof(after));
	ck_assert_uint_eq(base, UNTOUCHED);
	ck_assert_uint_eq(fixture_ledger().live_bytes, l.live_bytes);
	ck_assert_uint_eq(fixture_ledger().resident_bytes, l.resident_bytes);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
	fixture_assert_sound();
}

/* _i: the step, but for the first: addresses are not memory. */
START_TEST(running_short_at_any_step_of_a_request_leaves_no_trace)
{
	CUdeviceptr kept;
	unsigned nth;

	start();
	kept = fixture_alloc("w", 3 * MIB);
	for (nth = 1; nth <= OWN_CHUNKS; nth++)
		assert_all_or_nothing(steps[_i], nth, OWN);
	assert_all_or_nothing(steps[_i], 1, 5 * MIB);
	fixture_free(fixture_alloc("w", OWN));
	fixture_assert_filled(kept, 3 * MIB);
	fixture_free(kept);
	fixture_assert_empty();
}
END_TEST

/* _i: the step.  The program is not told of trouble that is not memory, as a
 * lack of addresses (beyond the steps) is not. */
START_TEST(an_unknown_error_makes_an_allocation_native_and_it_is_counted)
{
	CUdeviceptr base = UNTOUCHED, kept;
	struct sim_ledger before, after;

	start();
	kept = fixture_alloc("w", 3 * MIB);
	before = fixture_sim();
	sim_fail(steps[_i % STEPS], 1,
		 _i < STEPS ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
	ck_ok(vs_allocator_alloc(&base, OWN));
	ck_assert_ptr_null(fixture_segment(base));
	after = fixture_sim();
	ck_assert_uint_eq(after.handles, before.handles);
	ck_assert_uint_eq(after.mappings, before.mappings);
	ck_assert_uint_eq(after.reservations, before.reservations);
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), OWN);
	fixture_fill(base, OWN);
	ck_ok(vs_allocator_free(base));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	fixture_free(fixture_alloc("w", OWN));
	fixture_free(kept);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_device_without_mappings_has_native_memory)
{
	CUdeviceptr base;
	int i;

	start();
	sim_fail_from("cuMemMap", 1, CUDA_ERROR_NOT_SUPPORTED);
	for (i = 0; i < 20; i++) {
		ck_ok(vs_allocator_alloc(&base, 4096));
		ck_assert_ptr_null(fixture_segment(base));
		ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE),
				  4096);
		ck_ok(vs_allocator_free(base));
	}
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_full_card_at_the_first_allocation_is_not_taken_for_a_lack)
{
	CUdeviceptr full, base = UNTOUCHED;

	start();
	ck_ok(vs_real.cuMemAlloc_v2(&full, 256 * MIB));
	ck_cu(vs_allocator_alloc(&base, 4096), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(base, UNTOUCHED);
	ck_ok(vs_real.cuMemFree_v2(full));
	fixture_free(fixture_alloc("w", 4096));
	fixture_assert_empty();
}
END_TEST

/* What one device lacks says nothing of another one. */
/* Small and large ones in turn; the last of each size is kept. */
START_TEST(addresses_come_back_from_two_hundred_thousand_allocations)
{
	CUdeviceptr base;
	int i;

	start();
	for (i = 0; i < 200000; i++) {
		ck_ok(vs_allocator_alloc(&base, i % 1000 ? 512 : OWN));
		ck_ok(vs_allocator_free(base));
		if (i == 2000)
			ck_assert_uint_le(fixture_sim().reservations, 2);
	}
	ck_assert_uint_le(fixture_sim().reservations, 2);
	fixture_assert_empty();
}
END_TEST

START_TEST(memory_is_on_the_device_of_the_context)
{
	CUdeviceptr here, there;

	start();
	here = fixture_alloc("w", OWN);
	fixture_new_context(1);
	there = fixture_alloc("w", OWN);
	ck_assert_int_eq(fixture_segment(here)->device, 0);
	ck_assert_int_eq(fixture_segment(there)->device, 1);
	ck_assert_uint_eq(sim_used(0), OWN);
	ck_assert_uint_eq(sim_used(1), OWN);
	fixture_free(here);
	fixture_later();
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(sim_used(1), OWN);
	fixture_free(there);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
	every_size_is_aligned_apart_and_keeps_its_bytes, 0,
		COUNT(granularities));
	tcase_add_test(tc,
		the_ledger_counts_what_was_asked_for_and_what_it_takes);
	tcase_add_test(tc, a_large_one_lies_in_chunks_without_gaps);
	tcase_add_test(tc, large_ones_begin_on_a_page_and_take_no_more_for_it);
	tcase_add_loop_test(tc, the_pitch_and_its_errors_are_the_drivers, 0,
			    COUNT(pitches));
	tcase_add_test(tc,
		a_pitch_without_a_place_to_put_it_is_refused_as_by_the_driver);
	tcase_add_loop_test(tc,
	what_cannot_be_had_is_refused_as_by_the_driver_without_a_trace, 0,
		COUNT(impossible));
	tcase_add_loop_test(tc,
	running_short_at_any_step_of_a_request_leaves_no_trace, 1,
		STEPS);
	tcase_add_loop_test(tc,
	an_unknown_error_makes_an_allocation_native_and_it_is_counted, 0,
		STEPS + 1);
	tcase_add_test(tc, a_device_without_mappings_has_native_memory);
	tcase_add_test(tc,
		a_full_card_at_the_first_allocation_is_not_taken_for_a_lack);
	tcase_add_test(tc,
		addresses_come_back_from_two_hundred_thousand_allocations);
	tcase_add_test(tc, memory_is_on_the_device_of_the_context);
}

int main(void)
{
	return fixture_main("allocator", fill);
}
