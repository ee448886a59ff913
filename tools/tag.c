/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl tag [OPTION...] PID NAME\n"
	"       vsleepctl tag [OPTION...] --clear PID\n"
	"\n"
	"Name the allocations that a process makes from now on.\n"
	"\n"
	"  --clear                back to the tag of VSLEEP_TAG\n"
	COMMON_HELP;

struct mark {
	struct common common;
	struct request request;
};

enum { OPT_CLEAR = OPT_OWN };

static const struct option options[] = {
	{ "clear", no_argument, NULL, OPT_CLEAR },
	COMMON_OPTIONS
};

static void sentence(const struct answer *answer)
{
	const char *marker = answer_text(answer, "marker");

	if (marker[0])
		printf("%s: new allocations get the tag %s\n",
		       answer_text(answer, "pid"), marker);
	else
		printf("%s: new allocations get the tag of VSLEEP_TAG\n",
		       answer_text(answer, "pid"));
}

static enum outcome act(pid_t pid, void *arg)
{
	const struct mark *mark = arg;
	static struct answer answer;
	struct connection connection;
	enum outcome outcome;

	if (client_connect(pid, &connection) &&
	    client_ask(&connection, &mark->request, NULL, &answer))
		outcome = print_result(connection.pid, &answer, &mark->common,
				       sentence);
	else
		outcome = print_failure(connection.pid, &mark->common,
					connection.outcome, connection.why);
	client_close(&connection);
	return outcome;
}

enum outcome tag_main(int argc, char **argv)
{
	struct mark mark = { .common = { .format = AUTOMATIC } };
	enum outcome outcome;
	bool clear = false;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (value == OPT_CLEAR)
			clear = true;
		else if (!common_option(value, help, &mark.common, &outcome))
			return outcome;
	}
	common_settle(&mark.common);
	argv += optind;
	argc -= optind;
	if (argc != (clear ? 1 : 2))
		return usage_error("tag takes a PID and a NAME, or --clear "
				   "and a PID");
	request_start(&mark.request, "tag");
	if (!(clear ? request_add(&mark.request, "clear", "yes")
		    : request_add(&mark.request, "name", argv[1])))
		return USAGE;
	argv[1] = NULL;
	return for_each_process(argv, act, &mark);
}
