/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps and wakes that cannot have what they need. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "base/config.h"
#include "base/context.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "memory/quarantine.h"
#include "memory/vmm.h"
#include "sleep/gate.h"

#include <stdlib.h>
#include <string.h>

#define SOME (5 * MIB)		/* all of its tag's arena */
#define LARGE (17 * MIB)	/* a segment of its own, of nine chunks */
#define CHUNKS 9

static struct vs_reply reply;
static CUdeviceptr some, large;

static void start(void)
{
	fixture_start("default", "");
	some = fixture_alloc("w", SOME);
	large = fixture_alloc("w", LARGE);
}

static void assert_filled(void)
{
	fixture_assert_filled(some, SOME);
	fixture_assert_filled(large, LARGE);
}

/* Host memory for all of it, in whole pages. */
#define TAKEN (24 * MIB)

/* Awake as before, with every byte. */
static void assert_untouched(void)
{
	struct vs_ledger l = fixture_ledger();

	ck_assert_int_eq(l.state, VS_AWAKE);
	ck_assert_uint_eq(l.sequence, 0);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(l.resident_bytes, SOME + LARGE);
	ck_assert_uint_eq(l.evicted_bytes, 0);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	fixture_assert_sound();
	assert_filled();
}

/* Asleep as after one sleep, with every backup. */
static void assert_still_asleep(void)
{
	struct vs_ledger l = fixture_ledger();

	ck_assert_int_eq(l.state, VS_ASLEEP);
	ck_assert_uint_eq(l.sequence, 1);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	ck_assert_uint_eq(l.evicted_bytes, SOME + LARGE);
	ck_assert_uint_eq(l.host_bytes, SOME + LARGE);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_assert_uint_eq(fixture_sim().mappings, 0);
	fixture_assert_sound();
}

static void assert_status(enum vs_status status)
{
	ck_assert_msg(reply.status == status, "%s instead of %s: %s",
		      vs_why_word(reply.status), vs_why_word(status),
		      reply.why.text);
}

static void sleep_ok(void)
{
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	assert_still_asleep();
}

static void wake_ok(void)
{
	reply = fixture_wake(NULL);
	assert_status(VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	fixture_assert_sound();
	assert_filled();
}

static void assert_says(const char *text)
{
	ck_assert_msg(strstr(reply.why.text, text) != NULL,
		      "no \"%s\" in \"%s\"", text, reply.why.text);
	ck_assert_str_eq(reply.ledger.last.error.text, reply.why.text);
}

START_TEST(a_sleep_without_host_memory_is_refused)
{
	start();
	vs_config.host_limit = TAKEN - 1;
	reply = fixture_sleep(1, NULL);
	assert_status(VS_NOHOST);
	assert_says("need 24 MiB");
	assert_untouched();
	vs_config.host_limit = TAKEN;
	sleep_ok();
	wake_ok();
}
END_TEST

START_TEST(what_is_dropped_needs_no_host_memory)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 2, .all_tags = true,
		.timeout_ms = 10000, .discard_all = true,
	};

	start();
	vs_config.host_limit = 1;
	reply = fixture_ask(&request);
	assert_status(VS_OK);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, SOME + LARGE);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(memory_that_cannot_be_pinned_is_flagged_and_comes_back)
{
	start();
	sim_fail_from("cuMemHostRegister_v2", 1, CUDA_ERROR_NOT_PERMITTED);
	sleep_ok();
	ck_assert_uint_eq(reply.ledger.last.pageable_bytes, SOME + LARGE);
	wake_ok();
	sim_fail_clear();
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	ck_assert_uint_eq(reply.ledger.last.pageable_bytes, 0);
}
END_TEST

static const struct {
	const char *call;
	unsigned first, last;	/* the first wait is for sums of pages, which
				   may fail */
} sleep_steps[] = {
	{ "cuMemcpyDtoHAsync_v2", 1, CHUNKS + 1 },
	{ "cuStreamSynchronize", 2, 3 },
	{ "cuMemUnmap", 1, 1 }, { "cuCtxRecordEvent", 1, 1 },
};

/* _i: the step.  Each of its calls before there is no way back. */
START_TEST(a_sleep_that_fails_changes_nothing)
{
	unsigned nth;

	start();
	for (nth = sleep_steps[_i].first; nth <= sleep_steps[_i].last; nth++) {
		sim_fail(sleep_steps[_i].call, nth, CUDA_ERROR_UNKNOWN);
		reply = fixture_sleep(1, NULL);
		assert_status(VS_CUDA);
		assert_says("(999)");
		sim_fail_clear();
		assert_untouched();
	}
	sleep_ok();
	wake_ok();
}
END_TEST

