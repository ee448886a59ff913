/* SPDX-License-Identifier: Apache-2.0 */
/* What a program gets from the functions of include/vsleep.h. */
#include <config.h>

#include "api_fixture.h"

#include "base/config.h"
#include "base/tag.h"
#include "control/api.h"
#include "sleep/gate.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool switched_on(void)
{
	static bool done;

	vs_config_read();
	if (!done)
		vs_tag_init("default", "kv=keep");
	done = true;
	errno = EIO;	/* as reading settings may leave it */
	return true;
}

static bool switched_off(void)
{
	errno = EIO;
	return false;
}

/* Asleep and awake: a reply of either, whatever happened before. */
static void assert_usable(CUdeviceptr block, size_t size)
{
	ck_reply(sleep_all(), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_ASLEEP);
	ck_reply(wake_all(), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	fixture_assert_filled(block, size);
}

/* ---- where it is, and where it is not ------------------------------------ */

static void nothing(void *unused)
{
	(void)unused;
}

/* All functions, none of which may do anything. */
static int count_present(void)
{
	int n = 0;

	n += vsleep_present() != 0;
	n += *vsleep_version() != '\0';
	n += vsleep_tag_push("kv") != VSLEEP_NOT_PRESENT;
	n += vsleep_tag_push(NULL) != VSLEEP_NOT_PRESENT;
	n += vsleep_tag_pop() != VSLEEP_NOT_PRESENT;
	n += vsleep_tag_set("kv") != VSLEEP_NOT_PRESENT;
	n += vsleep_tag_of(4096) != NULL;
	n += vsleep_policy_get("kv") != VSLEEP_NOT_PRESENT;
	n += vsleep_policy_set("kv", VSLEEP_KEEP) != VSLEEP_NOT_PRESENT;
	n += vsleep_callback_add(nothing, NULL, NULL) != VSLEEP_NOT_PRESENT;
	n += vsleep_callback_remove(nothing, NULL, NULL) !=
	     VSLEEP_NOT_PRESENT;
	n += vsleep_sleep(1, "kv", 0, 1, fresh()) != VSLEEP_NOT_PRESENT ||
	     !*reply.message || reply.state || reply.resident;
	n += vsleep_wake(NULL, 0, 0, fresh()) != VSLEEP_NOT_PRESENT ||
	     !*reply.message;
	n += vsleep_pause(1, fresh()) != VSLEEP_NOT_PRESENT ||
	     !*reply.message;
	n += vsleep_resume(fresh()) != VSLEEP_NOT_PRESENT || !*reply.message;
	n += vsleep_status(fresh()) != VSLEEP_NOT_PRESENT || !*reply.message;
	n += vsleep_status(NULL) != VSLEEP_NOT_PRESENT;
	n += errno != ODD_ERRNO;
	return n;
}

START_TEST(switched_off_nothing_is_present_and_nothing_changes)
{
	vs_api_prepare = switched_off;
	ck_assert_int_eq(count_present(), 0);
	ck_assert_int_eq(vs_tag_count(), 0);
	vs_gate_pass_through();
	vs_api_prepare = switched_on;
	ck_assert_int_eq(count_present(), 0);
	ck_assert_int_eq(vs_tag_count(), 0);
}
END_TEST

START_TEST(in_a_forked_child_nothing_is_present)
{
	CUdeviceptr block;
	int status;
	pid_t child;

	start("");
	block = fixture_alloc("kv", BLOCK);
	ck_assert_int_eq(vsleep_present(), 1);
	vs_lock_take(&vs_segment_lock);	/* held for ever in the child */
	child = fork();
	if (!child)
		_exit(count_present());
	vs_lock_drop(&vs_segment_lock);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	assert_usable(block, BLOCK);
}
END_TEST

START_TEST(before_the_first_cuda_call_tags_are_set_and_hold)
{
	CUdeviceptr pushed, marked;

	vs_api_prepare = switched_on;
	ck_assert_int_eq(vsleep_present(), 1);
	ck_assert_str_eq(vsleep_version(), PACKAGE_VERSION);
	ck_assert_int_eq(vsleep_policy_get("kv"), VSLEEP_KEEP);
	ck_assert_int_eq(vsleep_policy_set("kv", VSLEEP_DISCARD), VSLEEP_OK);
	ck_assert_int_eq(vsleep_tag_set("marked"), VSLEEP_OK);
	ck_assert_int_eq(vsleep_tag_push("pushed"), VSLEEP_OK);
	ck_assert_int_eq(vsleep_callback_add(nothing, nothing, NULL),
			 VSLEEP_OK);
	ck_reply(sleep_all(), VSLEEP_NOT_PRESENT, "no CUDA context yet");
	ck_reply(wake_all(), VSLEEP_NOT_PRESENT, "no CUDA context yet");
	ck_reply(vsleep_pause(1, fresh()), VSLEEP_NOT_PRESENT, "no CUDA");
	ck_reply(vsleep_resume(fresh()), VSLEEP_NOT_PRESENT, "no CUDA");
	ck_reply(vsleep_status(fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_uint_eq(reply.sequence, 0);
	ck_assert_ptr_null(vsleep_tag_of(4096));
	fixture_start("default", "");
	ck_reply(sleep_all(), VSLEEP_NOT_PRESENT, "no CUDA context yet");
	ck_ok(cuMemAlloc_v2(&pushed, BLOCK));
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_OK);
	ck_ok(cuMemAlloc_v2(&marked, BLOCK));
	ck_assert_str_eq(vsleep_tag_of(pushed), "pushed");
	ck_assert_str_eq(vsleep_tag_of(marked), "marked");
	ck_assert_int_eq(vsleep_policy_get("kv"), VSLEEP_DISCARD);
}
END_TEST

/* ---- tags ---------------------------------------------------------------- */

static const char *const bad_names[] = { " ", "a b", "a,b", "k\xc3\xb6" };

START_TEST(a_bad_name_is_invalid_and_changes_nothing)
{
	const char *name = bad_names[_i];

	fixture_start("default", "");
	ck_assert_int_eq(vsleep_tag_push(name), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_tag_set(name), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_get(name), -VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_set(name, VSLEEP_KEEP),
			 VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_tag_push(NULL), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_tag_set(""), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_get(NULL), -VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_set(NULL, 0), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_set("kv", -1), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_policy_set("kv", 3), VSLEEP_INVALID);
	ck_assert_int_eq(vs_tag_count(), 1);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "default");
}
END_TEST

START_TEST(what_is_allocated_has_the_tag_that_was_pushed_last)
{
	CUdeviceptr outer, inner, native, none;

	fixture_start("default", "");
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_REFUSED);
	ck_assert_int_eq(vsleep_tag_push("outer"), VSLEEP_OK);
	ck_assert_int_eq(vsleep_tag_push("inner"), VSLEEP_OK);
	ck_ok(cuMemAlloc_v2(&inner, BLOCK));
	ck_assert_int_eq(vsleep_tag_push(""), VSLEEP_OK);
	ck_ok(cuMemAlloc_v2(&native, BLOCK));
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_OK);
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_OK);
	ck_ok(cuMemAlloc_v2(&outer, BLOCK));
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_OK);
	ck_assert_int_eq(vsleep_tag_pop(), VSLEEP_REFUSED);
	ck_ok(cuMemAlloc_v2(&none, BLOCK));
	ck_assert_str_eq(vsleep_tag_of(outer), "outer");
	ck_assert_str_eq(vsleep_tag_of(inner + BLOCK - 1), "inner");
	ck_assert_ptr_null(vsleep_tag_of(native));
	ck_assert_str_eq(vsleep_tag_of(none), "default");
	ck_assert_ptr_null(vsleep_tag_of(0));
	ck_ok(cuMemFree_v2(inner));
	ck_assert_ptr_null(vsleep_tag_of(inner));
}
END_TEST

