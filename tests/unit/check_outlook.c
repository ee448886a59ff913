/* SPDX-License-Identifier: Apache-2.0 */
/* What a dry run foretells, and what the ledger says of reasons and devices. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"

#include "base/config.h"
#include "base/context.h"
#include "base/device.h"
#include "memory/capture.h"
#include "memory/vmm.h"
#include "sleep/gate.h"

#include <stdio.h>
#include <string.h>

#define SOME (5 * MIB)
#define LARGE (17 * MIB)

static struct vs_request request;
static CUdeviceptr w;

/* Copied, dropped and kept memory of all sizes, and some that was freed. */
static void start(void)
{
	CUdeviceptr spare, large;

	fixture_start("default", "kv=discard,scratch=keep");
	w = fixture_alloc("w", LARGE + 5);
	fixture_alloc("w", 3000);
	spare = fixture_alloc("spare", MIB);
	fixture_alloc("kv", LARGE);
	fixture_alloc("scratch", SOME);
	large = fixture_alloc("scratch", 3 * LARGE);
	fixture_free(spare);
	fixture_free(large);
	/* Backed still, for the next one. */
	ck_assert_uint_gt(fixture_ledger().tags[vs_tag_find("spare")]
			  .resident_bytes, 0);
	request = (struct vs_request){
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000,
	};
}

/* Ask what the request would do; all stays as it is. */
static struct vs_reply foretell(enum vs_status status)
{
	struct vs_request dry = request;
	static struct vs_ledger before, after;	/* not copied: padding too */
	struct sim_ledger real = fixture_sim(), now;
	struct vs_reply reply;

	vs_ledger_read(&before);
	dry.dry_run = true;
	reply = fixture_ask(&dry);
	ck_assert_msg(reply.status == status, "%s: %s",
		      vs_why_word(reply.status), reply.why.text);
	ck_assert(reply.outlook.filled);
	vs_ledger_read(&after);
	ck_assert_mem_eq(&before, &after, sizeof(before));
	now = fixture_sim();
	ck_assert_mem_eq(&real, &now, sizeof(real));
	fixture_assert_sound();
	return reply;
}

/* And do it. */
static void assert_foretold(void)
{
	struct vs_outlook outlook = foretell(VS_OK).outlook;
	uint64_t used = sim_used(0), taken = vs_host_pool_taken();
	struct vs_reply reply;

	ck_assert_int_eq(outlook.obstacle_count, 0);
	reply = fixture_ask(&request);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_uint_eq(outlook.release_bytes,
			  reply.ledger.last.released_bytes);
	ck_assert_uint_eq(outlook.keep_bytes, reply.ledger.last.kept_bytes);
	ck_assert_uint_eq(outlook.host_bytes, vs_host_pool_taken() - taken);
	ck_assert_uint_le(sim_used(0), used - outlook.release_bytes);
}

/* _i: 1 and 2 levels, 3 the tags of a list. */
START_TEST(a_sleep_does_what_its_dry_run_says)
{
	start();
	request.level = _i == 2 ? 2 : 1;
	request.discard_all = _i == 2;
	if (_i == 3) {
		request.all_tags = false;
		request.tags = fixture_tags("w,scratch");
	}
	assert_foretold();
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	if (_i != 2)
		fixture_assert_filled(w, LARGE + 5);
}
END_TEST

START_TEST(what_sleeps_already_releases_no_more)
{
	struct vs_outlook outlook;

	start();
	request.tags = fixture_tags("kv");
	request.all_tags = false;
	ck_assert_int_eq(fixture_ask(&request).status, VS_OK);
	outlook = foretell(VS_OK).outlook;
	ck_assert_uint_eq(outlook.release_bytes, 0);
	ck_assert_uint_eq(outlook.host_bytes, 0);
	request.all_tags = true;
	assert_foretold();
	ck_assert_uint_eq(foretell(VS_OK).outlook.release_bytes, 0);
}
END_TEST

/* What a sleep would be refused with; the figures are there all the same. */
START_TEST(a_dry_run_is_refused_as_the_sleep_would_be)
{
	struct vs_reply reply;

	fixture_start("default", "");
	w = fixture_alloc("w", LARGE);
	request = (struct vs_request){
		.verb = VS_VERB_SLEEP, .level = 2, .all_tags = true,
		.timeout_ms = 10000,
	};
	reply = foretell(VS_REFUSED);
	ck_assert_uint_eq(reply.outlook.release_bytes, LARGE);
	ck_assert_str_eq(fixture_ask(&request).why.text, reply.why.text);
	request.level = 1;
	vs_config.host_limit = MIB;
	reply = foretell(VS_NOHOST);
	ck_assert_int_eq(reply.outlook.obstacle_count, 1);
	ck_assert_str_eq(reply.outlook.obstacles[0], reply.why.text);
	ck_assert_uint_eq(reply.outlook.host_bytes, LARGE + MIB);
	ck_assert_uint_eq(reply.outlook.host_available, MIB);
	ck_assert_str_eq(fixture_ask(&request).why.text, reply.why.text);
	vs_config.host_limit = 0;
	vs_driver_unhooked("cuLaunchKernel");
	reply = foretell(VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(reply.outlook.obstacles[0],
				     "cuLaunchKernel"));
	request.force = true;
	ck_assert_int_eq(foretell(VS_OK).outlook.obstacle_count, 0);
	fixture_assert_filled(w, LARGE);
}
END_TEST

START_TEST(a_lost_context_is_told_and_stays_the_programs_own)
{
	struct vs_reply reply;

	start();
	sim_fail("cuCtxRecordEvent", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	reply = foretell(VS_FAILED);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "is lost"));
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	assert_foretold();
}
END_TEST