/* The first two of its tries; others have been unmapped by then. */
START_TEST(a_chunk_that_is_not_unmapped_stays_with_its_content)
{
	size_t kept;

	start();
	sim_fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN);
	reply = fixture_sleep(1, NULL);
	assert_status(VS_PARTIAL);
	kept = reply.ledger.last.kept_bytes;
	ck_assert_uint_gt(kept, 0);
	ck_assert_uint_eq(sim_used(0), kept);
	ck_assert_uint_eq(reply.ledger.resident_bytes, kept);
	ck_assert_uint_eq(reply.ledger.last.released_bytes,
			  SOME + LARGE - kept);
	ck_assert_uint_eq(vs_store_bytes(), SOME + LARGE - kept);
	ck_assert_str_eq(reply.ledger.last.kept[0].why,
			 "the driver did not unmap it");
	ck_assert_int_eq(reply.ledger.tags[vs_tag_find("w")].state,
			 VS_PARTLY);
	fixture_assert_sound();
	wake_ok();
}
END_TEST

START_TEST(memory_that_is_not_released_is_said_and_tried_again)
{
	start();
	sim_fail("cuMemRelease", 2, CUDA_ERROR_UNKNOWN);
	reply = fixture_sleep(1, NULL);
	assert_status(VS_PARTIAL);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, vs_vmm_stuck());
	ck_assert_uint_gt(vs_vmm_stuck(), 0);
	ck_assert_uint_eq(sim_used(0), vs_vmm_stuck());
	ck_assert_uint_eq(fixture_sim().handles, 1);
	ck_assert_str_eq(reply.ledger.last.kept[0].why,
			 "the driver did not release it");
	ck_assert_uint_eq(vs_store_bytes(), SOME + LARGE);
	wake_ok();
	ck_assert_uint_eq(vs_vmm_stuck(), 0);
	ck_assert_uint_eq(sim_used(0), SOME + LARGE);
	ck_assert_uint_eq(fixture_sim().handles, fixture_sim().mappings);
}
END_TEST

static const struct {
	const char *call;
	unsigned calls;
	int code;
} wake_steps[] = {
	{ "cuMemCreate", CHUNKS + 1, CUDA_ERROR_OUT_OF_MEMORY },
	{ "cuMemMap", CHUNKS + 1, CUDA_ERROR_OUT_OF_MEMORY },
	{ "cuMemSetAccess", CHUNKS + 1, CUDA_ERROR_OUT_OF_MEMORY },
	{ "cuMemCreate", CHUNKS + 1, CUDA_ERROR_UNKNOWN },
	{ "cuMemMap", CHUNKS + 1, CUDA_ERROR_UNKNOWN },
	{ "cuMemSetAccess", CHUNKS + 1, CUDA_ERROR_UNKNOWN },
	{ "cuMemcpyHtoDAsync_v2", CHUNKS + 1, CUDA_ERROR_UNKNOWN },
	{ "cuStreamSynchronize", 1, CUDA_ERROR_UNKNOWN },
};

/* _i: the step.  Each of its calls. */
START_TEST(a_wake_that_fails_leaves_all_asleep)
{
	bool short_of_memory = wake_steps[_i].code == CUDA_ERROR_OUT_OF_MEMORY;
	unsigned nth;

	start();
	sleep_ok();
	for (nth = 1; nth <= wake_steps[_i].calls; nth++) {
		sim_fail(wake_steps[_i].call, nth, wake_steps[_i].code);
		reply = fixture_wake(NULL);
		assert_status(short_of_memory ? VS_NOMEM : VS_CUDA);
		assert_says(short_of_memory ? "need 22 MiB, have 256 MiB" :
					      "(999)");
		sim_fail_clear();
		assert_still_asleep();
	}
	wake_ok();
}
END_TEST

START_TEST(a_wake_without_memory_says_what_it_needs_and_what_there_is)
{
	CUdeviceptr taken;

	start();
	sleep_ok();
	ck_ok(vs_real.cuMemAlloc_v2(&taken, 240 * MIB));
	reply = fixture_wake(NULL);
	assert_status(VS_NOMEM);
	assert_says("device 0: need 22 MiB, have 16 MiB");
	ck_ok(vs_real.cuMemFree_v2(taken));
	assert_still_asleep();
	wake_ok();
}
END_TEST

START_TEST(calls_that_escape_us_refuse_a_sleep_unless_forced)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000, .force = true,
	};

	start();
	vs_driver_unhooked("cuLaunchKernel");
	reply = fixture_sleep(1, NULL);
	assert_status(VS_REFUSED);
	assert_says("cuLaunchKernel");
	ck_assert_uint_eq(reply.ledger.unhooked, 1);
	assert_untouched();
	reply = fixture_ask(&request);
	assert_status(VS_OK);
	assert_still_asleep();
	wake_ok();
}
END_TEST

