/* SPDX-License-Identifier: Apache-2.0 */
/* What sleeps and wakes do to tags, policies and levels. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "memory/allocator.h"
#include "sleep/gate.h"

#include <string.h>

#define SOME (5 * MIB)		/* all of its tag's arena */
#define LARGE (17 * MIB)	/* a segment of its own */

static struct vs_reply reply;

static void start(const char *tags)
{
	fixture_start("default", tags);
}

static void assert_asleep(void)
{
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	fixture_assert_sound();
}

/* Awake, with so many bytes of the driver's own. */
static void assert_awake_but(size_t native)
{
	struct vs_ledger l = fixture_ledger();

	ck_assert_int_eq(l.state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(l.evicted_bytes, 0);
	ck_assert_uint_eq(l.host_bytes, 0);
	ck_assert_uint_eq(l.resident_bytes + native, sim_used(0));
	fixture_assert_sound();
}

static void assert_awake(void)
{
	assert_awake_but(0);
}

static void sleep_ok(int level, const char *tags)
{
	reply = fixture_sleep(level, tags);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
}

static void wake_ok(const char *tags)
{
	reply = fixture_wake(tags);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
}

/* What the operation thread puts off until it has replied is done. */
static void let_it_tidy_up(void)
{
	wake_ok(NULL);
}

START_TEST(replies_state_what_moved)
{
	CUdeviceptr base, large;
	size_t used;

	start("");
	base = fixture_alloc("w", SOME);
	large = fixture_alloc("w", LARGE);
	used = sim_used(0);
	ck_assert_uint_eq(used, SOME + LARGE);
	sleep_ok(1, NULL);
	assert_asleep();
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_assert_uint_eq(fixture_sim().mappings, 0);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, used);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, used);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, 0);
	ck_assert_uint_eq(reply.ledger.last.lost_bytes, 0);
	ck_assert_uint_eq(reply.ledger.evicted_bytes, used);
	ck_assert_uint_eq(reply.ledger.host_bytes, used);
	ck_assert_uint_eq(reply.ledger.resident_bytes, 0);
	ck_assert_uint_eq(reply.ledger.live_bytes, SOME + LARGE);
	ck_assert_uint_eq(reply.ledger.sequence, 1);
	ck_assert(reply.ledger.last.seconds > 0);
	ck_assert(reply.ledger.last.drain_seconds <=
		  reply.ledger.last.seconds);
	wake_ok(NULL);
	assert_awake();
	ck_assert_uint_eq(reply.ledger.last.restored_bytes, used);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, used);
	ck_assert_uint_eq(reply.ledger.sequence, 2);
	fixture_assert_filled(base, SOME);
	fixture_assert_filled(large, LARGE);
	let_it_tidy_up();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	fixture_free(base);
	fixture_free(large);
	fixture_assert_empty();
}
END_TEST

START_TEST(the_same_request_again_succeeds_and_does_nothing)
{
	unsigned long copies, fills;
	CUdeviceptr base;

	start("");
	base = fixture_alloc("w", SOME);
	sleep_ok(1, NULL);
	copies = sim_calls("cuMemcpyDtoHAsync_v2");
	sleep_ok(1, NULL);
	sleep_ok(1, "w");
	ck_assert_uint_eq(sim_calls("cuMemcpyDtoHAsync_v2"), copies);
	ck_assert_uint_eq(reply.ledger.sequence, 1);
	assert_asleep();
	wake_ok(NULL);
	fills = sim_calls("cuMemcpyHtoDAsync_v2");
	wake_ok(NULL);
	ck_assert_uint_eq(sim_calls("cuMemcpyHtoDAsync_v2"), fills);
	ck_assert_uint_eq(reply.ledger.sequence, 2);
	fixture_assert_filled(base, SOME);
	assert_awake();
}
END_TEST

START_TEST(with_nothing_allocated_sleep_and_wake_succeed)
{
	start("");
	sleep_ok(1, NULL);
	assert_asleep();
	ck_assert_uint_eq(reply.ledger.last.released_bytes, 0);
	wake_ok(NULL);
	assert_awake();
	fixture_assert_empty();
}
END_TEST

