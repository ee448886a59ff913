/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "print.h"
#include "select.h"
#include "vsleepctl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 20

static const char help[] =
	"usage: vsleepctl wait [OPTION...] PID...\n"
	"\n"
	"Wait until processes are awake, asleep or settled.\n"
	SELECT_HELP
	"  --state awake|asleep|partial\n"
	"                         for this state (default: for the end of\n"
	"                         whatever goes on)\n"
	"  --timeout SECONDS      give up after so long; wait as long for a\n"
	"                         process that has not started vsleep yet,\n"
	"                         or for one that fits\n"
	COMMON_HELP;

struct wait {
	struct selection selection;
	const char *state;	/* NULL: any of the lasting ones */
	unsigned timeout_ms;	/* 0: for ever */
};

enum { OPT_STATE = OPT_OWN, OPT_TIMEOUT };

static const struct option options[] = {
	{ "state", required_argument, NULL, OPT_STATE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	SELECT_OPTIONS,
	COMMON_OPTIONS
};

static const char *const lasting[] = {
	"awake", "asleep", "partial", NULL
};

static bool lasts(const char *state)
{
	int i;

	for (i = 0; lasting[i]; i++)
		if (!strcmp(lasting[i], state))
			return true;
	return false;
}

static void sentence(const struct answer *answer)
{
	printf("%s %s\n", answer_text(answer, "pid"),
	       answer_text(answer, "state"));
}

/* Connect, trying as long as the process may still start vsleep. */
static bool reach(const struct wait *wait, double deadline,
		  struct connection *connection)
{
	pid_t pid = connection->pid;

	while (connection->fd < 0) {
		if (connection->outcome != NO_PROCESS || !wait->timeout_ms ||
		    now() >= deadline || (kill(pid, 0) && errno == ESRCH))
			return false;
		pause_ms(POLL_MS);
		client_connect(pid, connection);
	}
	return true;
}

/* One that is stopped must not take longer than we have. */
static bool ask(const struct wait *wait, double deadline,
		struct connection *connection, struct answer *answer)
{
	struct request request;
	double left_ms = (deadline - now()) * 1000;

	if (wait->timeout_ms && left_ms < PATIENCE_MS)
		client_patience(connection,
				left_ms > 0 ? (unsigned)left_ms + 1 : 1);
	request_start(&request, "status");
	if (client_ask(connection, &request, answer))
		return true;
	if (wait->timeout_ms && connection->outcome == FAILED &&
	    now() >= deadline)
		client_fail(connection, BUSY, "busy: it does not answer");
	return false;
}

/* Ask until the state is there; false when the connection fails. */
static bool watch(const struct wait *wait, double deadline,
		  struct connection *connection, struct answer *answer)
{
	const char *state;

	while (ask(wait, deadline, connection, answer)) {
		state = answer_text(answer, "state");
		if (wait->state ? !strcmp(state, wait->state) : lasts(state))
			return true;
		/* Nothing leads out of it. */
		if (!strcmp(state, "failed"))
			return client_fail(connection, FAILED,
					   "failed: %.200s",
					   answer_text(answer, "last-error"));
		if (wait->timeout_ms && now() >= deadline)
			return client_fail(connection, BUSY,
					   "busy: still %.40s", state);
		pause_ms(POLL_MS);
	}
	return false;
}

static void watch_member(const struct wait *wait, double deadline,
			 struct member *member)
{
	struct connection *connection = &member->connection;

	if (member->absent)
		return;
	member->answered = reach(wait, deadline, connection) &&
			   watch(wait, deadline, connection, member->answer);
	member->failed = !member->answered;
}

static enum outcome wait_for(const struct wait *wait)
{
	static const struct style style = { .sentence = sentence };
	double deadline = now() + wait->timeout_ms / 1000.0;
	struct group group = { .count = 0 };
	enum outcome outcome;
	int i;

	for (;;) {
		bool last = !wait->timeout_ms || now() >= deadline;

		outcome = select_find(&wait->selection, !last, &group);
		if (outcome != DONE || group_applicable(&group) || last)
			break;
		group_free(&group);
		pause_ms(POLL_MS);
	}
	if (outcome == DONE) {
		for (i = 0; i < group.count; i++)
			watch_member(wait, deadline, &group.members[i]);
		outcome = print_group(&group, &wait->selection.common, &style);
	}
	group_free(&group);
	return outcome;
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *arg)
{
	struct wait *wait = arg;

	if (value == OPT_STATE) {
		wait->state = optarg;
		if (lasts(optarg))
			return true;
		usage_error("--state %s: must be awake, asleep or partial",
			    optarg);
		return false;
	}
	return parse_timeout(optarg, &wait->timeout_ms);
}

enum outcome wait_main(int argc, char **argv)
{
	static const struct syntax syntax = { help, options, take_option };
	struct wait wait = { .state = NULL };
	enum outcome outcome;

	if (!select_options(argc, argv, &syntax, &wait, &wait.selection,
			    &outcome))
		return outcome;
	return wait_for(&wait);
}