START_TEST(a_policy_holds_from_the_next_sleep_on)
{
	CUdeviceptr block;

	start("kv=offload");
	ck_assert_int_eq(vsleep_policy_get("new"), -VSLEEP_REFUSED);
	ck_assert_int_eq(vsleep_policy_set("new", VSLEEP_KEEP), VSLEEP_OK);
	ck_assert_int_eq(vsleep_policy_get("new"), VSLEEP_KEEP);
	ck_assert_int_eq(vsleep_policy_get("kv"), VSLEEP_OFFLOAD);
	block = fixture_alloc("kv", BLOCK);
	assert_usable(block, BLOCK);
	ck_assert_int_eq(vsleep_policy_set("kv", VSLEEP_DISCARD), VSLEEP_OK);
	ck_reply(sleep_all(), VSLEEP_OK, "");
	ck_assert_uint_ge(reply.lost, BLOCK);
	ck_assert_uint_eq(reply.copied, 0);
	ck_reply(wake_all(), VSLEEP_OK, "");
	fixture_assert_zero(block, BLOCK);
}
END_TEST

/* ---- sleep, wake, pause -------------------------------------------------- */

START_TEST(the_reply_is_the_ledger)
{
	CUdeviceptr block;
	struct vs_ledger now;

	start("kv=discard");
	block = fixture_alloc("w", BLOCK);
	fixture_alloc("kv", BLOCK);
	ck_reply(sleep_all(), VSLEEP_OK, "");
	now = fixture_ledger();
	ck_assert_int_eq(reply.state, VSLEEP_ASLEEP);
	ck_assert_int_eq(reply.held, 0);
	ck_assert_uint_eq(reply.sequence, now.sequence);
	ck_assert_uint_ge(reply.released, 2 * BLOCK);
	ck_assert_uint_eq(reply.released, now.last.released_bytes);
	ck_assert_uint_ge(reply.copied, BLOCK);
	ck_assert_uint_ge(reply.lost, BLOCK);
	ck_assert_uint_eq(reply.resident, 0);
	ck_assert_uint_eq(reply.evicted, now.evicted_bytes);
	ck_assert_uint_eq(reply.backed_up, now.host_bytes);
	ck_assert_uint_eq(reply.kept, 0);
	ck_assert(reply.seconds > 0);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_reply(vsleep_status(fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_ASLEEP);
	ck_assert_uint_eq(reply.evicted, now.evicted_bytes);
	ck_reply(vsleep_wake("kv", 0, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_PARTLY);
	ck_reply(wake_all(), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_uint_ge(reply.restored, BLOCK);
	ck_assert_uint_eq(reply.resident, now.evicted_bytes);
	fixture_assert_filled(block, BLOCK);
	ck_assert_int_eq(vsleep_sleep(1, "w", 0, -1, NULL), VSLEEP_OK);
	ck_assert_int_eq(vsleep_wake("w", 0, 1.5, NULL), VSLEEP_OK);
	ck_assert_int_eq(vsleep_status(NULL), VSLEEP_OK);
	fixture_assert_filled(block, BLOCK);
}
END_TEST

START_TEST(a_sleep_holds_the_program_only_when_told_to)
{
	CUdeviceptr block;

	start("");
	block = fixture_alloc("w", BLOCK);
	ck_reply(sleep_all(), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 0);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_reply(wake_all(), VSLEEP_OK, "");
	ck_reply(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, fresh()), VSLEEP_OK,
		 "");
	ck_assert_int_eq(reply.held, 1);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	ck_reply(wake_all(), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 0);
	fixture_assert_filled(block, BLOCK);
}
END_TEST

START_TEST(a_wake_of_a_part_leaves_the_hold_unless_told_otherwise)
{
	start("");
	fixture_alloc("w", BLOCK);
	fixture_alloc("kv", BLOCK);
	ck_reply(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, fresh()), VSLEEP_OK,
		 "");
	ck_reply(vsleep_wake("w", 0, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 1);
	ck_reply(vsleep_wake("w", VSLEEP_NO_HOLD, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 0);
	ck_assert_int_eq(reply.state, VSLEEP_PARTLY);
	ck_reply(wake_all(), VSLEEP_OK, "");
}
END_TEST

/* The preset tag sleeps too, and has no memory that could be woken. */
START_TEST(a_wake_in_stages_ends_the_hold_with_the_last_memory)
{
	start("");
	fixture_alloc("w", BLOCK);
	fixture_alloc("kv", BLOCK);
	ck_reply(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, fresh()), VSLEEP_OK,
		 "");
	ck_reply(vsleep_wake("w", 0, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_PARTLY);
	ck_reply(vsleep_wake("kv", 0, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_int_eq(reply.held, 0);
	ck_assert_uint_eq(vs_gate_holds(), 0);
}
END_TEST

START_TEST(a_pause_holds_the_program_until_resume)
{
	CUdeviceptr block;

	start("");
	block = fixture_alloc("w", BLOCK);
	ck_reply(vsleep_pause(10, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 1);
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_uint_ge(reply.resident, BLOCK);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_OPERATOR);
	ck_reply(vsleep_sleep(1, "w", 0, 10, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 1);
	ck_reply(vsleep_wake("w", 0, 0, fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 1);
	ck_reply(vsleep_resume(fresh()), VSLEEP_OK, "");
	ck_assert_int_eq(reply.held, 0);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	fixture_assert_filled(block, BLOCK);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
		switched_off_nothing_is_present_and_nothing_changes);
	tcase_add_test(tc, in_a_forked_child_nothing_is_present);
	tcase_add_test(tc, before_the_first_cuda_call_tags_are_set_and_hold);
	tcase_add_loop_test(tc, a_bad_name_is_invalid_and_changes_nothing, 0,
			    COUNT(bad_names));
	tcase_add_test(tc, what_is_allocated_has_the_tag_that_was_pushed_last);
	tcase_add_test(tc, a_policy_holds_from_the_next_sleep_on);
	tcase_add_test(tc, the_reply_is_the_ledger);
	tcase_add_test(tc, a_sleep_holds_the_program_only_when_told_to);
	tcase_add_test(tc,
		a_wake_of_a_part_leaves_the_hold_unless_told_otherwise);
	tcase_add_test(tc,
		a_wake_in_stages_ends_the_hold_with_the_last_memory);
	tcase_add_test(tc, a_pause_holds_the_program_until_resume);
}

int main(void)
{
	return fixture_main("api", fill);
}
