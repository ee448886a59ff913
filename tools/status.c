/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl status [OPTION...] PID...\n"
	"\n"
	"What a process holds and what sleeps.\n"
	"\n"
	COMMON_HELP;

static void print_tags(const struct answer *answer)
{
	char resident[SIZE_TEXT], asleep[SIZE_TEXT], host[SIZE_TEXT];
	struct tag tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		printf("  %s (%s) %s: %s resident, %s asleep, %s backed up\n",
		       tag_text(&tag, "tag"), tag_text(&tag, "policy"),
		       tag_text(&tag, "state"),
		       print_size(tag_number(&tag, "resident-bytes"),
				  resident),
		       print_size(tag_number(&tag, "evicted-bytes"), asleep),
		       print_size(tag_number(&tag, "backed-up-bytes"), host));
	}
}

static void sentence(const struct answer *answer)
{
	static const char *const troubles[] = {
		"unhooked-name", "last-error", "remedy", NULL
	};
	char resident[SIZE_TEXT], asleep[SIZE_TEXT], rest[SIZE_TEXT];
	int i;

	printf("%s %s %s: %s allocations, %s resident, %s asleep, "
	       "%s unmanaged, %s calls held\n", answer_text(answer, "pid"),
	       answer_text(answer, "name"), answer_text(answer, "state"),
	       answer_text(answer, "allocations"),
	       print_size(answer_number(answer, "resident-bytes"), resident),
	       print_size(answer_number(answer, "evicted-bytes"), asleep),
	       print_size(answer_number(answer, "unmanaged-bytes"), rest),
	       answer_text(answer, "held-now"));
	print_tags(answer);
	for (i = 0; troubles[i]; i++)
		if (answer_text(answer, troubles[i])[0])
			printf("  %s: %s\n", troubles[i],
			       answer_text(answer, troubles[i]));
}

static enum outcome act(pid_t pid, void *arg)
{
	const struct common *common = arg;
	static struct answer answer;
	struct connection connection;
	struct request request;
	enum outcome outcome;

	request_start(&request, "status");
	if (client_connect(pid, &connection) &&
	    client_ask(&connection, &request, NULL, &answer))
		outcome = print_result(connection.pid, &answer, common,
				       sentence);
	else
		outcome = print_failure(connection.pid, common,
					connection.outcome, connection.why);
	client_close(&connection);
	return outcome;
}

enum outcome status_main(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS };
	struct common common = { .format = AUTOMATIC };
	enum outcome outcome;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!common_option(value, help, &common, &outcome))
			return outcome;
	common_settle(&common);
	return for_each_process(argv + optind, act, &common);
}
