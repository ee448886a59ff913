/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "peers.h"
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
	"  --alone                without those that share memory with it\n"
	COMMON_HELP;

enum { OPT_TAGS = OPT_OWN, OPT_WAIT, OPT_NO_HOLD, OPT_ALONE };

static const struct option options[] = {
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
	{ "alone", no_argument, NULL, OPT_ALONE },
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

struct wake {
	struct selection selection;
	struct request request;
	bool alone;
};

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *arg)
{
	struct wake *wake = arg;
	unsigned ms;

	switch (value) {
	case OPT_TAGS:
		wake->alone = true;	/* the others have tags of their own */
		return request_add(&wake->request, "tags", optarg);
	case OPT_WAIT:
		return parse_wait(optarg, &ms) &&
		       request_add_number(&wake->request, "wait-ms", ms);
	case OPT_ALONE:
		wake->alone = true;
		return true;
	default:
		return request_add(&wake->request, "hold", "no");
	}
}

static enum outcome act(const struct wake *wake)
{
	static const struct sum sums[] = {
		{ "restored-bytes", "restored" },
		{ "evicted-bytes", "asleep" },
		{ NULL, NULL }
	};
	static const struct style style = { sentence, sums };
	struct request part = wake->request;
	struct group group = { .count = 0 };
	enum outcome outcome = select_find(&wake->selection, false, &group);

	request_add(&part, "own-only", "yes");
	if (outcome == DONE) {
		if (!wake->alone)
			peers_join(&group);
		peers_ask(&group, &wake->request, &part, true);
		outcome = print_group(&group, &wake->selection.common, &style);
	}
	group_free(&group);
	return outcome;
}

enum outcome wake_main(int argc, char **argv)
{
	static const struct syntax syntax = { help, options, take_option };
	struct wake wake = { .alone = false };
	enum outcome outcome;

	request_start(&wake.request, "wake");
	request_add(&wake.request, "progress", "yes");
	if (!select_options(argc, argv, &syntax, &wake, &wake.selection,
			    &outcome))
		return outcome;
	return act(&wake);
}
