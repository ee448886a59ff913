/* SPDX-License-Identifier: Apache-2.0 */
/* Backups that stay after a wake: what they save, and what becomes of them. */
#include <config.h>

#include "retain_fixture.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "memory/arena.h"
#include "memory/detach.h"

#include <stdlib.h>
#include <string.h>

static const char *const modes[] = { "auto", "yes" };

/* _i: the mode. */
START_TEST(a_second_sleep_copies_what_has_changed)
{
	retain_start(modes[_i]);
	retain_sleep(1, NULL);
	retain_assert_moved(SOME + LARGE, 0, 0);
	retain_assert_held(SOME + LARGE, 0);
	retain_wake(NULL);
	retain_tidy_up();
	retain_assert_held(SOME + LARGE, SOME + LARGE);
	retain_assert_filled();
	sim_calls_reset();
	retain_sleep(1, NULL);
	retain_assert_moved(0, SOME + LARGE, 0);
	retain_assert_held(SOME + LARGE, 0);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(sim_calls("cuMemHostRegister_v2"), 0);
	retain_wake(NULL);
	retain_assert_filled();
	byte(retain_large + LARGE)[-1] ^= 1;
	byte(retain_some)[0] ^= 1;
	retain_sleep(1, NULL);
	retain_assert_moved(PAGE + MIB, SOME + LARGE - PAGE - MIB, 0);
	retain_wake(NULL);
	byte(retain_large + LARGE)[-1] ^= 1;
	byte(retain_some)[0] ^= 1;
	retain_assert_filled();
	retain_end();
}
END_TEST

START_TEST(pages_that_become_zero_give_their_host_memory_back)
{
	retain_start("yes");
	retain_sleep(1, NULL);
	retain_wake(NULL);
	memset(byte(retain_large), 0, 2 * PAGE);
	retain_sleep(1, NULL);
	retain_assert_moved(0, SOME + LARGE - 2 * PAGE, 2 * PAGE);
	retain_assert_held(SOME + LARGE - 2 * PAGE, 0);
	retain_wake(NULL);
	fixture_assert_zero(retain_large, 2 * PAGE);
	fixture_assert_filled(retain_large + 2 * PAGE, LARGE - 2 * PAGE);
	fixture_assert_filled(retain_some, SOME);
	memset(byte(retain_large), 1, 1);
	retain_sleep(1, NULL);
	retain_assert_moved(PAGE, SOME + LARGE - 2 * PAGE, PAGE);
	retain_wake(NULL);
	ck_assert_uint_eq(byte(retain_large)[0], 1);
	fixture_assert_zero(retain_large + 1, 2 * PAGE - 1);
	fixture_assert_filled(retain_large + 2 * PAGE, LARGE - 2 * PAGE);
}
END_TEST

START_TEST(a_dry_run_asks_host_memory_for_what_has_none)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000, .dry_run = true,
	};

	retain_start("yes");
	retain_reply = fixture_ask(&request);
	ck_assert_uint_ge(retain_reply.outlook.host_bytes, SOME + LARGE);
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_reply = fixture_ask(&request);
	ck_assert_uint_eq(retain_reply.outlook.host_bytes, 0);
	retain_assert_held(SOME + LARGE, SOME + LARGE);
	fixture_alloc("other", LARGE);
	retain_reply = fixture_ask(&request);
	ck_assert_uint_eq(retain_reply.outlook.host_bytes, 9 * PAGE);
}
END_TEST

START_TEST(where_nothing_is_retained_all_is_given_back_and_copied_again)
{
	int cycle;

	retain_start("no");
	for (cycle = 0; cycle < 3; cycle++) {
		retain_sleep(1, NULL);
		retain_assert_moved(SOME + LARGE, 0, 0);
		retain_wake(NULL);
		retain_tidy_up();
		retain_assert_nothing_held();
		retain_assert_filled();
	}
	ck_assert_uint_eq(retain_trim(), 0);
	ck_assert_int_eq(atomic_load(&retain_looks), 0);
}
END_TEST

