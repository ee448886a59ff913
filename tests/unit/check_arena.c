/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/vmm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MANY 20000
#define SLACK (32 * MIB)	/* more than the driver's own may be used */
#define SPARE (4 * MIB)		/* an arena may keep for the next request */

static CUdeviceptr bases[MANY];

/* Device memory that is not filled first: many tests here have much of it. */
static void start(void)
{
	setenv("VSLEEP_SIM_DIRTY", "0", 1);
	fixture_start("default", "");
}

/* The number of an allocation stands in its first bytes and its last ones. */
static void sign(CUdeviceptr base, size_t size, uint32_t number)
{
	memcpy((void *)(uintptr_t)base, &number, 4);
	memcpy((char *)(uintptr_t)base + size - 4, &number, 4);
}

static void assert_signed(CUdeviceptr base, size_t size, uint32_t number)
{
	uint32_t first, last;

	memcpy(&first, (void *)(uintptr_t)base, 4);
	memcpy(&last, (char *)(uintptr_t)base + size - 4, 4);
	ck_assert_uint_eq(first, number);
	ck_assert_uint_eq(last, number);
}

static size_t native_cost(size_t size)
{
	size_t used;
	int i;

	for (i = 0; i < MANY; i++)
		ck_ok(vs_real.cuMemAlloc_v2(&bases[i], size));
	used = sim_used(0);
	for (i = 0; i < MANY; i++)
		ck_ok(vs_real.cuMemFree_v2(bases[i]));
	ck_assert_uint_eq(sim_used(0), 0);
	return used;
}

static const size_t small_sizes[] = { 512, 4096 };	/* bytes */

/* _i: the size. */
START_TEST(many_small_ones_cost_little_more_than_the_drivers_own)
{
	size_t size = small_sizes[_i], native, used;
	int i;

	start();
	native = native_cost(size);
	for (i = 0; i < MANY; i++) {
		ck_ok(vs_allocator_alloc(&bases[i], size));
		sign(bases[i], size, (uint32_t)i);
	}
	used = sim_used(0);
	ck_assert_uint_le(used, native + SLACK);
	for (i = 0; i < MANY; i += 2)
		ck_ok(vs_allocator_free(bases[i]));
	for (i = 1; i < MANY; i += 2)
		assert_signed(bases[i], size, (uint32_t)i);
	ck_assert_uint_eq(fixture_ledger().live_bytes, MANY / 2 * size);
	for (i = 0; i < MANY; i += 2) {
		ck_ok(vs_allocator_alloc(&bases[i], size));
		sign(bases[i], size, (uint32_t)i);
	}
	ck_assert_uint_le(sim_used(0), used);
	for (i = 0; i < MANY; i++) {
		assert_signed(bases[i], size, (uint32_t)i);
		ck_ok(vs_allocator_free(bases[i]));
	}
	fixture_later();
	ck_assert_uint_le(sim_used(0), SPARE);
	fixture_assert_empty();
}
END_TEST

START_TEST(interior_addresses_of_small_ones_are_found)
{
	const size_t size = 3000;
	struct vs_block *block;
	size_t at;
	int i;

	start();
	for (i = 0; i < 2000; i++)
		ck_ok(vs_allocator_alloc(&bases[i], size));
	for (i = 0; i < 2000; i += 3)
		ck_ok(vs_allocator_free(bases[i]));
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < 2000; i++)
		for (at = 0; at < size; at += 499) {
			block = vs_segment_find_inside(bases[i] + at);
			if (i % 3 == 0)
				ck_assert_ptr_null(block);
			else
				ck_assert(block && block->base == bases[i]);
		}
	vs_lock_drop(&vs_segment_lock);
}
END_TEST

