/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/config.h"
#include "base/context.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "sleep/gate.h"
#include "sleep/transition.h"
#include "sleep/waiter.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 16384

static CUdeviceptr memory;
static CUstream stream;
static uint32_t *words;

/* A driver of CUDA 12.0: no cuCtxRecordEvent. */
static void set_up(void)
{
	CUcontext context;
	struct vs_why why;

	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	ck_assert(vs_driver_load());
	vs_real.cuCtxRecordEvent = NULL;
	ck_assert_int_eq(vs_real.cuInit(0), 0);
	ck_assert_int_eq(vs_real.cuCtxCreate_v4(&context, NULL, 0, 0), 0);
	vs_context_note(context);
	vs_config_read();
	vs_tag_init("default", "");
	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
	ck_assert_int_eq(vs_allocator_alloc(&memory, WORDS * 4), 0);
	ck_assert_int_eq(vs_real.cuStreamCreate(&stream,
						CU_STREAM_NON_BLOCKING), 0);
	words = (uint32_t *)(uintptr_t)memory;
	memset(words, 0, WORDS * 4);
}

static enum vs_status go(enum vs_verb verb, unsigned timeout_ms,
			 struct vs_why *why)
{
	struct vs_request r = {
		.verb = verb, .level = 1, .all_tags = true,
		.timeout_ms = timeout_ms,
	};
	struct vs_transition t;

	memset(&t, 0, sizeof(t));
	memset(why, 0, sizeof(*why));
	return verb == VS_VERB_SLEEP ? vs_transition_sleep(&r, &t, why) :
				       vs_transition_wake(&r, &t, why);
}

static enum vs_state state(void)
{
	struct vs_ledger now;

	vs_ledger_read(&now);
	return now.state;
}

START_TEST(sleeps_and_wakes_without_a_way_to_record_events)
{
	struct vs_why why;

	memset(words, 0x5a, WORDS * 4);
	ck_assert_int_eq(go(VS_VERB_SLEEP, 5000, &why), VS_OK);
	ck_assert_int_eq(state(), VS_ASLEEP);
	ck_assert_int_eq(go(VS_VERB_WAKE, 0, &why), VS_OK);
	ck_assert_int_eq(state(), VS_AWAKE);
	ck_assert_uint_eq(words[0], 0x5a5a5a5a);
	ck_assert_uint_eq(words[WORDS - 1], 0x5a5a5a5a);
}
END_TEST

START_TEST(queued_work_makes_it_busy_and_is_waited_for_when_there_is_time)
{
	struct vs_why why;

	sim_hold(1);
	ck_assert_int_eq(vs_real.cuMemsetD32Async(memory, 7, WORDS, stream),
			 0);
	ck_assert_int_eq(go(VS_VERB_SLEEP, 100, &why), VS_BUSY);
	ck_assert(strstr(why.text, "queued work"));
	ck_assert_int_eq(state(), VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert(vs_waiter_stuck(NULL));

	/* Stuck as it is, the next one is busy too, and changes nothing. */
	ck_assert_int_eq(go(VS_VERB_SLEEP, 50, &why), VS_BUSY);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	sim_hold(0);
	ck_assert_int_eq(go(VS_VERB_SLEEP, 20000, &why), VS_OK);
	ck_assert_int_eq(go(VS_VERB_WAKE, 0, &why), VS_OK);
	ck_assert_uint_eq(words[0], 7);
	ck_assert_uint_eq(words[WORDS - 1], 7);
}
END_TEST

START_TEST(a_lost_context_is_named)
{
	struct vs_why why;

	sim_fail("cuCtxSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(go(VS_VERB_SLEEP, 5000, &why), VS_FAILED);
	ck_assert(strstr(why.text, "illegal"));
	ck_assert_int_eq(state(), VS_DEAD);
	ck_assert_uint_eq(vs_gate_holds(), 0);
}
END_TEST

static void fill(TCase *tests)
{
	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests,
		       sleeps_and_wakes_without_a_way_to_record_events);
	tcase_add_test(tests,
	queued_work_makes_it_busy_and_is_waited_for_when_there_is_time);
	tcase_add_test(tests, a_lost_context_is_named);
}

int main(void)
{
	return fixture_main("waiter", fill);
}
