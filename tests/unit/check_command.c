/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "stub_operation.h"

#include "base/config.h"
#include "base/tag.h"
#include "control/command.h"
#include "control/reply.h"
#include "sleep/gate.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTIFY 77	/* no descriptor: handed through, not used */

static char output[VS_REPLY_MAX + 1];
static struct vs_command command;

static void setup(void)
{
	vs_config.timeout_ms = 10000;
	vs_tag_init("default", "weights=offload,kv=discard");
	stub_ledger.state = VS_AWAKE;
	stub_ledger.sequence = 4;
}

/* Scan and run @request; the answer is in output, the job in command. */
static void ask(const char *request)
{
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };
	char copy[VS_COMMAND_MAX];
	int len;

	memset(&command, 0, sizeof(command));
	command.notify_fd = NOTIFY;
	snprintf(copy, sizeof(copy), "%s", request);
	len = vs_command_scan(copy, strlen(copy), &text);
	ck_assert_int_eq(len, (int)strlen(request));
	vs_command_run(copy, len, &command, &text);
	ck_assert(!text.full);
	output[text.len] = '\0';
}

static bool has_line(const char *line)
{
	const char *at = output;
	size_t len = strlen(line);

	while ((at = strstr(at, line))) {
		if ((at == output || at[-1] == '\n') && at[len] == '\n')
			return true;
		at += len;
	}
	return false;
}

static void assert_one_message(void)
{
	char *end = strstr(output, "\n\n");

	ck_assert_ptr_nonnull(end);
	ck_assert_str_eq(end, "\n\n");
}

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

START_TEST(status_is_answered_at_once_with_the_ledger)
{
	char line[64];

	stub_ledger.live_bytes = 5000000000;
	stub_ledger.resident_bytes = 6000000000;
	stub_ledger.unmanaged[VS_UNMANAGED_POOL] = 42;
	ask("vsleep 1 status\n\n");
	ck_assert(!strncmp(output, "status=ok\nstate=awake\n", 22));
	ck_assert(has_line("sequence=4"));
	ck_assert(has_line("live-bytes=5000000000"));
	ck_assert(has_line("resident-bytes=6000000000"));
	ck_assert(has_line("evicted-bytes=0"));
	snprintf(line, sizeof(line), "unmanaged-%s-bytes=42",
		 vs_unmanaged_word(VS_UNMANAGED_POOL));
	ck_assert(has_line(line));
	snprintf(line, sizeof(line), "unmanaged-%s-bytes=0",
		 vs_unmanaged_word(VS_UNMANAGED_ARRAY));
	ck_assert(!has_line(line));
	snprintf(line, sizeof(line), "pid=%d", (int)getpid());
	ck_assert(has_line(line));
	ck_assert(has_line("version=" PACKAGE_VERSION));
	ck_assert_ptr_null(strstr(output, "message="));
	ck_assert_ptr_null(strstr(output, "last-error="));
	ck_assert_ptr_null(strstr(output, "remedy="));
	ck_assert_ptr_null(command.job);
	assert_one_message();
}
END_TEST

START_TEST(status_has_a_line_for_each_tag)
{
	stub_ledger.tags_count = 2;
	stub_ledger.tags[0] = (struct vs_ledger_tag){
		.tag = 0, .policy = VS_POLICY_OFFLOAD, .state = VS_ASLEEP,
		.allocations = 3, .live_bytes = 10, .evicted_bytes = 20,
		.host_bytes = 15,
	};
	stub_ledger.tags[1] = (struct vs_ledger_tag){
		.tag = 1, .policy = VS_POLICY_DISCARD, .state = VS_AWAKE,
		.resident_bytes = 7, .lost_bytes = 8,
	};
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("tag=weights policy=offload state=asleep "
			   "allocations=3 live-bytes=10 resident-bytes=0 "
			   "evicted-bytes=20 backed-up-bytes=15 "
			   "lost-bytes=0"));
	ck_assert(has_line("tag=kv policy=discard state=awake allocations=0 "
			   "live-bytes=0 resident-bytes=7 evicted-bytes=0 "
			   "backed-up-bytes=0 lost-bytes=8"));
}
END_TEST

