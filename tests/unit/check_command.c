/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: what is understood, and what is not. */
#include <config.h>

#include "command_fixture.h"

#include "base/tag.h"

#include <string.h>

/* A refused request leaves no job, no marker and says @part. */
static void assert_bad(const char *request, const char *part)
{
	ask(request);
	ck_assert_msg(!strncmp(output, "status=bad-request\nmessage=", 27),
		      "%s", output);
	ck_assert_msg(strstr(output, part) != NULL, "no \"%s\" in %s", part,
		      output);
	assert_one_message();
	ck_assert_ptr_null(command.job);
	ck_assert_uint_eq(stub_submitted(), 0);
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
}

START_TEST(sleep_without_keys_is_level_one_of_all_tags)
{
	struct vs_request request;

	ask("vsleep 1 sleep\n\n");
	ck_assert_ptr_nonnull(command.job);
	ck_assert_str_eq(output, "");
	ck_assert(!command.progress);
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.verb, VS_VERB_SLEEP);
	ck_assert_int_eq(request.level, 1);
	ck_assert(request.all_tags);
	ck_assert_uint_eq(request.timeout_ms, 10000);
	ck_assert_int_eq(request.hold, VS_DEFAULT);
	ck_assert(!request.discard_all);
	ck_assert(!request.force);
}
END_TEST

START_TEST(every_key_of_sleep_reaches_the_operation)
{
	struct vs_request request;

	ask("vsleep 1 sleep\nlevel=2\ntags=kv,kv,weights\ntimeout-ms=250\n"
	    "discard-all=yes\nforce=yes\nhold=no\nprogress=yes\n\n");
	ck_assert_ptr_nonnull(command.job);
	ck_assert(command.progress);
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.level, 2);
	ck_assert(!request.all_tags);
	ck_assert_uint_eq(request.tags,
			  (vs_tag_set)1 << vs_tag_find("kv") |
			  (vs_tag_set)1 << vs_tag_find("weights"));
	ck_assert_uint_eq(request.timeout_ms, 250);
	ck_assert(request.discard_all);
	ck_assert(request.force);
	ck_assert_int_eq(request.hold, VS_NO);
}
END_TEST

START_TEST(every_key_of_wake_reaches_the_operation)
{
	struct vs_request request;

	ask("vsleep 1 wake\ntags=kv\nwait-ms=5000\nhold=yes\n\n");
	ck_assert_ptr_nonnull(command.job);
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.verb, VS_VERB_WAKE);
	ck_assert(!request.all_tags);
	ck_assert_uint_eq(request.tags, (vs_tag_set)1 << vs_tag_find("kv"));
	ck_assert_uint_eq(request.wait_ms, 5000);
	ck_assert_int_eq(request.hold, VS_YES);
}
END_TEST

START_TEST(pause_resume_and_quiesce_reach_the_operation)
{
	struct vs_request request;

	ask("vsleep 1 pause\n\n");
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.verb, VS_VERB_PAUSE);
	ck_assert_uint_eq(request.timeout_ms, 10000);
	ask("vsleep 1 pause\ntimeout-ms=7\nprogress=yes\n\n");
	ck_assert(command.progress);
	stub_wait_submitted(2, &request);
	ck_assert_uint_eq(request.timeout_ms, 7);
	ask("vsleep 1 resume\n\n");
	ck_assert_uint_eq(stub_resumed(), 1);
	ck_assert_ptr_null(command.job);
	ck_assert(!command.rests);
	ask("vsleep 1 quiesce\n\n");
	ck_assert(command.rests);
	stub_wait_submitted(3, &request);
	ck_assert_int_eq(request.verb, VS_VERB_QUIESCE);
	ck_assert_uint_eq(request.timeout_ms, 10000);
	ck_assert_uint_eq(request.lease_ms, 60000);
	ask("vsleep 1 quiesce\ntimeout-ms=9\nlease-ms=600000\n\n");
	stub_wait_submitted(4, &request);
	ck_assert_uint_eq(request.timeout_ms, 9);
	ck_assert_uint_eq(request.lease_ms, 600000);
}
END_TEST

START_TEST(trim_waits_for_its_turn_as_any_operation)
{
	struct vs_request request;

	ask("vsleep 1 trim\n\n");
	ck_assert_ptr_nonnull(command.job);
	ck_assert_str_eq(output, "");
	ck_assert(!command.rests);
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.verb, VS_VERB_TRIM);
	ck_assert(!request.dry_run);
	ck_assert_ptr_null(request.rest);
}
END_TEST

