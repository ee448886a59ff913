/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl prepare [OPTION...] PID...\n"
	"\n"
	"Copy the GPU memory of processes to the host while they run, so that\n"
	"a later sleep copies only what has changed since.\n"
	SELECT_HELP
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	COMMON_HELP;

enum { OPT_TAGS = OPT_OWN };

static const struct option options[] = {
	{ "tags", required_argument, NULL, OPT_TAGS },
	SELECT_OPTIONS,
	COMMON_OPTIONS
};

static void sentence(const struct answer *answer)
{
	char prepared[SIZE_TEXT], copied[SIZE_TEXT], left[SIZE_TEXT];

	printf("%s %s: %s prepared, %s copied",
	       answer_text(answer, "pid"), answer_text(answer, "state"),
	       print_size(answer_number(answer, "prepared-bytes"), prepared),
	       print_size(answer_number(answer, "prepared-copied-bytes"),
			  copied));
	if (answer_number(answer, "prepared-left-bytes"))
		printf(", no host memory for %s",
		       print_size(answer_number(answer,
						"prepared-left-bytes"), left));
	printf("\n");
}

/* There is but one of our own. */
static bool take_tags(int value, void *request)
{
	(void)value;
	return request_add(request, "tags", optarg);
}

enum outcome prepare_main(int argc, char **argv)
{
	static const struct style style = { .sentence = sentence };
	static const struct syntax syntax = { help, options, take_tags };
	struct selection selection;
	struct request request;
	enum outcome outcome;

	request_start(&request, "prepare");
	request_add(&request, "progress", "yes");
	if (!select_options(argc, argv, &syntax, &request, &selection,
			    &outcome))
		return outcome;
	return ask_each(&selection, &request, &style);
}
