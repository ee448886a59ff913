/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "group.h"
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

static void add(struct connection *connection, void *arg)
{
	group_add(arg, connection);
}

static bool paused(const struct answer *answer)
{
	return answer_text(answer, "paused")[0] == 'y';
}

static void print_row(pid_t pid, const char *state,
		      const struct answer *answer)
{
	char resident[SIZE_TEXT], asleep[SIZE_TEXT];
	char word[32];

	snprintf(word, sizeof(word), "%.15s%s", state,
		 paused(answer) ? ",paused" : "");
	printf("%8d  %-14s  %12s  %12s  %s\n", (int)pid, word,
	       print_size(answer_number(answer, "resident-bytes"), resident),
	       print_size(answer_number(answer, "evicted-bytes"), asleep),
	       answer_text(answer, "name"));
}

static void print_line(pid_t pid, const char *state,
		       const struct answer *answer)
{
	printf("pid=%d state=%s resident-bytes=%llu evicted-bytes=%llu "
	       "paused=%s name=%s\n", (int)pid, state,
	       answer_number(answer, "resident-bytes"),
	       answer_number(answer, "evicted-bytes"),
	       paused(answer) ? "yes" : "no", answer_text(answer, "name"));
}

static json_t *object(pid_t pid, const char *state,
		      const struct answer *answer)
{
	return json_pack("{s:i, s:s, s:I, s:I, s:s, s:o}", "pid", (int)pid,
			 "state", state, "resident-bytes",
			 (json_int_t)answer_number(answer, "resident-bytes"),
			 "evicted-bytes",
			 (json_int_t)answer_number(answer, "evicted-bytes"),
			 "paused", paused(answer) ? "yes" : "no",
			 "name", print_string(answer_text(answer, "name")));
}

/* True when it was worth a line: what has ended since is not. */
static bool show(struct member *member, const struct common *common,
		 json_t *array)
{
	const char *state = "no-answer";
	pid_t pid = member->connection.pid;

	if (member_ended(member))
		return false;
	if (member->answered)
		state = answer_text(member->answer, "state");
	else
		answer_start(member->answer);
	/* Seen from another namespace its own number is not ours. */
	if (pid <= 0)
		pid = (pid_t)answer_number(member->answer, "pid");
	if (array)
		json_array_append_new(array,
				      object(pid, state, member->answer));
	else if (common->human)
		print_row(pid, state, member->answer);
	else
		print_line(pid, state, member->answer);
	return true;
}

static void list(const struct common *common)
{
	json_t *array = common->format == JSON ? json_array() : NULL;
	struct group group = { .count = 0 };
	struct request request;
	int shown = 0;
	int i;

	request_start(&request, "status");
	client_each(add, &group);
	group_ask_all(&group, &request, PATIENCE_EACH_MS);
	if (common->human && group.count)
		printf("%8s  %-14s  %12s  %12s  %s\n", "PID", "STATE",
		       "RESIDENT", "ASLEEP", "NAME");
	for (i = 0; i < group.count; i++)
		shown += show(&group.members[i], common, array);
	group_free(&group);
	if (array)
		print_json(array);
	else if (common->human && !shown)
		printf("no process can be put to sleep; start one by "
		       "vsleepctl run PROGRAM\n");
}

enum outcome list_main(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS };
	struct common common = { .format = AUTOMATIC };
	enum outcome outcome;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!common_option(value, help, &common, &outcome))
			return outcome;
	if (argv[optind])
		return usage_error("list takes no process");
	common_settle(&common);
	list(&common);
	return DONE;
}
