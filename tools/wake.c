/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl wake [OPTION...] PID...\n"
	"\n"
	"Bring the GPU memory of processes back and let them run on.\n"
	"\n"
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	"  --wait SECONDS         try so long for memory that others hold\n"
	"  --no-hold              let it run though other tags still sleep\n"
	COMMON_HELP;

struct wake {
	struct common common;
	struct request request;
};

enum { OPT_TAGS = OPT_OWN, OPT_WAIT, OPT_NO_HOLD };

static const struct option options[] = {
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
	COMMON_OPTIONS
};

static void print_lost(const struct answer *answer)
{
	char lost[SIZE_TEXT];
	struct tag tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		if (tag_number(&tag, "lost-bytes"))
			printf("  %s came back without its content: %s are "
			       "zero\n", tag_text(&tag, "tag"),
			       print_size(tag_number(&tag, "lost-bytes"),
					  lost));
	}
}

static void sentence(const struct answer *answer)
{
	char restored[SIZE_TEXT], copied[SIZE_TEXT], asleep[SIZE_TEXT];
	const char *speed = answer_text(answer, "gib-per-second");

	printf("%s %s: %s restored (%s copied%s%s%s), %s asleep, %s s\n",
	       answer_text(answer, "pid"), answer_text(answer, "state"),
	       print_size(answer_number(answer, "restored-bytes"), restored),
	       print_size(answer_number(answer, "copied-bytes"), copied),
	       speed[0] ? " at " : "", speed, speed[0] ? " GiB/s" : "",
	       print_size(answer_number(answer, "evicted-bytes"), asleep),
	       answer_text(answer, "seconds"));
	print_lost(answer);
}

static enum outcome act(pid_t pid, void *arg)
{
	const struct wake *wake = arg;
	static struct answer answer;
	struct connection connection;
	enum outcome outcome;
	bool asked;

	asked = client_connect(pid, &connection) &&
		client_ask(&connection, &wake->request, print_progress,
			   &answer);
	print_progress_end();
	if (asked)
		outcome = print_result(connection.pid, &answer, &wake->common,
				       sentence);
	else
		outcome = print_failure(connection.pid, &wake->common,
					connection.outcome, connection.why);
	client_close(&connection);
	return outcome;
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, struct wake *wake)
{
	unsigned ms;

	switch (value) {
	case OPT_TAGS:
		return request_add(&wake->request, "tags", optarg);
	case OPT_WAIT:
		if (!parse_seconds(optarg, &ms)) {
			usage_error("--wait %s: must be seconds, from 0 to "
				    "86400", optarg);
			return false;
		}
		return request_add_number(&wake->request, "wait-ms", ms);
	default:
		return request_add(&wake->request, "hold", "no");
	}
}

enum outcome wake_main(int argc, char **argv)
{
	struct wake wake = { .common = { .format = AUTOMATIC } };
	enum outcome outcome;
	int value;

	request_start(&wake.request, "wake");
	request_add(&wake.request, "progress", "yes");
	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (value >= OPT_OWN) {
			if (!take_option(value, &wake))
				return USAGE;
		} else if (!common_option(value, help, &wake.common,
					  &outcome)) {
			return outcome;
		}
	}
	common_settle(&wake.common);
	return for_each_process(argv + optind, act, &wake);
}