START_TEST(cancel_is_answered_at_once_with_a_number)
{
	ask("vsleep 1 sleep\n\n");
	ask("vsleep 1 pause\n\n");
	ask("vsleep 1 cancel\n\n");
	ck_assert_ptr_null(command.job);
	ck_assert(!strncmp(output, "status=ok\ncancelled=2\nstate=awake\n",
			   34));
	assert_one_message();
	ask("vsleep 1 cancel\n\n");
	ck_assert(has_line("cancelled=0"));
}
END_TEST

START_TEST(a_refused_operation_says_why_and_shows_the_state)
{
	stub_answer(VS_REFUSED, "it sleeps by level 1 already");
	ask("vsleep 1 sleep\nlevel=2\n\n");
	ck_assert_ptr_null(command.job);
	ck_assert(!strncmp(output, "status=refused\n", 15));
	ck_assert(has_line("message=it sleeps by level 1 already"));
	ck_assert(has_line("state=awake"));
	assert_one_message();
}
END_TEST

START_TEST(an_unknown_tag_is_refused_and_nothing_is_asked)
{
	ask("vsleep 1 wake\ntags=weights,zzz\n\n");
	ck_assert_ptr_null(command.job);
	ck_assert(!strncmp(output, "status=refused\n", 15));
	ck_assert_ptr_nonnull(strstr(output, "\"zzz\""));
	ck_assert_uint_eq(stub_submitted(), 0);
}
END_TEST

START_TEST(an_empty_list_of_tags_is_refused_and_nothing_is_asked)
{
	ask("vsleep 1 sleep\ntags=\n\n");
	ck_assert_ptr_null(command.job);
	ck_assert(!strncmp(output, "status=refused\nmessage=", 23));
	ck_assert_uint_eq(stub_submitted(), 0);
}
END_TEST

START_TEST(tag_sets_and_clears_the_marker_and_says_so)
{
	ask("vsleep 1 tag\nname=kv\n\n");
	ck_assert(has_line("status=ok"));
	ck_assert(has_line("marker=kv"));
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("kv"));
	ask("vsleep 1 tag\nname=not good\n\n");
	ck_assert(has_line("status=refused"));
	ck_assert(has_line("marker=kv"));
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("kv"));
	ask("vsleep 1 tag\nname=\n\n");
	ck_assert(has_line("status=refused"));
	ask("vsleep 1 tag\nclear=yes\n\n");
	ck_assert(has_line("marker="));
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
}
END_TEST

/* A request, and what the message must name. */
static const char *const wrong[][2] = {
	{ "\n", "vsleep 1 VERB" },
	{ "status\n\n", "vsleep 1 VERB" },
	{ "vsleep 1\n\n", "vsleep 1 VERB" },
	{ "vsleep 1 status now\n\n", "vsleep 1 VERB" },
	{ "vsleep 2 status\n\n", "version 2" },
	{ "vsleep 1 hibernate\n\n", "\"hibernate\"; there are: status sleep" },
	{ "vsleep 1 status\nlevel=1\n\n", "\"level\"" },
	{ "vsleep 1 sleep\nlevels=1\n\n", "\"levels\"; it takes: level" },
	{ "vsleep 1 sleep\nleve=1\n\n", "\"leve\"" },
	{ "vsleep 1 sleep\nlevel tags=1\n\n", "\"level tags\"" },
	{ "vsleep 1 sleep\n=1\n\n", "\"\"" },
	{ "vsleep 1 sleep\nlevel\n\n", "key=value" },
	{ "vsleep 1 sleep\nlevel=1\nlevel=2\n\n", "level is given twice" },
	{ "vsleep 1 sleep\nlevel=\n\n", "from 1 to 2" },
	{ "vsleep 1 sleep\nlevel=0\n\n", "level=0" },
	{ "vsleep 1 sleep\nlevel=3\n\n", "level=3" },
	{ "vsleep 1 sleep\nlevel=1x\n\n", "level=1x" },
	{ "vsleep 1 sleep\nlevel=-1\n\n", "level=-1" },
	{ "vsleep 1 sleep\nlevel=18446744073709551617\n\n", "from 1 to 2" },
	{ "vsleep 1 sleep\ntimeout-ms=0\n\n", "timeout-ms=0" },
	{ "vsleep 1 sleep\ntimeout-ms=86400001\n\n", "to 86400000" },
	{ "vsleep 1 sleep\ndiscard-all=maybe\n\n", "yes or no" },
	{ "vsleep 1 sleep\nforce=1\n\n", "force=1" },
	{ "vsleep 1 sleep\nhold=\n\n", "yes or no" },
	{ "vsleep 1 sleep\nwait-ms=5\n\n", "\"wait-ms\"" },
	{ "vsleep 1 sleep\ndry-run=maybe\n\n", "dry-run=maybe" },
	{ "vsleep 1 pause\nlevel=1\n\n", "\"level\"" },
	{ "vsleep 1 pause\ntimeout-ms=0\n\n", "timeout-ms=0" },
	{ "vsleep 1 resume\ntimeout-ms=1\n\n", "it takes: none" },
	{ "vsleep 1 cancel\nprogress=yes\n\n", "it takes: none" },
	{ "vsleep 1 trim\ntags=kv\n\n", "it takes: none" },
	{ "vsleep 1 trim\nprogress=yes\n\n", "it takes: none" },
	{ "vsleep 1 config\nname=x\n\n", "it takes: none" },
	{ "vsleep 1 quiesce\nlease-ms=0\n\n", "from 1 to 600000" },
	{ "vsleep 1 quiesce\nlease-ms=600001\n\n", "from 1 to 600000" },
	{ "vsleep 1 quiesce\ntags=kv\n\n", "\"tags\"" },
	{ "vsleep 1 wake\nlevel=1\n\n", "\"level\"" },
	{ "vsleep 1 wake\nwait-ms=soon\n\n", "wait-ms=soon" },
	{ "vsleep 1 tag\n\n", "name=NAME or clear=yes" },
	{ "vsleep 1 tag\nclear=no\n\n", "name=NAME or clear=yes" },
	{ "vsleep 1 tag\nname=kv\nclear=yes\n\n", "name=NAME or clear=yes" },
};