START_TEST(without_any_tag_the_program_is_held_all_the_same)
{
	fixture_start("", "");
	sleep_ok(1, NULL);
	assert_asleep();
	sleep_ok(1, NULL);
	ck_assert_uint_eq(reply.ledger.sequence, 1);
	wake_ok(NULL);
	assert_awake();
}
END_TEST

START_TEST(with_all_tags_asleep_but_those_to_keep_the_process_is_asleep)
{
	fixture_start("w", "scratch=keep");
	fixture_alloc("w", SOME);
	fixture_alloc("scratch", SOME);
	sleep_ok(1, "w");
	assert_asleep();
	wake_ok("w");
	assert_awake();
}
END_TEST

START_TEST(tags_sleep_and_wake_one_by_one)
{
	CUdeviceptr w, kv;
	struct vs_ledger_tag *tag;

	start("");
	w = fixture_alloc("w", SOME);
	kv = fixture_alloc("kv", LARGE);
	sleep_ok(1, "w");
	ck_assert_int_eq(reply.ledger.state, VS_PARTLY);
	tag = &reply.ledger.tags[vs_tag_find("w")];
	ck_assert_int_eq(tag->state, VS_ASLEEP);
	ck_assert_uint_eq(tag->evicted_bytes, SOME);
	ck_assert_uint_eq(tag->resident_bytes, 0);
	tag = &reply.ledger.tags[vs_tag_find("kv")];
	ck_assert_int_eq(tag->state, VS_AWAKE);
	ck_assert_uint_eq(tag->resident_bytes, LARGE);
	ck_assert_uint_eq(sim_used(0), LARGE);
	fixture_assert_filled(kv, LARGE);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	sleep_ok(1, "kv");
	ck_assert_uint_eq(sim_used(0), 0);
	wake_ok("w");
	ck_assert_uint_eq(sim_used(0), SOME);
	fixture_assert_filled(w, SOME);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	wake_ok("kv");
	fixture_assert_filled(kv, LARGE);
	assert_awake();
}
END_TEST

/* Copied, dropped and kept ones of all sizes, two freed while asleep. */
START_TEST(what_is_freed_while_asleep_is_gone_with_its_backup)
{
	CUdeviceptr a, b, c, d, kept;
	size_t host, pinned;

	start("kv=discard,scratch=keep");
	a = fixture_alloc("w", 3000);
	b = fixture_alloc("w", LARGE);
	c = fixture_alloc("w", LARGE + 5);
	d = fixture_alloc("kv", LARGE);
	kept = fixture_alloc("scratch", 3000);
	sleep_ok(1, NULL);
	host = vs_store_bytes();
	pinned = vs_host_pool_taken();
	fixture_free(b);
	ck_assert_uint_eq(host - vs_store_bytes(), LARGE);
	ck_assert_uint_eq(fixture_ledger().host_bytes, vs_store_bytes());
	fixture_free(d);
	ck_assert_uint_eq(host - vs_store_bytes(), LARGE);
	ck_assert_uint_le(vs_host_pool_taken(), pinned);
	fixture_free(kept);
	fixture_assert_sound();
	wake_ok(NULL);
	assert_awake();
	fixture_assert_filled(a, 3000);
	fixture_assert_filled(c, LARGE + 5);
	fixture_free(a);
	fixture_free(c);
	let_it_tidy_up();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	fixture_assert_empty();
	ck_assert_uint_eq(sim_calls("cuMemCreate"),
			  sim_calls("cuMemRelease"));
}
END_TEST

START_TEST(all_may_be_freed_while_asleep)
{
	CUdeviceptr bases[6];
	int i;

	start("kv=discard");
	for (i = 0; i < 6; i++)
		bases[i] = fixture_alloc(i & 1 ? "kv" : "w",
					 i < 4 ? 3000 : LARGE);
	sleep_ok(1, NULL);
	for (i = 0; i < 6; i++)
		fixture_free(bases[i]);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	wake_ok(NULL);
	assert_awake();
	sleep_ok(1, NULL);
	assert_asleep();
	wake_ok(NULL);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 by policy, 2 by level; memory is handed out dirty. */
START_TEST(dropped_memory_is_zero_after_wake)
{
	CUdeviceptr small, large;

	start("kv=discard");
	small = fixture_alloc("kv", 3001);
	large = fixture_alloc("kv", LARGE + 1);
	sleep_ok(_i, NULL);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, 0);
	ck_assert_uint_eq(reply.ledger.host_bytes, 0);
	ck_assert_uint_eq(reply.ledger.last.lost_bytes,
			  reply.ledger.last.released_bytes);
	ck_assert_uint_eq(reply.ledger.tags[vs_tag_find("kv")].lost_bytes,
			  reply.ledger.last.released_bytes);
	wake_ok(NULL);
	assert_awake();
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, 0);
	fixture_assert_zero(small, 3001);
	fixture_assert_zero(large, LARGE + 1);
}
END_TEST