START_TEST(what_frees_had_to_put_off_goes_back_with_a_sleep)
{
	start();
	ck_ok(vs_allocator_free_later(large));
	ck_assert_uint_eq(sim_used(0), SOME + LARGE);
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, SOME);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, SOME);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(some, SOME);
	fixture_free(some);
	fixture_assert_empty();
}
END_TEST

START_TEST(spares_are_not_copied)
{
	start();
	fixture_free(fixture_alloc("other", 3 * MIB));
	ck_assert_uint_eq(sim_used(0), SOME + LARGE + 3 * MIB);
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, SOME + LARGE);
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

static void lose_context(void)
{
	CUfunction function;
	CUmodule module;

	ck_ok(vs_real.cuModuleLoadData(&module, "\177ELF"));
	ck_ok(vs_real.cuModuleGetFunction(&function, module, "fault"));
	ck_ok(vs_real.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
				     NULL, NULL));
	ck_assert_int_ne(vs_real.cuCtxSynchronize(), CUDA_SUCCESS);
}

START_TEST(a_context_lost_before_is_said_and_the_program_goes_on)
{
	start();
	lose_context();
	reply = fixture_sleep(1, NULL);
	assert_status(VS_FAILED);
	assert_says("(700)");
	ck_assert_int_eq(reply.ledger.state, VS_DEAD);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(reply.ledger.resident_bytes, SOME + LARGE);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	assert_filled();
}
END_TEST

START_TEST(a_context_lost_while_asleep_opens_the_gate_and_keeps_backups)
{
	start();
	sleep_ok();
	lose_context();
	reply = fixture_wake(NULL);
	assert_status(VS_FAILED);
	assert_says("(700)");
	ck_assert_int_eq(reply.ledger.state, VS_DEAD);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(vs_store_bytes(), SOME + LARGE);
	ck_assert_uint_eq(reply.ledger.evicted_bytes, SOME + LARGE);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_FAILED);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_FAILED);
	ck_assert_int_eq(fixture_ledger().state, VS_DEAD);
	fixture_assert_sound();
}
END_TEST

/* Work that does not end, a capture, a thread inside. */
enum { WORK, CAPTURE, INSIDE, REASONS };

static const char *const reasons[REASONS] = {
	"queued work", "is capturing", "inside cuStuck",
};

/* _i: the reason. */
START_TEST(a_program_that_does_not_come_to_rest_is_left_as_it_was)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 300,
	};
	CUstream stream;
	CUgraph graph;

	start();
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (_i == WORK) {
		sim_hold(1);
		ck_ok(vs_real.cuMemsetD8Async(some, 1, 1, stream));
	} else if (_i == CAPTURE) {
		vs_capture_begin_on(stream);
		vs_capture_began(stream, false,
				 vs_real.cuStreamBeginCapture(stream));
	} else {
		ck_assert(vs_gate_enter("cuStuck"));
	}
	reply = fixture_ask(&request);
	assert_status(VS_BUSY);
	assert_says(reasons[_i]);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(reply.ledger.resident_bytes, SOME + LARGE);
	if (_i == WORK) {
		sim_hold(0);
		ck_ok(vs_real.cuStreamSynchronize(stream));
		fixture_fill(some, SOME);
	} else if (_i == CAPTURE) {
		ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
		vs_capture_ended(stream, false);
	} else {
		vs_gate_leave();
	}
	sleep_ok();
	wake_ok();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_sleep_without_host_memory_is_refused);
	tcase_add_test(tc, what_is_dropped_needs_no_host_memory);
	tcase_add_test(tc,
		memory_that_cannot_be_pinned_is_flagged_and_comes_back);
	tcase_add_loop_test(tc, a_sleep_that_fails_changes_nothing, 0,
			    COUNT(sleep_steps));
	tcase_add_test(tc, a_chunk_that_is_not_unmapped_stays_with_its_content);
	tcase_add_test(tc, memory_that_is_not_released_is_said_and_tried_again);
	tcase_add_loop_test(tc, a_wake_that_fails_leaves_all_asleep, 0,
			    COUNT(wake_steps));
	tcase_add_test(tc,
		a_wake_without_memory_says_what_it_needs_and_what_there_is);
	tcase_add_test(tc, calls_that_escape_us_refuse_a_sleep_unless_forced);
	tcase_add_test(tc, what_frees_had_to_put_off_goes_back_with_a_sleep);
	tcase_add_test(tc, spares_are_not_copied);
	tcase_add_test(tc,
		a_context_lost_before_is_said_and_the_program_goes_on);
	tcase_add_test(tc,
		a_context_lost_while_asleep_opens_the_gate_and_keeps_backups);
	tcase_add_loop_test(tc,
	a_program_that_does_not_come_to_rest_is_left_as_it_was, 0,
		REASONS);
}

int main(void)
{
	return fixture_main("trouble", fill);
}
