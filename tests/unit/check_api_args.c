/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of include/vsleep.h do not take. */
#include <config.h>

#include "api_fixture.h"

#include "sleep/gate.h"

#include <math.h>

struct bad_call {
	const char *says;
	int verb;		/* 's', 'w' or 'p' */
	int level;
	const char *tags;
	unsigned flags;
	double seconds;
};

static const struct bad_call bad_calls[] = {
	{ "level=0", 's', 0, NULL, 0, 1 },
	{ "level=3", 's', 3, NULL, 0, 1 },
	{ "level=-1", 's', -1, NULL, 0, 1 },
	{ "empty", 's', 1, "", 0, 1 },
	{ "nosuch", 's', 1, "default,nosuch", 0, 1 },
	{ "\"a b\"", 's', 1, "a b", 0, 1 },
	{ "flags=0x10", 's', 1, NULL, 0x10, 1 },
	{ "flags=0x8", 's', 1, NULL, VSLEEP_NO_HOLD, 1 },
	{ "timeout=nan", 's', 1, NULL, 0, (double)NAN },
	{ "timeout=86401", 's', 1, NULL, 0, 86401 },
	{ "timeout=inf", 's', 1, NULL, 0, (double)INFINITY },
	{ "timeout=1e+300", 's', 1, NULL, 0, 1e300 },
	{ "empty", 'w', 0, "", 0, 1 },
	{ "nosuch", 'w', 0, "nosuch", 0, 1 },
	{ "flags=0x1", 'w', 0, NULL, VSLEEP_HOLD, 1 },
	{ "wait=-1", 'w', 0, NULL, 0, -1 },
	{ "wait=nan", 'w', 0, NULL, 0, (double)NAN },
	{ "wait=86401", 'w', 0, NULL, 0, 86401 },
	{ "timeout=nan", 'p', 0, NULL, 0, (double)NAN },
	{ "timeout=1e+06", 'p', 0, NULL, 0, 1e6 },
};

static int make(const struct bad_call *c, struct vsleep_reply *out)
{
	switch (c->verb) {
	case 's':
		return vsleep_sleep(c->level, c->tags, c->flags, c->seconds,
				    out);
	case 'w':
		return vsleep_wake(c->tags, c->flags, c->seconds, out);
	default:
		return vsleep_pause(c->seconds, out);
	}
}

START_TEST(a_bad_argument_is_named_and_changes_nothing)
{
	const struct bad_call *c = &bad_calls[_i];
	CUdeviceptr block;
	struct vs_ledger before, after;

	start("");
	block = fixture_alloc("default", BLOCK);
	if (c->verb == 'w')
		ck_reply(sleep_all(), VSLEEP_OK, "");
	before = fixture_ledger();
	ck_reply(make(c, fresh()), VSLEEP_INVALID, c->says);
	after = fixture_ledger();
	ck_assert_mem_eq(&before, &after, sizeof(before));
	ck_assert_int_eq(reply.state, (int)before.state);
	ck_assert_uint_eq(reply.resident, before.resident_bytes);
	ck_assert_int_eq(make(c, NULL), VSLEEP_INVALID);
	ck_reply(wake_all(), VSLEEP_OK, "");
	fixture_assert_filled(block, BLOCK);
}
END_TEST

static const size_t bad_sizes[] = {
	0, 1, sizeof(reply) - 1, 65537, SIZE_MAX,
};

START_TEST(a_reply_of_a_wrong_size_is_refused_and_left_alone)
{
	struct vsleep_reply copy;

	start("");
	fixture_alloc("default", BLOCK);
	fresh()->size = bad_sizes[_i];
	copy = reply;
	ck_assert_int_eq(vsleep_sleep(1, NULL, 0, 1, &reply), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_wake(NULL, 0, 1, &reply), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_pause(1, &reply), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_resume(&reply), VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_status(&reply), VSLEEP_INVALID);
	ck_assert_mem_eq(&copy, &reply, sizeof(reply));
	ck_assert_int_eq((int)fixture_ledger().state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
}
END_TEST

START_TEST(of_a_larger_reply_the_known_part_is_filled)
{
	struct {
		struct vsleep_reply known;
		char later[64];
	} larger;

	start("");
	memset(&larger, 0x5a, sizeof(larger));
	larger.known.size = sizeof(larger);
	ck_assert_int_eq(vsleep_status(&larger.known), VSLEEP_OK);
	ck_assert_uint_eq(larger.known.size, sizeof(larger));
	ck_assert_str_eq(larger.known.message, "");
	ck_assert_int_eq(larger.later[0], 0x5a);
	ck_assert_int_eq(larger.later[63], 0x5a);
}
END_TEST

static void nothing(void *unused)
{
	(void)unused;
}

START_TEST(callbacks_are_counted_and_must_have_been_added)
{
	int args[16], i;

	fixture_start("default", "");
	ck_assert_int_eq(vsleep_callback_add(NULL, NULL, args),
			 VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_callback_remove(NULL, NULL, args),
			 VSLEEP_INVALID);
	ck_assert_int_eq(vsleep_callback_remove(nothing, NULL, args),
			 VSLEEP_REFUSED);
	for (i = 0; i < 16; i++)
		ck_assert_int_eq(vsleep_callback_add(nothing, NULL, &args[i]),
				 VSLEEP_OK);
	ck_assert_int_eq(vsleep_callback_add(NULL, nothing, args),
			 VSLEEP_REFUSED);
	ck_assert_int_eq(vsleep_callback_remove(nothing, nothing, args),
			 VSLEEP_REFUSED);
	ck_assert_int_eq(vsleep_callback_remove(nothing, NULL, args),
			 VSLEEP_OK);
	ck_assert_int_eq(vsleep_callback_remove(nothing, NULL, args),
			 VSLEEP_REFUSED);
	ck_assert_int_eq(vsleep_callback_add(NULL, nothing, args), VSLEEP_OK);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, a_bad_argument_is_named_and_changes_nothing,
			    0, COUNT(bad_calls));
	tcase_add_loop_test(tc,
		a_reply_of_a_wrong_size_is_refused_and_left_alone, 0,
		COUNT(bad_sizes));
	tcase_add_test(tc, of_a_larger_reply_the_known_part_is_filled);
	tcase_add_test(tc, callbacks_are_counted_and_must_have_been_added);
}

int main(void)
{
	return fixture_main("api_args", fill);
}