START_TEST(a_wrong_request_is_named_and_changes_nothing)
{
	assert_bad(wrong[_i][0], wrong[_i][1]);
}
END_TEST

START_TEST(a_request_is_whole_only_with_its_empty_line)
{
	static const char request[] = "vsleep 1 status\n\nvsleep";
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };
	size_t whole = strlen("vsleep 1 status\n\n");
	size_t len;

	for (len = 0; len < whole; len++)
		ck_assert_int_eq(vs_command_scan(request, len, &text), 0);
	ck_assert_int_eq(vs_command_scan(request, whole, &text), (int)whole);
	ck_assert_int_eq(vs_command_scan(request, strlen(request), &text),
			 (int)whole);
	ck_assert_uint_eq(text.len, 0);
}
END_TEST

START_TEST(bytes_that_are_no_text_end_the_conversation)
{
	static const char *const requests[] = {
		"\x7f\x45LF", "vsleep 1 sleep\ntags=\xc3\xa9\n", "a\tb",
		"vsleep 1 status\r\n\r\n",
	};
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };

	ck_assert_int_eq(vs_command_scan(requests[_i], strlen(requests[_i]),
					 &text), -1);
	output[text.len] = '\0';
	ck_assert(has_line("status=bad-request"));
	ck_assert_ptr_nonnull(strstr(output, "offset"));
	assert_one_message();
}
END_TEST

START_TEST(a_request_that_does_not_end_is_refused_when_the_buffer_is_full)
{
	static char request[VS_COMMAND_MAX];
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };

	memset(request, 'a', sizeof(request));
	ck_assert_int_eq(vs_command_scan(request, sizeof(request) - 1, &text),
			 0);
	ck_assert_int_eq(vs_command_scan(request, sizeof(request), &text), -1);
	output[text.len] = '\0';
	ck_assert_ptr_nonnull(strstr(output, "longer than 8192 bytes"));
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, sleep_without_keys_is_level_one_of_all_tags);
	tcase_add_test(tc, every_key_of_sleep_reaches_the_operation);
	tcase_add_test(tc, every_key_of_wake_reaches_the_operation);
	tcase_add_test(tc, pause_resume_and_quiesce_reach_the_operation);
	tcase_add_test(tc, trim_waits_for_its_turn_as_any_operation);
	tcase_add_test(tc, cancel_is_answered_at_once_with_a_number);
	tcase_add_test(tc, a_refused_operation_says_why_and_shows_the_state);
	tcase_add_test(tc, an_unknown_tag_is_refused_and_nothing_is_asked);
	tcase_add_test(tc,
		       an_empty_list_of_tags_is_refused_and_nothing_is_asked);
	tcase_add_test(tc, tag_sets_and_clears_the_marker_and_says_so);
	tcase_add_loop_test(tc, a_wrong_request_is_named_and_changes_nothing,
			    0, sizeof(wrong) / sizeof(wrong[0]));
	tcase_add_test(tc, a_request_is_whole_only_with_its_empty_line);
	tcase_add_loop_test(tc, bytes_that_are_no_text_end_the_conversation,
			    0, 4);
	tcase_add_test(tc,
		a_request_that_does_not_end_is_refused_when_the_buffer_is_full);
}

int main(void)
{
	return command_main("command", fill);
}
