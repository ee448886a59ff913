/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "command_fixture.h"

#include "base/config.h"
#include "base/tag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTIFY 77	/* no descriptor: handed through, not used */

char output[VS_REPLY_MAX + 1];
struct vs_command command;

static void setup(void)
{
	vs_config.timeout_ms = 10000;
	vs_tag_init("default", "weights=offload,kv=discard");
	stub_ledger.state = VS_AWAKE;
	stub_ledger.sequence = 4;
}

void ask(const char *request)
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

bool has_line(const char *line)
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

void assert_one_message(void)
{
	char *end = strstr(output, "\n\n");

	ck_assert_ptr_nonnull(end);
	ck_assert_str_eq(end, "\n\n");
}

int command_main(const char *name, void (*fill)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	fill(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
