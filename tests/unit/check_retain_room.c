/* SPDX-License-Identifier: Apache-2.0 */
/* When retained backups go: asked to, for others, or as memory is scarce. */
#include <config.h>

#include "retain_fixture.h"

#include "backup/store.h"
#include "base/config.h"
#include "base/lock.h"
#include "memory/allocator.h"
#include "sleep/gate.h"
#include "sleep/retain.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

/* Host memory for one of two tags. */
START_TEST(a_sleep_without_room_takes_what_other_tags_retain)
{
	CUdeviceptr a, b;

	retain_begin("yes", "");
	a = fixture_alloc("a", LARGE);
	b = fixture_alloc("b", LARGE);
	vs_config.host_limit = 9 * PAGE;
	retain_sleep(1, "a");
	retain_wake(NULL);
	retain_assert_held(LARGE, LARGE);
	retain_sleep(1, "b");
	retain_assert_moved(LARGE, 0, 0);
	retain_assert_held(LARGE, 0);
	retain_wake(NULL);
	fixture_assert_filled(a, LARGE);
	fixture_assert_filled(b, LARGE);
	retain_assert_held(LARGE, LARGE);
	retain_sleep(1, "b");
	retain_assert_moved(0, LARGE, 0);
	retain_wake(NULL);
}
END_TEST

START_TEST(what_sleeps_is_not_given_back_for_another_sleep)
{
	CUdeviceptr a, b;

	retain_begin("yes", "");
	a = fixture_alloc("a", LARGE);
	b = fixture_alloc("b", LARGE);
	vs_config.host_limit = 9 * PAGE;
	retain_sleep(1, "a");
	retain_reply = fixture_sleep(1, "b");
	ck_assert_int_eq(retain_reply.status, VS_NOHOST);
	ck_assert_int_eq(retain_reply.ledger.state, VS_PARTLY);
	retain_assert_held(LARGE, 0);
	fixture_assert_filled(b, LARGE);
	retain_wake(NULL);
	fixture_assert_filled(a, LARGE);
	fixture_assert_filled(b, LARGE);
}
END_TEST

/* What the sleep itself could have used is no room for it. */
START_TEST(a_sleep_that_is_refused_for_want_of_room_loses_nothing)
{
	CUdeviceptr a, b;

	retain_begin("yes", "");
	a = fixture_alloc("a", LARGE);
	b = fixture_alloc("b", LARGE);
	vs_config.host_limit = 9 * PAGE;
	retain_sleep(1, "a");
	retain_wake(NULL);
	byte(a)[0] ^= 1;
	retain_reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(retain_reply.status, VS_NOHOST);
	ck_assert_int_eq(retain_reply.ledger.state, VS_AWAKE);
	ck_assert_int_eq(retain_failed, 1);
	ck_assert_int_eq(retain_lost, 0);
	retain_assert_held(LARGE - PAGE, LARGE - PAGE);
	byte(a)[0] ^= 1;
	fixture_assert_filled(a, LARGE);
	fixture_assert_filled(b, LARGE);
	retain_sleep(1, "a");
	retain_wake(NULL);
	fixture_assert_filled(a, LARGE);
}
END_TEST

START_TEST(trim_gives_back_what_is_awake)
{
	retain_start("yes");
	ck_assert_uint_eq(retain_trim(), 0);
	retain_sleep(1, NULL);
	ck_assert_uint_eq(retain_trim(), 0);
	retain_assert_held(SOME + LARGE, 0);
	ck_assert_int_eq(retain_reply.ledger.state, VS_ASLEEP);
	retain_wake(NULL);
	retain_assert_filled();
	ck_assert_uint_eq(retain_trim(), SOME + LARGE);
	retain_assert_nothing_held();
	ck_assert_int_eq(retain_reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(retain_reply.ledger.retained_bytes, 0);
	ck_assert_uint_eq(retain_trim(), 0);
	retain_assert_filled();
	retain_sleep(1, NULL);
	retain_assert_moved(SOME + LARGE, 0, 0);
	retain_wake(NULL);
	retain_assert_filled();
	retain_end();
}
END_TEST

START_TEST(trim_of_one_that_sleeps_partly_leaves_what_sleeps)
{
	CUdeviceptr other;

	retain_start("yes");
	other = fixture_alloc("other", LARGE);
	retain_sleep(1, NULL);
	retain_wake("other");
	retain_assert_held(SOME + 2 * LARGE, LARGE);
	ck_assert_uint_eq(retain_trim(), LARGE);
	ck_assert_int_eq(retain_reply.ledger.state, VS_PARTLY);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	retain_assert_held(SOME + LARGE, 0);
	retain_wake(NULL);
	retain_assert_filled();
	fixture_assert_filled(other, LARGE);
}
END_TEST

/* Until so much is in host memory. */
static void wait_held(size_t bytes)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (vs_store_bytes() != bytes)
		nanosleep(&moment, NULL);
}

static void wait_looks(int count)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int from = atomic_load(&retain_looks);

	while (atomic_load(&retain_looks) < from + count)
		nanosleep(&moment, NULL);
}