static void assert_obstacle(const char *text)
{
	struct vs_outlook outlook = foretell(VS_OK).outlook;

	ck_assert_int_eq(outlook.obstacle_count, 1);
	ck_assert_msg(strstr(outlook.obstacles[0], text) != NULL, "%s",
		      outlook.obstacles[0]);
}

START_TEST(what_a_sleep_would_wait_for_is_named_and_not_waited_for)
{
	CUstream stream;
	CUgraph graph;

	start();
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	sim_hold(1);
	ck_ok(vs_real.cuMemsetD8Async(w, 7, 100, stream));
	assert_obstacle("device 0 has queued work");
	sim_hold(0);
	ck_ok(vs_real.cuCtxSynchronize());
	ck_assert(vs_gate_enter("cuLong"));
	assert_obstacle("is inside cuLong");
	vs_gate_leave();
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false, vs_real.cuStreamBeginCapture(stream));
	assert_obstacle("captur");
	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	vs_capture_ended(stream, false);
	assert_foretold();
}
END_TEST

START_TEST(what_stays_is_told_by_reason_and_what_nobody_wants_first)
{
	struct vs_ledger_last last;
	struct vs_reply reply;

	start();
	fixture_segment(w)->kept_why = "a network card knows it";
	reply = fixture_ask(&request);
	ck_assert_int_eq(reply.status, VS_PARTIAL);
	last = reply.ledger.last;
	ck_assert_str_eq(last.kept[0].why, "a network card knows it");
	ck_assert_str_eq(last.kept[1].why, "policy keep");
	ck_assert_uint_eq(last.kept[0].bytes, fixture_segment(w)->size);
	ck_assert_uint_eq(last.kept[1].bytes, SOME);
	ck_assert_uint_eq(last.kept[2].bytes, 0);
	ck_assert_uint_eq(last.kept_bytes,
			  last.kept[0].bytes + last.kept[1].bytes);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}
END_TEST

START_TEST(more_reasons_than_there_is_room_for_lose_no_bytes)
{
	struct vs_ledger_last last = { .kept_bytes = 0 };
	uint64_t sum = 0;
	char why[16];
	int i;

	for (i = 0; i < 24; i++) {
		snprintf(why, sizeof(why), "reason %d", i % 12);
		vs_ledger_keep(&last, (uint64_t)1 << i, why, i & 1);
	}
	vs_ledger_keep(&last, 0, "nothing", false);
	for (i = 0; i < VS_KEPT_MAX; i++)
		sum += last.kept[i].bytes;
	ck_assert_uint_eq(sum, ((uint64_t)1 << 24) - 1);
	ck_assert_uint_eq(last.kept_bytes, sum);
	ck_assert_str_eq(last.kept[VS_KEPT_MAX - 1].why, "other reasons");
}
END_TEST

START_TEST(each_device_with_a_context_has_its_own_figures)
{
	struct vs_ledger now;
	CUcontext other;

	start();
	vs_device_note(0);
	now = fixture_ledger();
	ck_assert_int_eq(now.devices_count, 1);
	ck_assert_str_eq(now.devices[0].uuid,
			 "GPU-73696d75-6c61-7465-642d-6770752d3061");
	ck_assert_str_eq(now.devices[0].bus, "0000:01:00.0");
	ck_assert(now.devices[0].vmm);
	ck_assert_uint_eq(now.devices[0].resident_bytes, now.resident_bytes);
	fixture_new_context(0);
	other = fixture_new_context(1);
	fixture_alloc("w", LARGE);
	ck_assert_int_eq(fixture_ask(&request).status, VS_OK);
	now = fixture_ledger();
	ck_assert_int_eq(now.devices_count, 2);
	ck_assert_int_eq(now.devices[0].contexts, 2);
	ck_assert_int_eq(now.devices[1].device, 1);
	ck_assert_int_eq(now.devices[1].contexts, 1);
	/* Nobody has told us of it. */
	ck_assert_str_eq(now.devices[1].uuid, "unknown");
	ck_assert_uint_eq(now.devices[1].evicted_bytes, LARGE);
	ck_assert_uint_eq(now.devices[0].evicted_bytes + LARGE,
			  now.evicted_bytes);
	ck_assert_uint_eq(now.devices[0].resident_bytes, SOME);
	vs_context_forget(vs_context_detach(other));
	ck_assert_int_eq(fixture_ledger().devices_count, 1);
}
END_TEST

START_TEST(a_device_whose_memory_cannot_be_mapped_says_so)
{
	__typeof__(vs_real.cuMemCreate) create;

	start();
	fixture_new_context(1);
	vs_device_note(1);
	ck_assert(fixture_ledger().devices[1].vmm);
	create = vs_real.cuMemCreate;
	vs_real.cuMemCreate = NULL;
	ck_assert(!vs_vmm_usable(1));
	vs_real.cuMemCreate = create;
	ck_assert(!fixture_ledger().devices[1].vmm);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_sleep_does_what_its_dry_run_says, 1, 4);
	tcase_add_test(tc, what_sleeps_already_releases_no_more);
	tcase_add_test(tc, a_dry_run_is_refused_as_the_sleep_would_be);
	tcase_add_test(tc, a_lost_context_is_told_and_stays_the_programs_own);
	tcase_add_test(tc,
		what_a_sleep_would_wait_for_is_named_and_not_waited_for);
	tcase_add_test(tc,
		what_stays_is_told_by_reason_and_what_nobody_wants_first);
	tcase_add_test(tc, more_reasons_than_there_is_room_for_lose_no_bytes);
	tcase_add_test(tc, each_device_with_a_context_has_its_own_figures);
	tcase_add_test(tc, a_device_whose_memory_cannot_be_mapped_says_so);
}

int main(void)
{
	return fixture_main("outlook", fill);
}
