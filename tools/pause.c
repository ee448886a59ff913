/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "together.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
	"usage: vsleepctl pause [OPTION...] PID...\n"
	"\n"
	"Hold processes until they are resumed.  Their memory stays on the\n"
	"GPU.  Of several processes all pause or none.\n"
	SELECT_HELP
	"  --timeout SECONDS      let running work end within so long\n"
	"  --wait SECONDS         try again for so long while it is busy\n"
	COMMON_HELP;

enum { OPT_TIMEOUT = OPT_OWN, OPT_WAIT };

static const struct option options[] = {
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "wait", required_argument, NULL, OPT_WAIT },
	SELECT_OPTIONS,
	COMMON_OPTIONS
};

static void sentence(const struct answer *answer)
{
	char resident[SIZE_TEXT];

	printf("%s %s: held, %s stay on the device\n",
	       answer_text(answer, "pid"), answer_text(answer, "state"),
	       print_size(answer_number(answer, "resident-bytes"), resident));
}

static bool undo(const struct answer *before, const struct answer *after,
		 struct request *request)
{
	(void)after;
	if (!strcmp(answer_text(before, "paused"), "yes"))
		return false;
	request_start(request, "resume");
	return true;
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *arg)
{
	struct together *together = arg;

	return value == OPT_TIMEOUT ?
	       parse_timeout(optarg, &together->timeout_ms) :
	       parse_wait(optarg, &together->wait_ms);
}

enum outcome pause_main(int argc, char **argv)
{
	static const struct style style = { .sentence = sentence };
	static const struct syntax syntax = { help, options, take_option };
	struct selection selection;
	struct request request, probe;
	struct together together = {
		.request = &request,
		.probe = &probe,
		.undo = undo,
	};
	enum outcome outcome;

	if (!select_options(argc, argv, &syntax, &together, &selection,
			    &outcome))
		return outcome;
	request_start(&probe, "status");
	request_start(&request, "pause");
	request_add(&request, "progress", "yes");
	if (together.timeout_ms)
		request_add_number(&request, "timeout-ms",
				   together.timeout_ms);
	return together_each(&selection, &together, &style);
}