/* A sleep that fails has no wake. */
START_TEST(nor_does_a_sleep_that_fails_leave_anything)
{
	retain_start("no");
	sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_CUDA);
	retain_tidy_up();
	retain_assert_nothing_held();
	retain_assert_filled();
}
END_TEST

enum { LEVEL, DEEPER, POLICY, WAYS };

/* _i: by level 2, by level 2 after level 1, by a policy that is new. */
START_TEST(what_is_dropped_is_zero_and_has_no_backup)
{
	CUdeviceptr other;

	retain_start("yes");
	other = fixture_alloc("other", LARGE);
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_assert_held(SOME + 2 * LARGE, SOME + 2 * LARGE);
	if (_i == POLICY)
		ck_assert_int_eq(vs_tag_set_policy("w", VS_POLICY_DISCARD,
						   NULL), VS_OK);
	if (_i == DEEPER)
		retain_sleep(1, "w");
	retain_sleep(_i == POLICY ? 1 : 2, "w");
	ck_assert_uint_eq(retain_reply.ledger.last.lost_bytes, SOME + LARGE);
	retain_assert_held(LARGE, LARGE);
	retain_wake(NULL);
	fixture_assert_zero(retain_some, SOME);
	fixture_assert_zero(retain_large, LARGE);
	fixture_assert_filled(other, LARGE);
	retain_assert_held(LARGE, LARGE);
	/* Nor does what was there once come back later. */
	ck_assert_int_eq(vs_tag_set_policy("w", VS_POLICY_OFFLOAD, NULL),
			 VS_OK);
	retain_sleep(1, NULL);
	retain_assert_moved(0, LARGE, SOME + LARGE);
	retain_wake(NULL);
	fixture_assert_zero(retain_some, SOME);
	fixture_assert_zero(retain_large, LARGE);
	fixture_fill(retain_large, LARGE);
	retain_sleep(1, NULL);
	retain_assert_moved(LARGE, LARGE, SOME);
	retain_wake(NULL);
	fixture_assert_zero(retain_some, SOME);
	fixture_assert_filled(retain_large, LARGE);
	fixture_assert_filled(other, LARGE);
}
END_TEST

/* _i: the copy that fails.  Each page is new, so nothing of the backups can
 * be used. */
START_TEST(a_copy_that_fails_leaves_no_stale_page)
{
	int i;

	retain_start("yes");
	retain_sleep(1, NULL);
	retain_wake(NULL);
	for (i = 0; i < 9; i++)
		byte(retain_large)[i * PAGE] ^= 1;
	for (i = 0; i < 3; i++)
		byte(retain_some)[i * PAGE] ^= 1;
	sim_fail("cuMemcpyDtoHAsync_v2", (unsigned)_i, CUDA_ERROR_UNKNOWN);
	retain_reply = fixture_sleep(1, NULL);
	sim_fail_clear();
	if (retain_reply.status) {	/* the first is that of the sums */
		ck_assert_int_eq(retain_reply.status, VS_CUDA);
		ck_assert_int_eq(retain_reply.ledger.state, VS_AWAKE);
		ck_assert_int_eq(retain_failed, 1);
		ck_assert_int_eq(retain_lost, 0);
		retain_sleep(1, NULL);
	}
	retain_wake(NULL);
	for (i = 0; i < 9; i++)
		byte(retain_large)[i * PAGE] ^= 1;
	for (i = 0; i < 3; i++)
		byte(retain_some)[i * PAGE] ^= 1;
	retain_assert_filled();
	retain_end();
}
END_TEST

