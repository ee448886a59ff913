/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdio.h>
#include <string.h>

#define RETRY_MS 100

static const char help[] =
	"usage: vsleepctl sleep [OPTION...] PID...\n"
	"\n"
	"Give the GPU memory of processes back.  They are held until they\n"
	"wake.\n"
	"\n"
	"  --level 1|2            1 keeps the bytes, 2 drops them (default 1)\n"
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	"  --timeout SECONDS      let running work end within so long\n"
	"  --wait SECONDS         try again for so long while it is busy\n"
	"  --discard-all          let --level 2 drop everything\n"
	"  --force                despite calls that vsleep cannot see\n"
	COMMON_HELP;

struct sleep {
	struct common common;
	struct request request;
	const char *tags;	/* NULL: all */
	unsigned wait_ms;
};

enum { OPT_LEVEL = OPT_OWN, OPT_TAGS, OPT_TIMEOUT, OPT_WAIT, OPT_DISCARD,
       OPT_FORCE };

static const struct option options[] = {
	{ "level", required_argument, NULL, OPT_LEVEL },
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "discard-all", no_argument, NULL, OPT_DISCARD },
	{ "force", no_argument, NULL, OPT_FORCE },
	COMMON_OPTIONS
};

static void sentence(const struct answer *answer)
{
	char released[SIZE_TEXT], copied[SIZE_TEXT], kept[SIZE_TEXT];
	char rest[SIZE_TEXT];
	const char *speed = answer_text(answer, "gib-per-second");

	printf("%s %s: %s released (%s copied%s%s%s), %s kept, %s unmanaged, "
	       "%s s\n", answer_text(answer, "pid"),
	       answer_text(answer, "state"),
	       print_size(answer_number(answer, "released-bytes"), released),
	       print_size(answer_number(answer, "copied-bytes"), copied),
	       speed[0] ? " at " : "", speed, speed[0] ? " GiB/s" : "",
	       print_size(answer_number(answer, "kept-bytes"), kept),
	       print_size(answer_number(answer, "unmanaged-bytes"), rest),
	       answer_text(answer, "seconds"));
}

static bool in_list(const char *list, const char *name)
{
	size_t len = strlen(name);
	const char *at;

	for (at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	}
	return false;
}

/* An orchestrator that believes "ok" starts the next job on a full GPU. */
static bool nothing_sleeps(const struct answer *answer, const char *tags)
{
	struct tag tag;
	int i;

	if (!answer_number(answer, "resident-bytes") &&
	    !answer_number(answer, "unmanaged-bytes"))
		return false;
	if (!tags)
		return !answer_number(answer, "evicted-bytes");
	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		if (in_list(tags, tag_text(&tag, "tag")) &&
		    tag_number(&tag, "evicted-bytes"))
			return false;
	}
	return true;
}

static enum outcome judge(const struct answer *answer, pid_t pid,
			  const struct sleep *sleep)
{
	char resident[SIZE_TEXT], rest[SIZE_TEXT];
	enum outcome outcome;

	outcome = print_result(pid, answer, &sleep->common, sentence);
	if (outcome != DONE || !nothing_sleeps(answer, sleep->tags))
		return outcome;
	complain(pid, "nothing was released: it holds %s resident and %s that "
		 "vsleep does not manage",
		 print_size(answer_number(answer, "resident-bytes"), resident),
		 print_size(answer_number(answer, "unmanaged-bytes"), rest));
	return PARTIAL;
}

static enum outcome act(pid_t pid, void *arg)
{
	const struct sleep *sleep = arg;
	double deadline = now() + sleep->wait_ms / 1000.0;
	static struct answer answer;
	struct connection connection;
	enum outcome outcome;
	bool asked;

	asked = client_connect(pid, &connection) &&
		client_ask(&connection, &sleep->request, print_progress,
			   &answer);
	while (asked && !strcmp(answer_text(&answer, "status"), "busy") &&
	       now() < deadline) {
		pause_ms(RETRY_MS);
		asked = client_ask(&connection, &sleep->request,
				   print_progress, &answer);
	}
	print_progress_end();
	if (asked)
		outcome = judge(&answer, connection.pid, sleep);
	else
		outcome = print_failure(connection.pid, &sleep->common,
					connection.outcome, connection.why);
	client_close(&connection);
	return outcome;
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, struct sleep *sleep)
{
	unsigned ms;

	switch (value) {
	case OPT_LEVEL:
		if (strcmp(optarg, "1") && strcmp(optarg, "2")) {
			usage_error("--level %s: must be 1 or 2", optarg);
			return false;
		}
		return request_add(&sleep->request, "level", optarg);
	case OPT_TAGS:
		sleep->tags = optarg;
		return request_add(&sleep->request, "tags", optarg);
	case OPT_TIMEOUT:
		if (!parse_seconds(optarg, &ms) || !ms) {
			usage_error("--timeout %s: must be seconds, from 0.001 "
				    "to 86400", optarg);
			return false;
		}
		return request_add_number(&sleep->request, "timeout-ms", ms);
	case OPT_WAIT:
		if (parse_seconds(optarg, &sleep->wait_ms))
			return true;
		usage_error("--wait %s: must be seconds, from 0 to 86400",
			    optarg);
		return false;
	case OPT_DISCARD:
		return request_add(&sleep->request, "discard-all", "yes");
	default:
		return request_add(&sleep->request, "force", "yes");
	}
}

enum outcome sleep_main(int argc, char **argv)
{
	struct sleep sleep = { .tags = NULL };
	enum outcome outcome;
	int value;

	request_start(&sleep.request, "sleep");
	request_add(&sleep.request, "progress", "yes");
	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (value >= OPT_OWN) {
			if (!take_option(value, &sleep))
				return USAGE;
		} else if (!common_option(value, help, &sleep.common,
					  &outcome)) {
			return outcome;
		}
	}
	common_settle(&sleep.common);
	return for_each_process(argv + optind, act, &sleep);
}