START_TEST(level_one_becomes_two_by_dropping_the_backups)
{
	CUdeviceptr w, other;

	start("");
	w = fixture_alloc("w", SOME);
	other = fixture_alloc("other", SOME);
	sleep_ok(1, NULL);
	ck_assert_uint_eq(vs_store_bytes(), 2 * SOME);
	sleep_ok(2, "w");
	assert_asleep();
	ck_assert_uint_eq(vs_store_bytes(), SOME);
	ck_assert_uint_eq(reply.ledger.last.lost_bytes, SOME);
	ck_assert_uint_eq(reply.ledger.tags[vs_tag_find("w")].lost_bytes, SOME);
	wake_ok(NULL);
	fixture_assert_zero(w, SOME);
	fixture_assert_filled(other, SOME);
	assert_awake();
}
END_TEST

/* _i: 1 with a list, 0 without. */
START_TEST(level_two_does_not_become_one)
{
	CUdeviceptr w;

	start("");
	w = fixture_alloc("weights", SOME);
	fixture_alloc("other", SOME);
	sleep_ok(2, "weights");
	reply = fixture_sleep(1, _i ? "weights" : NULL);
	ck_assert_int_eq(reply.status, VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "weights"));
	ck_assert_int_eq(reply.ledger.state, VS_PARTLY);
	ck_assert_uint_eq(reply.ledger.resident_bytes, SOME);
	ck_assert_uint_eq(reply.ledger.sequence, 1);
	sleep_ok(1, "other");
	wake_ok(NULL);
	fixture_assert_zero(w, SOME);
	assert_awake();
}
END_TEST

/* _i: 1 tags named, 2 policies declared, 3 said outright. */
START_TEST(level_two_of_everything_must_be_meant)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 2, .all_tags = _i != 1,
		.tags = 0, .timeout_ms = 10000, .discard_all = _i == 3,
	};
	CUdeviceptr base;

	start(_i == 2 ? "kv=offload" : "");
	base = fixture_alloc("w", SOME);
	if (_i == 1)
		request.tags = fixture_tags("w");
	reply = fixture_ask(&request);
	if (_i) {
		ck_assert_int_eq(reply.status, VS_OK);
		ck_assert_uint_eq(reply.ledger.resident_bytes, 0);
		return;
	}
	ck_assert_int_eq(reply.status, VS_REFUSED);
	assert_awake();
	ck_assert_uint_eq(reply.ledger.sequence, 0);
	fixture_assert_filled(base, SOME);
}
END_TEST

/* _i: level. */
START_TEST(what_is_to_be_kept_stays_and_is_said_to)
{
	CUdeviceptr kept, w;

	start("scratch=keep");
	kept = fixture_alloc("scratch", SOME);
	w = fixture_alloc("w", LARGE);
	sleep_ok(_i, NULL);
	assert_asleep();
	ck_assert_uint_eq(sim_used(0), SOME);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, LARGE);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, SOME);
	ck_assert_str_eq(reply.ledger.last.kept[0].why, "policy keep");
	fixture_assert_filled(kept, SOME);
	wake_ok(NULL);
	assert_awake();
	fixture_assert_filled(kept, SOME);
	if (_i == 1)
		fixture_assert_filled(w, LARGE);
	else
		fixture_assert_zero(w, LARGE);
}
END_TEST