START_TEST(freed_memory_gives_its_backup_back)
{
	CUdeviceptr small[8];
	int i;

	retain_start("yes");
	for (i = 0; i < 8; i++)
		small[i] = fixture_alloc("small", 4 * MIB);
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_assert_held(SOME + LARGE + 32 * MIB, SOME + LARGE + 32 * MIB);
	fixture_free(retain_large);
	fixture_later();
	retain_assert_held(SOME + 32 * MIB, SOME + 32 * MIB);
	/* The arena keeps a chunk that is as large as it may. */
	for (i = 0; i < 8; i++)
		fixture_free(small[i]);
	fixture_later();
	ck_assert_uint_le(vs_store_bytes(), SOME + 4 * MIB);
	vs_arena_trim(0);
	retain_assert_held(SOME, SOME);
	retain_sleep(1, NULL);
	retain_assert_moved(0, SOME, 0);
	retain_wake(NULL);
	fixture_assert_filled(retain_some, SOME);
	retain_large = 0;
	retain_end();
}
END_TEST

/* The spare is mapped where it was, and has its backup still. */
START_TEST(what_takes_the_place_of_freed_memory_has_its_own_bytes)
{
	CUdeviceptr again;

	retain_start("yes");
	retain_sleep(1, NULL);
	retain_wake(NULL);
	fixture_free(retain_large);
	again = fixture_alloc("w", LARGE);
	ck_assert_uint_eq(again, retain_large);
	memset(byte(again) + PAGE, 7, PAGE);
	retain_sleep(1, NULL);
	retain_assert_moved(PAGE, SOME + LARGE - PAGE, 0);
	retain_wake(NULL);
	ck_assert_uint_eq(byte(again)[PAGE], 7);
	ck_assert_mem_eq(byte(again) + PAGE, byte(again) + PAGE + 1, PAGE - 1);
	fixture_fill(again + PAGE, PAGE);
	retain_assert_filled();
}
END_TEST

START_TEST(memory_freed_while_asleep_leaves_no_backup)
{
	retain_start("yes");
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_sleep(1, NULL);
	fixture_free(retain_large);
	retain_assert_held(SOME, 0);
	retain_wake(NULL);
	fixture_assert_filled(retain_some, SOME);
	retain_large = 0;
	retain_end();
}
END_TEST

/* _i: which of two goes; host memory was pinned in one of them. */
START_TEST(what_a_context_retained_goes_with_it_and_all_else_stays)
{
	struct vs_detached *detached;
	CUcontext contexts[2];
	CUdeviceptr bases[2];
	int i;

	retain_begin("yes", "");
	for (i = 0; i < 2; i++) {
		contexts[i] = fixture_new_context(0);
		bases[i] = fixture_alloc("w", LARGE);
	}
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_assert_held(2 * LARGE, 2 * LARGE);
	fixture_current(fixture_context);
	detached = vs_detach_take(contexts[_i], 0);
	ck_assert_ptr_nonnull(detached);
	ck_ok(vs_real.cuCtxDestroy_v2(contexts[_i]));
	vs_detach_drop(detached);
	retain_assert_held(LARGE, LARGE);
	fixture_assert_filled(bases[!_i], LARGE);
	byte(bases[!_i])[PAGE] ^= 1;
	retain_sleep(1, NULL);
	retain_assert_moved(PAGE, LARGE - PAGE, 0);
	retain_wake(NULL);
	byte(bases[!_i])[PAGE] ^= 1;
	fixture_assert_filled(bases[!_i], LARGE);
	ck_assert_uint_eq(retain_trim(), LARGE);
	retain_assert_nothing_held();
}
END_TEST

/* The program's memory, and beside it what it should be. */
#define SLOTS 6
static struct slot {
	CUdeviceptr base;
	size_t size;
	unsigned char *shadow;
} slots[SLOTS];

static uint64_t random_state;

static size_t random_below(size_t n)
{
	uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (size_t)((x ^ x >> 31) % n);
}

/* Some bytes are other ones, or zero. */
static void change(struct slot *s)
{
	size_t at = random_below(s->size);
	size_t size = random_below(s->size - at) + 1;
	int value = random_below(2) ? 0 : (int)random_below(256);

	memset(s->shadow + at, value, size);
	memset(byte(s->base + at), value, size);
}