START_TEST(a_spare_is_used_before_the_device_is_asked)
{
	size_t before, all, total;
	unsigned long creates;
	CUdeviceptr base;

	start();
	fixture_free(fixture_alloc("w", 3 * MIB));
	ck_assert_uint_eq(sim_used(0), 3 * MIB);
	ck_ok(vs_allocator_info(&before, &total));
	ck_assert_uint_eq(before, total);
	ck_ok(vs_real.cuMemGetInfo_v2(&all, &total));
	ck_assert_uint_eq(before - all, 3 * MIB);
	creates = sim_calls("cuMemCreate");
	base = fixture_alloc("w", 2 * MIB);
	ck_assert_uint_eq(sim_calls("cuMemCreate"), creates);
	ck_ok(vs_allocator_info(&before, &total));
	ck_assert_uint_eq(before, all);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* Larger ones have no spare: 16 MiB is the most that an arena takes. */
START_TEST(memory_goes_back_to_the_device_when_all_is_freed)
{
	CUdeviceptr own[8];
	int i;

	start();
	for (i = 0; i < 8; i++)
		own[i] = fixture_alloc("w", 15 * MIB);
	ck_assert_uint_ge(sim_used(0), 120 * MIB);
	for (i = 0; i < 8; i++)
		fixture_free(own[i]);
	fixture_later();
	ck_assert_uint_le(sim_used(0), SPARE);
	vs_arena_trim(0);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(fixture_sim().reservations, 0);
	fixture_assert_empty();
}
END_TEST

/* Memory for the request is there only where another tag has a spare. */
START_TEST(spares_go_back_when_the_device_runs_short)
{
	CUdeviceptr base;

	start();
	fixture_free(fixture_alloc("a", 3 * MIB));
	ck_assert_uint_eq(sim_used(0), 3 * MIB);
	sim_limit(0, 20 * MIB);
	base = fixture_alloc("b", 18 * MIB);
	ck_assert_uint_eq(sim_used(0), 18 * MIB);
	fixture_assert_filled(base, 18 * MIB);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* An arena grows by steps; one that cannot be had is made smaller. */
START_TEST(the_last_memory_of_the_device_can_be_had_in_small_pieces)
{
	size_t size = 100 * KIB;
	int count = 0;

	start();
	sim_limit(0, 20 * MIB);
	while (!vs_allocator_alloc(&bases[count], size)) {
		sign(bases[count], size, (uint32_t)count);
		count++;
	}
	ck_assert_uint_ge((size_t)count * size, 19 * MIB);
	while (count--) {
		assert_signed(bases[count], size, (uint32_t)count);
		ck_ok(vs_allocator_free(bases[count]));
	}
	fixture_assert_empty();
}
END_TEST

#define TAGS 3
#define EACH 200

static const char *const tags[TAGS] = { "weights", "kv", "scratch" };

static void assert_is_of(CUdeviceptr base, CUcontext context, const char *tag)
{
	struct vs_segment *s = fixture_segment(base);

	ck_assert_ptr_nonnull(s);
	ck_assert_ptr_eq(s->context, context);
	ck_assert_int_eq(s->tag, vs_tag_find(tag));
	ck_assert(base >= s->base && base < s->base + s->size);
}

START_TEST(neither_tags_nor_contexts_are_mixed)
{
	CUcontext contexts[3];
	int i, c, t;

	start();
	contexts[0] = fixture_context;
	contexts[1] = fixture_new_context(0);
	contexts[2] = fixture_new_context(1);
	for (i = 0; i < EACH * TAGS * 3; i++) {
		c = i % 3;
		t = i / 3 % TAGS;
		fixture_current(contexts[c]);
		bases[i] = fixture_alloc(tags[t], 700);
	}
	for (i = 0; i < EACH * TAGS * 3; i++)
		assert_is_of(bases[i], contexts[i % 3], tags[i / 3 % TAGS]);
	ck_assert_uint_eq(vs_segment_count(), 9);
	for (i = 0; i < EACH * TAGS * 3; i++) {
		fixture_assert_filled(bases[i], 700);
		fixture_free(bases[i]);
	}
	fixture_assert_empty();
}
END_TEST

#define STEPS 20000
#define LIVE 400

struct shadow {
	CUdeviceptr base;
	size_t size;
	uint32_t number;
};

/* From a few bytes to more than an arena takes, small ones most often. */
static size_t some_size(unsigned *seed)
{
	int power = 3 + rand_r(seed) % 17;
	size_t size = (size_t)1 << power;

	if (rand_r(seed) % 500 == 0)
		size = 18 * MIB;
	return size + 2 + (size_t)rand_r(seed) % size;
}

static int by_base(const void *a, const void *b)
{
	const struct shadow *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/* Sorted by address no allocation reaches into the next. */
static void assert_disjoint(struct shadow *live, int count)
{
	int i;

	qsort(live, (size_t)count, sizeof(*live), by_base);
	for (i = 1; i < count; i++)
		ck_assert_uint_le(live[i - 1].base + live[i - 1].size,
				  live[i].base);
}

static void assert_found(const struct shadow *live, int count)
{
	struct vs_block *block;
	int i;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < count; i++) {
		block = vs_segment_find_inside(live[i].base +
					       live[i].size / 2);
		ck_assert(block && block->base == live[i].base);
		block = vs_segment_find_inside(live[i].base +
					       live[i].size - 1);
		ck_assert(block && block->size == live[i].size);
	}
	vs_lock_drop(&vs_segment_lock);
}

/* _i: the seed. */
START_TEST(any_order_of_allocations_and_frees_keeps_them_apart)
{
	static struct shadow live[LIVE];
	unsigned seed = (unsigned)_i + 1;
	struct shadow *s;
	int step, count = 0;
	size_t bytes = 0;

	start();
	for (step = 0; step < STEPS; step++) {
		if (count < LIVE && rand_r(&seed) % 100 < 52) {
			s = &live[count];
			s->size = some_size(&seed);
			s->number = (uint32_t)step;
			if (vs_allocator_alloc(&s->base, s->size))
				continue;
			sign(s->base, s->size, s->number);
			bytes += s->size;
			count++;
		} else if (count) {
			s = &live[rand_r(&seed) % count];
			assert_signed(s->base, s->size, s->number);
			ck_ok(vs_allocator_free(s->base));
			bytes -= s->size;
			*s = live[--count];
		}
		if (step % 500 == 0) {
			assert_disjoint(live, count);
			assert_found(live, count);
			fixture_assert_sound();
			ck_assert_uint_eq(fixture_ledger().live_bytes, bytes);
			ck_assert_uint_eq(fixture_ledger().resident_bytes,
					  sim_used(0));
		}
	}
	while (count--) {
		s = &live[count];
		assert_signed(s->base, s->size, s->number);
		ck_ok(vs_allocator_free(s->base));
	}
	fixture_assert_empty();
}
END_TEST

#define THREADS 4
#define ROUNDS 3000
#define HELD 16

static void *come_and_go(void *arg)
{
	unsigned seed = *(unsigned *)arg, at;
	struct shadow held[HELD] = { { 0, 0, 0 } }, *s;
	int i;

	fixture_current(fixture_context);
	for (i = 0; i < ROUNDS + HELD; i++) {
		at = (i < ROUNDS ? (unsigned)rand_r(&seed) : (unsigned)i) %
		     HELD;
		s = &held[at];
		if (s->base) {
			assert_signed(s->base, s->size, s->number);
			ck_ok(vs_allocator_free(s->base));
			s->base = 0;
		} else if (i < ROUNDS) {
			s->size = some_size(&seed) % (2 * MIB) + 8;
			s->number = seed;
			ck_ok(vs_allocator_alloc(&s->base, s->size));
			ck_assert_ptr_nonnull(fixture_segment(s->base));
			sign(s->base, s->size, s->number);
		}
	}
	return NULL;
}

START_TEST(threads_that_come_and_go_at_once_keep_their_own)
{
	pthread_t threads[THREADS];
	unsigned seeds[THREADS];
	int i;

	start();
	for (i = 0; i < THREADS; i++) {
		seeds[i] = (unsigned)i + 7;
		pthread_create(&threads[i], NULL, come_and_go, &seeds[i]);
	}
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(fixture_ledger().allocations, 0);
	fixture_assert_empty();
}
END_TEST

static pthread_barrier_t barrier;

static void *take_one(void *base)
{
	fixture_current(fixture_context);
	pthread_barrier_wait(&barrier);
	ck_ok(vs_allocator_alloc(base, 64 * KIB));
	return NULL;
}

START_TEST(threads_that_need_the_first_memory_at_once_share_a_segment)
{
	CUdeviceptr taken[THREADS];
	pthread_t threads[THREADS];
	int i, round;

	start();
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (round = 0; round < 200; round++) {
		for (i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, take_one, &taken[i]);
		for (i = 0; i < THREADS; i++)
			ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		ck_assert_uint_eq(vs_segment_count(), 1);
		ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
		fixture_assert_sound();
		for (i = 0; i < THREADS; i++)
			fixture_free(taken[i]);
		vs_arena_trim(0);
		ck_assert_uint_eq(vs_segment_count(), 0);
	}
	fixture_assert_empty();
}
END_TEST

/* The driver refuses access, and then to undo the mapping. */
START_TEST(a_mapping_that_could_not_be_undone_goes_back_later)
{
	CUdeviceptr first, native;

	start();
	first = fixture_alloc("default", 4096);
	sim_fail("cuMemSetAccess", 1, CUDA_ERROR_UNKNOWN);
	sim_fail_from("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	ck_ok(vs_allocator_alloc(&native, 20 * MIB));
	ck_assert_ptr_null(fixture_segment(native));
	ck_assert_uint_gt(vs_vmm_stuck(), 0);
	sim_fail_clear();
	vs_vmm_retry();
	ck_assert_uint_eq(vs_vmm_stuck(), 0);
	fixture_free(native);
	fixture_free(first);
	vs_arena_trim(0);
	fixture_assert_empty();
}
END_TEST

START_TEST(an_arena_begins_with_few_addresses_and_gets_by_with_few)
{
	CUdeviceptr base = 0;
	struct vs_segment *s;
	int i;

	start();
	base = fixture_alloc("default", 4096);
	s = fixture_segment(base);
	ck_assert_uint_eq(s->size, 64 * MIB);
	sim_fail("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; fixture_segment(base) == s; i++) {
		ck_assert_int_lt(i, 100);
		base = fixture_alloc("default", MIB);
	}
	ck_assert_ptr_nonnull(fixture_segment(base));
	ck_assert_uint_eq(fixture_segment(base)->size, 64 * MIB);
	fixture_assert_sound();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
		       a_mapping_that_could_not_be_undone_goes_back_later);
	tcase_add_test(tc,
		an_arena_begins_with_few_addresses_and_gets_by_with_few);
	tcase_add_loop_test(tc,
		many_small_ones_cost_little_more_than_the_drivers_own, 0, 2);
	tcase_add_test(tc, interior_addresses_of_small_ones_are_found);
	tcase_add_test(tc, a_spare_is_used_before_the_device_is_asked);
	tcase_add_test(tc, memory_goes_back_to_the_device_when_all_is_freed);
	tcase_add_test(tc, spares_go_back_when_the_device_runs_short);
	tcase_add_test(tc,
		the_last_memory_of_the_device_can_be_had_in_small_pieces);
	tcase_add_test(tc, neither_tags_nor_contexts_are_mixed);
	tcase_add_loop_test(tc,
		any_order_of_allocations_and_frees_keeps_them_apart, 0, 3);
	tcase_add_test(tc, threads_that_come_and_go_at_once_keep_their_own);
	tcase_add_test(tc,
		threads_that_need_the_first_memory_at_once_share_a_segment);
}

int main(void)
{
	return fixture_main("arena", fill);
}
