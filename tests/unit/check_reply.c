/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: every field, one line each, whatever it is made of. */
#include <config.h>

#include "command_fixture.h"

#include "base/config.h"
#include "base/tag.h"
#include "sleep/gate.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
	for (i = 0; i < VS_KEPT_MAX; i++) {
		stub_ledger.last.kept[i].bytes = UINT64_MAX;
		memset(stub_ledger.last.kept[i].why, 'k',
		       sizeof(stub_ledger.last.kept[i].why) - 1);
	}
	stub_ledger.devices_count = VS_LEDGER_DEVICES;
	for (i = 0; i < VS_LEDGER_DEVICES; i++) {
		stub_ledger.devices[i] = (struct vs_ledger_device){
			.device = 99, .contexts = 99,
			.resident_bytes = UINT64_MAX,
			.evicted_bytes = UINT64_MAX,
		};
		memset(stub_ledger.devices[i].uuid, 'u',
		       sizeof(stub_ledger.devices[i].uuid) - 1);
		memset(stub_ledger.devices[i].bus, 'b',
		       sizeof(stub_ledger.devices[i].bus) - 1);
	}
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
	ck_assert_ptr_nonnull(strstr(output, "VSLEEP_IPC="));
	assert_one_message();
}
END_TEST

START_TEST(a_dry_run_is_asked_for_and_says_what_it_found)
{
	struct vs_outlook outlook = {
		.filled = true, .release_bytes = 11, .keep_bytes = 12,
		.host_bytes = 13, .host_available = 14, .obstacle_count = 2,
		.obstacles = { "one thing", "another\nthing" },
	};
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };
	struct vs_reply reply;
	struct vs_request request;

	stub_foretell(&outlook);
	stub_at_once();
	ask("vsleep 1 sleep\ndry-run=yes\n\n");
	stub_wait_submitted(1, &request);
	ck_assert(request.dry_run);
	ck_assert(vs_operation_done(command.job, &reply));
	vs_reply_write(&text, &reply);
	output[text.len] = '\0';
	ck_assert_ptr_nonnull(strstr(output, "version=" PACKAGE_VERSION "\n"
				     "would-release-bytes=11\n"
				     "would-keep-bytes=12\n"
				     "host-needed-bytes=13\n"
				     "host-available-bytes=14\n"
				     "obstacle=one thing\n"
				     "obstacle=another?thing\n\n"));
	ask("vsleep 1 sleep\ndry-run=no\n\n");
	stub_wait_submitted(2, &request);
	ck_assert(!request.dry_run);
	ask("vsleep 1 status\n\n");
	ck_assert_ptr_null(strstr(output, "would-"));
}
END_TEST

START_TEST(where_backups_are_and_what_was_not_copied_is_told)
{
	stub_ledger.held_bytes = 11;
	stub_ledger.retained_bytes = 12;
	stub_ledger.spilled_bytes = 13;
	stub_ledger.last.copied_bytes = 14;
	stub_ledger.last.unchanged_bytes = 15;
	stub_ledger.last.zero_bytes = 5000000000;
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("host-bytes=11"));
	ck_assert(has_line("retained-bytes=12"));
	ck_assert(has_line("spilled-bytes=13"));
	ck_assert(has_line("copied-bytes=14"));
	ck_assert(has_line("unchanged-bytes=15"));
	ck_assert(has_line("zero-bytes=5000000000"));
	ck_assert_ptr_null(strstr(output, "trimmed-bytes="));
	assert_one_message();
}
END_TEST

/* Also where it is nothing. */
START_TEST(a_trim_says_what_it_gave_back_and_others_do_not)
{
	struct vs_text text = { .buf = output, .size = VS_REPLY_MAX };
	struct vs_reply reply = { .trimmed_bytes = 77 };

	vs_reply_write(&text, &reply);
	output[text.len] = '\0';
	ck_assert_ptr_null(strstr(output, "trimmed-bytes="));
	text.len = 0;
	reply.trimmed = true;
	vs_reply_write(&text, &reply);
	output[text.len] = '\0';
	ck_assert(has_line("trimmed-bytes=77"));
	assert_one_message();
	text.len = 0;
	reply.trimmed_bytes = 0;
	vs_reply_write(&text, &reply);
	output[text.len] = '\0';
	ck_assert(has_line("trimmed-bytes=0"));
}
END_TEST

START_TEST(config_has_a_line_for_each_setting)
{
	vs_config_read();
	ask("vsleep 1 config\n\n");
	ck_assert(!strncmp(output, "status=ok\nsetting=", 18));
	ck_assert(has_line("setting=VSLEEP_ONLY source=default value="));
	ck_assert(has_line("setting=VSLEEP_SIGNALS source=default "
			   "value=USR1,USR2"));
	ck_assert_ptr_null(strstr(output, "state="));
	assert_one_message();
}
END_TEST

START_TEST(what_was_kept_is_told_by_reason)
{
	stub_ledger.last.kept_bytes = 30;
	stub_ledger.last.kept[0].bytes = 10;
	strcpy(stub_ledger.last.kept[0].why, "one reason");
	stub_ledger.last.kept[1].bytes = 20;
	strcpy(stub_ledger.last.kept[1].why, "policy keep");
	ask("vsleep 1 status\n\n");
	ck_assert_ptr_nonnull(strstr(output, "\nkept-bytes=30\n"
				     "kept=10 one reason\n"
				     "kept=20 policy keep\n"
				     "kept-why=one reason\n"));
}
END_TEST

START_TEST(status_has_a_line_for_each_device_and_says_who_is_paused)
{
	stub_ledger.devices_count = 1;
	stub_ledger.devices[0] = (struct vs_ledger_device){
		.device = 3, .uuid = "GPU-x", .bus = "0000:41:00.0",
		.vmm = true, .contexts = 2, .resident_bytes = 5,
		.evicted_bytes = 6,
	};
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("device=3 uuid=GPU-x bus=0000:41:00.0 vmm=yes "
			   "contexts=2 resident-bytes=5 evicted-bytes=6"));
	ck_assert(has_line("paused=no"));
	stub_ledger.holds = VS_HOLD_OPERATOR;
	stub_ledger.devices[0].vmm = false;
	ask("vsleep 1 status\n\n");
	ck_assert(has_line("paused=yes"));
	ck_assert(has_line("holds=operator"));
	ck_assert_ptr_nonnull(strstr(output, " vmm=no "));
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

static void fill(TCase *tc)
{
	tcase_add_test(tc, status_is_answered_at_once_with_the_ledger);
	tcase_add_test(tc, status_has_a_line_for_each_tag);
	tcase_add_test(tc, the_longest_status_fits_the_buffer);
	tcase_add_test(tc, decimals_have_a_point_in_every_locale);
	tcase_add_test(tc, troubles_are_said_on_one_line_each);
	tcase_add_test(tc, a_dry_run_is_asked_for_and_says_what_it_found);
	tcase_add_test(tc,
		where_backups_are_and_what_was_not_copied_is_told);
	tcase_add_test(tc, a_trim_says_what_it_gave_back_and_others_do_not);
	tcase_add_test(tc, config_has_a_line_for_each_setting);
	tcase_add_test(tc, what_was_kept_is_told_by_reason);
	tcase_add_test(tc,
		status_has_a_line_for_each_device_and_says_who_is_paused);
	tcase_add_test(tc, an_answer_that_does_not_fit_says_so);
}

int main(void)
{
	return command_main("reply", fill);
}