static void take(struct slot *s)
{
	static const char *const tags[] = { "w", "v" };

	s->size = random_below(3) ? random_below(5 * MIB) + 1 :
				    16 * MIB + random_below(3 * MIB);
	s->shadow = malloc(s->size);
	ck_assert_ptr_nonnull(s->shadow);
	s->base = fixture_alloc(tags[random_below(2)], s->size);
	memcpy(s->shadow, byte(s->base), s->size);
}

static void give(struct slot *s)
{
	fixture_free(s->base);
	free(s->shadow);
	s->shadow = NULL;
}

static void go_on(void)
{
	int i, k;

	for (i = 0; i < SLOTS; i++) {
		if (!slots[i].shadow) {
			take(&slots[i]);
			continue;
		}
		switch (random_below(6)) {
		case 0:
			give(&slots[i]);
			break;
		case 1:
			give(&slots[i]);
			take(&slots[i]);
			break;
		case 2:
		case 3:
			for (k = 0; k < 3; k++)
				change(&slots[i]);
			break;
		}
	}
}

static void assert_slots(void)
{
	struct slot *s;

	for (s = slots; s < slots + SLOTS; s++)
		ck_assert_msg(!s->shadow || !memcmp(s->shadow, byte(s->base),
						    s->size),
			      "%zu bytes at 0x%llx are other ones", s->size,
			      s->base);
}

/* All of it, or one tag and then the other one too. */
static void cycle(void)
{
	bool parts = random_below(3) == 0;
	struct vs_ledger_last *last = &retain_reply.ledger.last;

	retain_sleep(1, parts ? "w" : NULL);
	ck_assert_uint_eq(last->copied_bytes + last->unchanged_bytes +
			  last->zero_bytes, last->released_bytes);
	if (parts)
		retain_sleep(1, NULL);
	ck_assert_uint_eq(sim_used(0), 0);
	if (!slots[0].shadow)
		take(&slots[0]);
	else if (random_below(4) == 0)
		give(&slots[0]);
	if (parts)
		retain_wake("v");
	if (random_below(4) == 0)
		retain_trim();
	retain_wake(NULL);
}

/* _i: the mode; in the second one a chunk has several pages, the last of them
 * not whole. */
START_TEST(every_byte_is_right_through_many_cycles)
{
	int i;

	retain_begin(modes[_i], "");
	random_state = (uint64_t)_i;
	vs_segment_chunk = _i ? 7 * MIB + 64 * KIB : 2 * MIB;
	fixture_alloc("w", 1);
	fixture_alloc("v", 1);
	for (i = 0; i < SLOTS; i++)
		take(&slots[i]);
	for (i = 0; i < 20; i++) {
		cycle();
		assert_slots();
		go_on();
	}
	assert_slots();
	for (i = 0; i < SLOTS; i++)
		if (slots[i].shadow)
			give(&slots[i]);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_second_sleep_copies_what_has_changed, 0, 2);
	tcase_add_test(tc,
		pages_that_become_zero_give_their_host_memory_back);
	tcase_add_test(tc, a_dry_run_asks_host_memory_for_what_has_none);
	tcase_add_test(tc,
	where_nothing_is_retained_all_is_given_back_and_copied_again);
	tcase_add_test(tc, nor_does_a_sleep_that_fails_leave_anything);
	tcase_add_loop_test(tc, what_is_dropped_is_zero_and_has_no_backup, 0,
			    WAYS);
	tcase_add_loop_test(tc, a_copy_that_fails_leaves_no_stale_page, 1, 14);
	tcase_add_test(tc, freed_memory_gives_its_backup_back);
	tcase_add_test(tc,
		what_takes_the_place_of_freed_memory_has_its_own_bytes);
	tcase_add_test(tc, memory_freed_while_asleep_leaves_no_backup);
	tcase_add_loop_test(tc,
		what_a_context_retained_goes_with_it_and_all_else_stays, 0, 2);
	tcase_add_loop_test(tc, every_byte_is_right_through_many_cycles, 0, 2);
}

int main(void)
{
	return fixture_main("retain", fill);
}
