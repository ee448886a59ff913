/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl wake [OPTION...] PID...\n"
	"\n"
	"Bring the GPU memory of processes back and let them run on.\n"
	SELECT_HELP
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	"  --wait SECONDS         try so long for memory that others hold\n"
	"  --no-hold              let it run though other tags still sleep\n"
	COMMON_HELP;

enum { OPT_TAGS = OPT_OWN, OPT_WAIT, OPT_NO_HOLD };

static const struct option options[] = {
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
	SELECT_OPTIONS,
	COMMON_OPTIONS
};

static void print_lost(const struct answer *answer)
{
	char lost[SIZE_TEXT];
	struct words tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		if (words_number(&tag, "lost-bytes"))
			printf("  %s came back without its content: %s are "
			       "zero\n", words_text(&tag, "tag"),
			       print_size(words_number(&tag, "lost-bytes"),
					  lost));
	}
}

static void sentence(const struct answer *answer)
{
	char restored[SIZE_TEXT], asleep[SIZE_TEXT];

	printf("%s %s: %s restored", answer_text(answer, "pid"),
	       answer_text(answer, "state"),
	       print_size(answer_number(answer, "restored-bytes"), restored));
	print_copied(answer);
	printf(", %s asleep",
	       print_size(answer_number(answer, "evicted-bytes"), asleep));
	print_seconds(answer);
	print_lost(answer);
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *request)
{
	unsigned ms;

	switch (value) {
	case OPT_TAGS:
		return request_add(request, "tags", optarg);
	case OPT_WAIT:
		return parse_wait(optarg, &ms) &&
		       request_add_number(request, "wait-ms", ms);
	default:
		return request_add(request, "hold", "no");
	}
}

enum outcome wake_main(int argc, char **argv)
{
	static const struct sum sums[] = {
		{ "restored-bytes", "restored" },
		{ "evicted-bytes", "asleep" },
		{ NULL, NULL }
	};
	static const struct style style = { sentence, sums };
	static const struct syntax syntax = { help, options, take_option };
	struct selection selection;
	struct request request;
	enum outcome outcome;

	request_start(&request, "wake");
	request_add(&request, "progress", "yes");
	if (!select_options(argc, argv, &syntax, &request, &selection,
			    &outcome))
		return outcome;
	return ask_each(&selection, &request, &style);
}