START_TEST(what_is_retained_goes_back_once_host_memory_is_scarce)
{
	retain_start("auto");
	retain_sleep(1, NULL);
	retain_wake(NULL);
	wait_looks(2);
	retain_assert_held(SOME + LARGE, SOME + LARGE);
	/* When the next look is due. */
	ck_assert(vs_retain_watch() < vs_lock_now() + 1);
	atomic_store(&retain_scarce, true);
	wait_held(0);
	retain_tidy_up();
	retain_assert_nothing_held();
	retain_assert_filled();
	/* And at once where it is so already, but never what sleeps. */
	retain_sleep(1, NULL);
	retain_assert_moved(SOME + LARGE, 0, 0);
	ck_assert_uint_eq(retain_trim(), 0);
	retain_assert_held(SOME + LARGE, 0);
	retain_wake(NULL);
	wait_held(0);
	retain_assert_filled();
	atomic_store(&retain_scarce, false);
	retain_sleep(1, NULL);
	retain_wake(NULL);
	wait_looks(2);
	retain_assert_held(SOME + LARGE, SOME + LARGE);
}
END_TEST

START_TEST(scarce_memory_takes_nothing_of_what_sleeps_beside)
{
	CUdeviceptr other;

	retain_start("auto");
	other = fixture_alloc("other", LARGE);
	retain_sleep(1, NULL);
	retain_wake("other");
	wait_looks(1);
	atomic_store(&retain_scarce, true);
	wait_held(SOME + LARGE);
	retain_assert_held(SOME + LARGE, 0);
	retain_wake(NULL);
	retain_assert_filled();
	fixture_assert_filled(other, LARGE);
}
END_TEST

START_TEST(told_to_retain_it_does_not_look_at_the_machine)
{
	retain_start("yes");
	atomic_store(&retain_scarce, true);
	retain_sleep(1, NULL);
	retain_wake(NULL);
	retain_tidy_up();
	retain_assert_held(SOME + LARGE, SOME + LARGE);
	ck_assert_int_eq(atomic_load(&retain_looks), 0);
}
END_TEST

static atomic_bool enough;

/* Whoever asks for status. */
static void *ask_on(void *unused)
{
	while (!atomic_load(&enough))
		ck_assert_uint_le(fixture_ledger().retained_bytes,
				  SOME + 3 * LARGE);
	return unused;
}

/* The program: memory that may be asleep is not touched. */
static void *allocate_on(void *unused)
{
	CUdeviceptr base;
	unsigned i;

	fixture_current(fixture_context);
	for (i = 0; !atomic_load(&enough); i++) {
		ck_ok(vs_allocator_alloc(&base, i & 1 ? LARGE : MIB));
		sched_yield();
		ck_ok(vs_allocator_free(base));
	}
	return unused;
}

/* One of the copies fails; what has come meanwhile may sleep too. */
static void cycle(unsigned nth)
{
	sim_fail("cuMemcpyDtoHAsync_v2", nth, CUDA_ERROR_UNKNOWN);
	fixture_sleep(1, NULL);
	sim_fail_clear();
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	retain_assert_filled();
	byte(retain_large)[nth * PAGE] ^= 1;
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	byte(retain_large)[nth * PAGE] ^= 1;
	retain_assert_filled();
}

START_TEST(backups_come_and_go_under_a_program_and_questions)
{
	struct vs_request request = { .verb = VS_VERB_TRIM };
	pthread_t asker, program;
	unsigned i;

	retain_start("yes");
	ck_assert_int_eq(vs_tag_mark("other", NULL), VS_OK);
	ck_assert_int_eq(pthread_create(&asker, NULL, ask_on, NULL), 0);
	ck_assert_int_eq(pthread_create(&program, NULL, allocate_on, NULL), 0);
	for (i = 1; i < 8; i++) {
		cycle(i);
		if (i % 3 == 0)
			ck_assert_int_eq(fixture_ask(&request).status, VS_OK);
	}
	atomic_store(&enough, true);
	ck_assert_int_eq(pthread_join(asker, NULL), 0);
	ck_assert_int_eq(pthread_join(program, NULL), 0);
	ck_assert_int_eq(retain_lost, 0);
	retain_end();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_sleep_without_room_takes_what_other_tags_retain);
	tcase_add_test(tc, what_sleeps_is_not_given_back_for_another_sleep);
	tcase_add_test(tc,
		a_sleep_that_is_refused_for_want_of_room_loses_nothing);
	tcase_add_test(tc, trim_gives_back_what_is_awake);
	tcase_add_test(tc,
		trim_of_one_that_sleeps_partly_leaves_what_sleeps);
	tcase_add_test(tc,
		what_is_retained_goes_back_once_host_memory_is_scarce);
	tcase_add_test(tc,
		scarce_memory_takes_nothing_of_what_sleeps_beside);
	tcase_add_test(tc,
		backups_come_and_go_under_a_program_and_questions);
	tcase_add_test(tc, told_to_retain_it_does_not_look_at_the_machine);
}

int main(void)
{
	return fixture_main("retain_room", fill);
}
