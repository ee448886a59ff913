/* SPDX-License-Identifier: Apache-2.0 */
/* When a program is told that it is about to sleep, and that it has woken. */
#include <config.h>

#include "memory_fixture.h"

#include "memory/capture.h"
#include "sleep/callback.h"
#include "sleep/gate.h"

#include <sched.h>
#include <string.h>

static char told[64];		/* b and a, in their order */

static struct vs_request sleep_all = {
	.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
	.timeout_ms = 10000,
};
static const struct vs_request pause_it = {
	.verb = VS_VERB_PAUSE, .timeout_ms = 10000,
};

/* Both may use CUDA: nothing holds the program, and nothing of it sleeps. */
static void tell(void *letter)
{
	ck_assert(vs_operation_is_self());
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	strcat(told, letter);
}

static void before(void *unused)
{
	(void)unused;
	tell("b");
}

/* A context that is left current is not the next one's. */
static void after(void *unused)
{
	CUcontext now;

	(void)unused;
	tell("a");
	ck_ok(vs_real.cuCtxGetCurrent(&now));
	ck_assert_ptr_null(now);
	fixture_current(fixture_context);
}

static void start(void)
{
	fixture_start("w", "");
	fixture_alloc("w", 3000);
	ck_assert_int_eq(vs_callback_add(before, after, NULL, NULL), VS_OK);
}

static void ask(const struct vs_request *request, enum vs_status status)
{
	struct vs_reply reply = fixture_ask(request);

	ck_assert_msg(reply.status == status, "%s", reply.why.text);
}

static void wake(void)
{
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

START_TEST(a_sleep_is_told_before_and_the_wake_after_and_before_its_answer)
{
	start();
	ask(&sleep_all, VS_OK);
	ck_assert_str_eq(told, "b");
	ask(&sleep_all, VS_OK);
	ck_assert_str_eq(told, "b");
	wake();
	ck_assert_str_eq(told, "ba");
	wake();
	ask(&sleep_all, VS_OK);
	wake();
	ck_assert_str_eq(told, "baba");
}
END_TEST

/* _i: 1 without being held meanwhile. */
START_TEST(tag_by_tag_only_the_first_and_the_last_are_told)
{
	struct vs_request one = sleep_all;

	start();
	fixture_alloc("kv", 3000);
	one.all_tags = false;
	one.hold = _i ? VS_NO : VS_DEFAULT;
	one.tags = fixture_tags("w");
	ask(&one, VS_OK);
	one.tags = fixture_tags("kv");
	ask(&one, VS_OK);
	ck_assert_int_eq(fixture_wake("w").status, VS_OK);
	ck_assert_str_eq(told, "b");
	ck_assert_int_eq(fixture_wake("kv").status, VS_OK);
	ck_assert_str_eq(told, "ba");
}
END_TEST

START_TEST(a_sleep_that_is_refused_or_tried_only_is_not_told)
{
	struct vs_request request = sleep_all;

	start();
	request.level = 2;
	ask(&request, VS_REFUSED);
	request.level = 1;
	request.dry_run = true;
	ask(&request, VS_OK);
	ck_assert_str_eq(told, "");
}
END_TEST

START_TEST(a_sleep_that_comes_to_nothing_is_told_to_be_over)
{
	struct vs_request hasty = sleep_all;
	CUstream stream;

	start();
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false, vs_real.cuStreamBeginCapture(stream));
	hasty.timeout_ms = 20;
	ask(&hasty, VS_BUSY);
	ck_assert_str_eq(told, "ba");
}
END_TEST

/* It cannot use CUDA while it is held, neither before nor after. */
START_TEST(a_paused_program_is_told_nothing)
{
	start();
	ask(&pause_it, VS_OK);
	ask(&sleep_all, VS_OK);
	wake();
	vs_operation_resume();
	ck_assert_str_eq(told, "");
	ask(&sleep_all, VS_OK);
	ask(&pause_it, VS_OK);
	wake();
	ck_assert_str_eq(told, "b");
	vs_operation_resume();
	wake();		/* it is told before anything else is done */
	ck_assert_str_eq(told, "ba");
}
END_TEST

/* _i: 1 it sleeps before it is let go. */
START_TEST(a_group_is_told_before_it_is_at_rest_and_once_it_is_let_go)
{
	struct vs_request request = {
		.verb = VS_VERB_QUIESCE, .timeout_ms = 10000,
		.lease_ms = 60000,
	};
	struct vs_reply reply;

	start();
	wake();
	request.rest = vs_operation_submit(&request, -1, NULL);
	while (!vs_operation_done(request.rest, &reply))
		sched_yield();
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_str_eq(told, "b");
	if (_i) {
		sleep_all.rest = request.rest;
		ask(&sleep_all, VS_OK);
		ck_assert_str_eq(told, "b");
	}
	vs_operation_forget(request.rest);
	wake();
	ck_assert_str_eq(told, "ba");
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
	a_sleep_is_told_before_and_the_wake_after_and_before_its_answer);
	tcase_add_loop_test(tc,
		tag_by_tag_only_the_first_and_the_last_are_told, 0, 2);
	tcase_add_test(tc, a_sleep_that_is_refused_or_tried_only_is_not_told);
	tcase_add_test(tc, a_sleep_that_comes_to_nothing_is_told_to_be_over);
	tcase_add_test(tc, a_paused_program_is_told_nothing);
	tcase_add_loop_test(tc,
		a_group_is_told_before_it_is_at_rest_and_once_it_is_let_go, 0,
		2);
}

int main(void)
{
	return fixture_main("callback", fill);
}
