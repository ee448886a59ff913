/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl list [OPTION...]\n"
	"\n"
	"The processes that can be put to sleep.\n"
	"\n"
	"  --json                 one JSON array\n"
	"  --plain                key=value lines, also on a terminal\n"
	"  --help                 this text\n";

struct listing {
	struct common common;
	json_t *array;
	int count;
};

static void see_human(struct listing *listing, pid_t pid, const char *name,
		      const char *state, const struct answer *answer)
{
	char resident[SIZE_TEXT], asleep[SIZE_TEXT];

	if (!listing->count)
		printf("%8s  %-10s  %12s  %12s  %s\n", "PID", "STATE",
		       "RESIDENT", "ASLEEP", "NAME");
	printf("%8d  %-10s  %12s  %12s  %s\n", (int)pid, state,
	       print_size(answer_number(answer, "resident-bytes"), resident),
	       print_size(answer_number(answer, "evicted-bytes"), asleep),
	       name);
}

static void see(struct connection *connection, void *arg)
{
	struct listing *listing = arg;
	struct request request;
	static struct answer answer;
	const char *name, *state;
	pid_t pid;

	request_start(&request, "status");
	if (!client_ask(connection, &request, NULL, &answer)) {
		if (connection->outcome == NO_PROCESS)
			return;
		answer_start(&answer);
	}
	/* Seen from another namespace its own number is not ours. */
	pid = connection->pid > 0 ? connection->pid
				  : (pid_t)answer_number(&answer, "pid");
	name = answer_text(&answer, "name");
	state = answer.count ? answer_text(&answer, "state") : "no-answer";
	if (listing->array)
		json_array_append_new(listing->array, json_pack(
			"{s:i, s:s, s:I, s:I, s:s}", "pid", (int)pid,
			"state", state, "resident-bytes",
			(json_int_t)answer_number(&answer, "resident-bytes"),
			"evicted-bytes",
			(json_int_t)answer_number(&answer, "evicted-bytes"),
			"name", name));
	else if (listing->common.human)
		see_human(listing, pid, name, state, &answer);
	else
		printf("pid=%d state=%s resident-bytes=%llu "
		       "evicted-bytes=%llu name=%s\n", (int)pid, state,
		       answer_number(&answer, "resident-bytes"),
		       answer_number(&answer, "evicted-bytes"), name);
	listing->count++;
}

enum outcome list_main(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS };
	struct listing listing = { .count = 0 };
	enum outcome outcome;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!common_option(value, help, &listing.common, &outcome))
			return outcome;
	if (argv[optind])
		return usage_error("list takes no process");
	common_settle(&listing.common);
	if (listing.common.format == JSON)
		listing.array = json_array();
	client_each(see, &listing);
	if (listing.array)
		print_json(listing.array);
	else if (listing.common.human && !listing.count)
		printf("no process can be put to sleep; start one by "
		       "vsleepctl run PROGRAM\n");
	return DONE;
}