START_TEST(the_longest_status_fits_the_buffer)
{
	char name[VS_TAG_NAME_MAX + 1];
	int i;

	for (i = 0; i < VS_TAG_MAX; i++) {
		stub_ledger.tags[i] = (struct vs_ledger_tag){
			.tag = i, .policy = VS_POLICY_OFFLOAD,
			.state = VS_PARTLY, .allocations = UINT64_MAX,
			.live_bytes = UINT64_MAX,
			.resident_bytes = UINT64_MAX,
			.evicted_bytes = UINT64_MAX,
			.host_bytes = UINT64_MAX, .lost_bytes = UINT64_MAX,
		};
		memset(name, 'x', sizeof(name));
		name[0] = (char)('A' + i / 8);
		name[1] = (char)('A' + i % 8);
		name[VS_TAG_NAME_MAX] = '\0';
		if (i >= vs_tag_count())
			ck_assert_int_eq(vs_tag_mark(name, NULL), VS_OK);
	}
	ck_assert_int_eq(vs_tag_count(), VS_TAG_MAX);
	stub_ledger.tags_count = VS_TAG_MAX;
	memset(stub_ledger.last.kept_why, 'k',
	       sizeof(stub_ledger.last.kept_why) - 1);
	stub_ledger.last.error.status = VS_NOMEM;
	memset(stub_ledger.last.error.text, 'e',
	       sizeof(stub_ledger.last.error.text) - 1);
	stub_ledger.ipc_refused = true;
	ask("vsleep 1 status\n\n");
	assert_one_message();
}
END_TEST

START_TEST(decimals_have_a_point_in_every_locale)
{
	/* Where none of these is installed the C locale proves less. */
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		setlocale(LC_ALL, "fr_FR.UTF-8");
	stub_ledger.last.seconds = 1.5304;
	stub_ledger.last.drain_seconds = 0.0304;
	stub_ledger.last.copied_bytes = 3ull << 30;
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("seconds=1.530"));
	ck_assert(has_line("drain-seconds=0.030"));
	ck_assert(has_line("gib-per-second=2.0"));
}
END_TEST

START_TEST(troubles_are_said_on_one_line_each)
{
	stub_ledger.unhooked = 2;
	strcpy(stub_ledger.unhooked_name, "cuNew");
	stub_ledger.ipc_refused = true;
	stub_ledger.holds = VS_HOLD_OPERATION | VS_HOLD_ASLEEP;
	stub_ledger.last.error.status = VS_BUSY;
	strcpy(stub_ledger.last.error.text, "two\nlines\x01");
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("unhooked=2"));
	ck_assert(has_line("unhooked-name=cuNew"));
	ck_assert(has_line("holds=operation,asleep"));
	ck_assert(has_line("last-error=busy: two?lines?"));
	ck_assert_ptr_nonnull(strstr(output, "VSLEEP_TAG="));
	assert_one_message();
}
END_TEST

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

START_TEST(an_answer_that_does_not_fit_says_so)
{
	char small[100];
	struct vs_text text = { .buf = small, .size = sizeof(small) };
	struct vs_reply reply = { .status = VS_OK };

	vs_reply_write(&text, &reply);
	ck_assert(text.full);
	ck_assert_uint_lt(text.len, sizeof(small));
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("command");
	TCase *tc = tcase_create("command");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, status_is_answered_at_once_with_the_ledger);
	tcase_add_test(tc, status_has_a_line_for_each_tag);
	tcase_add_test(tc, the_longest_status_fits_the_buffer);
	tcase_add_test(tc, decimals_have_a_point_in_every_locale);
	tcase_add_test(tc, troubles_are_said_on_one_line_each);
	tcase_add_test(tc, sleep_without_keys_is_level_one_of_all_tags);
	tcase_add_test(tc, every_key_of_sleep_reaches_the_operation);
	tcase_add_test(tc, every_key_of_wake_reaches_the_operation);
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
	tcase_add_test(tc, an_answer_that_does_not_fit_says_so);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(make_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