/* _i: 1 what is kept, 2 what is not managed, 3 both. */
START_TEST(a_sleep_that_releases_nothing_is_no_success)
{
	CUdeviceptr native;

	start("scratch=keep");
	if (_i & 1)
		fixture_alloc("scratch", SOME);
	vs_tag_mark(NULL, NULL);
	if (_i & 2) {
		sim_fail("cuMemAddressReserve", 1, CUDA_ERROR_UNKNOWN);
		sim_fail("cuMemAddressReserve", 2, CUDA_ERROR_UNKNOWN);
		ck_ok(vs_allocator_alloc(&native, LARGE));
	}
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_PARTIAL);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "nothing was released"));
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, _i & 2 ? LARGE : 0);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, _i & 1 ? SOME : 0);
	assert_asleep();
	wake_ok(NULL);
	assert_awake_but(_i & 2 ? LARGE + MIB : 0);
}
END_TEST

static void wake_some(const char *tags, enum vs_choice hold)
{
	struct vs_request request = {
		.verb = VS_VERB_WAKE, .tags = fixture_tags(tags), .hold = hold,
	};

	reply = fixture_ask(&request);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
}

/* _i: 0 in the arena of what sleeps, 1 with a segment of its own. */
START_TEST(an_allocation_in_a_sleeping_tag_gets_memory_of_its_own)
{
	size_t size = _i ? LARGE : 3000;
	CUdeviceptr old, fresh, other;

	start("");
	old = fixture_alloc("w", size);
	other = fixture_alloc("other", 3000);
	sleep_ok(1, NULL);
	wake_some("other", VS_NO);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_int_eq(reply.ledger.state, VS_PARTLY);
	fresh = fixture_alloc("w", size);
	ck_assert_ptr_ne(fixture_segment(fresh), fixture_segment(old));
	ck_assert_int_eq(fixture_segment(fresh)->level, 0);
	fixture_assert_filled(fresh, size);
	ck_assert_int_eq(fixture_ledger().tags[vs_tag_find("w")].state,
			 VS_PARTLY);
	sleep_ok(1, "w");
	ck_assert_uint_eq(reply.ledger.tags[vs_tag_find("w")].resident_bytes,
			  0);
	fixture_assert_filled(other, 3000);
	wake_ok(NULL);
	assert_awake();
	fixture_assert_filled(old, size);
	fixture_assert_filled(fresh, size);
	fixture_free(old);
	fixture_free(fresh);
	fixture_free(other);
	let_it_tidy_up();
	fixture_assert_empty();
}
END_TEST

START_TEST(a_fresh_segment_of_a_sleeping_tag_stays_awake_when_it_wakes)
{
	CUdeviceptr old, fresh;

	start("");
	old = fixture_alloc("w", 3000);
	sleep_ok(1, "w");
	wake_some("default", VS_NO);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	fresh = fixture_alloc("w", 3000);
	wake_ok("w");
	assert_awake();
	fixture_assert_filled(old, 3000);
	fixture_assert_filled(fresh, 3000);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, replies_state_what_moved);
	tcase_add_test(tc, the_same_request_again_succeeds_and_does_nothing);
	tcase_add_test(tc, with_nothing_allocated_sleep_and_wake_succeed);
	tcase_add_test(tc, without_any_tag_the_program_is_held_all_the_same);
	tcase_add_test(tc,
		with_all_tags_asleep_but_those_to_keep_the_process_is_asleep);
	tcase_add_test(tc, tags_sleep_and_wake_one_by_one);
	tcase_add_test(tc, what_is_freed_while_asleep_is_gone_with_its_backup);
	tcase_add_test(tc, all_may_be_freed_while_asleep);
	tcase_add_loop_test(tc, dropped_memory_is_zero_after_wake, 1, 3);
	tcase_add_test(tc, level_one_becomes_two_by_dropping_the_backups);
	tcase_add_loop_test(tc, level_two_does_not_become_one, 0, 2);
	tcase_add_loop_test(tc, level_two_of_everything_must_be_meant, 0, 4);
	tcase_add_loop_test(tc, what_is_to_be_kept_stays_and_is_said_to, 1, 3);
	tcase_add_loop_test(tc, a_sleep_that_releases_nothing_is_no_success, 1,
			    4);
	tcase_add_loop_test(tc,
		an_allocation_in_a_sleeping_tag_gets_memory_of_its_own, 0, 2);
	tcase_add_test(tc,
		a_fresh_segment_of_a_sleeping_tag_stays_awake_when_it_wakes);
}

int main(void)
{
	return fixture_main("transition", fill);
}
