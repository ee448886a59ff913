/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
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
	"\n"
	"  --state awake|asleep|partial\n"
	"                         for this state (default: for the end of\n"
	"                         whatever goes on)\n"
	"  --timeout SECONDS      give up after so long; wait as long for a\n"
	"                         process that has not started vsleep yet\n"
	COMMON_HELP;

struct wait {
	struct common common;
	const char *state;	/* NULL: any of the lasting ones */
	unsigned timeout_ms;	/* 0: for ever */
};

enum { OPT_STATE = OPT_OWN, OPT_TIMEOUT };

static const struct option options[] = {
	{ "state", required_argument, NULL, OPT_STATE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
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
static bool reach(pid_t pid, const struct wait *wait, double deadline,
		  struct connection *connection)
{
	while (!client_connect(pid, connection)) {
		if (connection->outcome != NO_PROCESS || !wait->timeout_ms ||
		    now() >= deadline || (kill(pid, 0) && errno == ESRCH))
			return false;
		pause_ms(POLL_MS);
	}
	return true;
}

/* Ask until the state is there; false when the connection fails. */
static bool watch(const struct wait *wait, double deadline,
		  struct connection *connection, struct answer *answer)
{
	struct request request;
	const char *state;

	request_start(&request, "status");
	for (;;) {
		if (!client_ask(connection, &request, NULL, answer))
			return false;
		state = answer_text(answer, "state");
		if (wait->state ? !strcmp(state, wait->state) : lasts(state))
			return true;
		/* Nothing leads out of it. */
		if (!strcmp(state, "failed")) {
			connection->outcome = FAILED;
			snprintf(connection->why, sizeof(connection->why),
				 "failed: %.200s",
				 answer_text(answer, "last-error"));
			return false;
		}
		if (wait->timeout_ms && now() >= deadline) {
			connection->outcome = BUSY;
			snprintf(connection->why, sizeof(connection->why),
				 "busy: still %.40s", state);
			return false;
		}
		pause_ms(POLL_MS);
	}
}

static enum outcome act(pid_t pid, void *arg)
{
	const struct wait *wait = arg;
	double deadline = now() + wait->timeout_ms / 1000.0;
	static struct answer answer;
	struct connection connection;
	enum outcome outcome;

	if (reach(pid, wait, deadline, &connection) &&
	    watch(wait, deadline, &connection, &answer))
		outcome = print_result(connection.pid, &answer, &wait->common,
				       sentence);
	else
		outcome = print_failure(connection.pid, &wait->common,
					connection.outcome, connection.why);
	client_close(&connection);
	return outcome;
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, struct wait *wait)
{
	if (value == OPT_STATE) {
		wait->state = optarg;
		if (lasts(optarg))
			return true;
		usage_error("--state %s: must be awake, asleep or partial",
			    optarg);
		return false;
	}
	if (parse_seconds(optarg, &wait->timeout_ms) && wait->timeout_ms)
		return true;
	usage_error("--timeout %s: must be seconds, from 0.001 to 86400",
		    optarg);
	return false;
}

enum outcome wait_main(int argc, char **argv)
{
	struct wait wait = { .state = NULL };
	enum outcome outcome;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (value >= OPT_OWN) {
			if (!take_option(value, &wait))
				return USAGE;
		} else if (!common_option(value, help, &wait.common,
					  &outcome)) {
			return outcome;
		}
	}
	common_settle(&wait.common);
	return for_each_process(argv + optind, act, &wait);
}
