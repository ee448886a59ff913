/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl tag [OPTION...] PID... NAME\n"
	"       vsleepctl tag [OPTION...] --clear PID...\n"
	"\n"
	"Name the allocations that processes make from now on.\n"
	SELECT_HELP
	"  --clear                back to the tag of VSLEEP_TAG\n"
	COMMON_HELP;

enum { OPT_CLEAR = OPT_OWN };

static const struct option options[] = {
	{ "clear", no_argument, NULL, OPT_CLEAR },
	SELECT_OPTIONS,
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

/* There is but one of our own. */
static bool take_clear(int value, void *clear)
{
	(void)value;
	*(bool *)clear = true;
	return true;
}

enum outcome tag_main(int argc, char **argv)
{
	static const struct style style = { .sentence = sentence };
	static const struct syntax syntax = { help, options, take_clear };
	struct selection selection;
	struct request request;
	enum outcome outcome;
	bool clear = false;

	if (!select_options(argc, argv, &syntax, &clear, &selection, &outcome))
		return outcome;
	request_start(&request, "tag");
	if (clear) {
		request_add(&request, "clear", "yes");
		return ask_each(&selection, &request, &style);
	}
	if (optind == argc)
		return usage_error("tag takes a NAME last, or --clear");
	if (!request_add(&request, "name", argv[argc - 1]))
		return USAGE;
	argv[argc - 1] = NULL;
	return ask_each(&selection, &request, &style);
}
