/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "together.h"
#include "vsleepctl.h"

#include <stdio.h>
#include <string.h>

#define PEER_WAIT_MS 30000

static const char help[] =
	"usage: vsleepctl sleep [OPTION...] PID...\n"
	"\n"
	"Give the GPU memory of processes back.  They are held until they\n"
	"wake.  Of several processes all sleep or none.\n"
	SELECT_HELP
	"  --level 1|2            1 keeps the bytes, 2 drops them (default 1)\n"
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	"  --timeout SECONDS      let running work end within so long\n"
	"  --wait SECONDS         try again for so long while it is busy\n"
	"  --discard-all          let --level 2 drop everything\n"
	"  --force                despite calls that vsleep cannot see\n"
	"  --no-hold              let it run on; it must not use the memory\n"
	"  --alone                without those that share memory with it\n"
	"  --dry-run              only say what would happen\n"
	COMMON_HELP;

struct sleep {
	struct selection selection;
	struct request request;
	unsigned timeout_ms, wait_ms;
	bool dry_run;
	bool alone;
};

enum { OPT_LEVEL = OPT_OWN, OPT_TAGS, OPT_TIMEOUT, OPT_WAIT, OPT_DISCARD,
       OPT_FORCE, OPT_NO_HOLD, OPT_DRY_RUN, OPT_ALONE };

static const struct option options[] = {
	{ "level", required_argument, NULL, OPT_LEVEL },
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "discard-all", no_argument, NULL, OPT_DISCARD },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
	{ "dry-run", no_argument, NULL, OPT_DRY_RUN },
	{ "alone", no_argument, NULL, OPT_ALONE },
	SELECT_OPTIONS,
	COMMON_OPTIONS
};

static void sentence(const struct answer *answer)
{
	char released[SIZE_TEXT], kept[SIZE_TEXT], rest[SIZE_TEXT];

	printf("%s %s: %s released", answer_text(answer, "pid"),
	       answer_text(answer, "state"),
	       print_size(answer_number(answer, "released-bytes"), released));
	print_copied(answer);
	printf(", %s kept, %s unmanaged",
	       print_size(answer_number(answer, "kept-bytes"), kept),
	       print_size(answer_number(answer, "unmanaged-bytes"), rest));
	print_seconds(answer);
}

static void sentence_dry(const struct answer *answer)
{
	char released[SIZE_TEXT], kept[SIZE_TEXT], need[SIZE_TEXT];
	char have[SIZE_TEXT];
	const char *obstacle;
	int i;

	printf("%s %s: would release %s and keep %s; takes %s of host memory, "
	       "of which there is %s\n", answer_text(answer, "pid"),
	       answer_text(answer, "state"),
	       print_size(answer_number(answer, "would-release-bytes"),
			  released),
	       print_size(answer_number(answer, "would-keep-bytes"), kept),
	       print_size(answer_number(answer, "host-needed-bytes"), need),
	       print_size(answer_number(answer, "host-available-bytes"),
			  have));
	for (i = 0; (obstacle = answer_nth(answer, "obstacle", i)); i++)
		printf("  in the way now: %s\n", obstacle);
}

static bool tag_asleep(const struct answer *answer, const char *name)
{
	struct words tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		if (!strcmp(words_text(&tag, "tag"), name))
			return !strcmp(words_text(&tag, "state"), "asleep");
	}
	return false;
}

/* It mapped memory of others, and does not any more; or it has closed that
 * itself, and is held all the same. */
static bool unmapped(const struct answer *before, const struct answer *after)
{
	return (answer_number(after, "imported-asleep-bytes") ||
		!strcmp(answer_text(after, "holds"), "asleep")) &&
	       !strcmp(answer_text(before, "state"), "awake");
}

static bool undo_all(struct request *request)
{
	request_start(request, "wake");
	request_add(request, "progress", "yes");
	/* Those whose memory it maps are to be awake first. */
	return request_add_number(request, "wait-ms", PEER_WAIT_MS);
}

/* Wake the tags that did not sleep before. */
static bool undo(const struct answer *before, const struct answer *after,
		 struct request *request)
{
	char list[sizeof(request->text)];
	const char *name;
	struct words tag;
	size_t len = 0;
	int i;

	if (unmapped(before, after))
		return undo_all(request);
	list[0] = '\0';
	for (i = 0; i < after->tags_count; i++) {
		answer_tag(after, i, &tag);
		name = words_text(&tag, "tag");
		if (!words_number(&tag, "evicted-bytes") ||
		    tag_asleep(before, name))
			continue;
		len += snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? "," : "", name);
		if (len >= sizeof(list))
			return false;
	}
	if (!len)
		return false;
	request_start(request, "wake");
	request_add(request, "progress", "yes");
	return request_add(request, "tags", list);
}

static enum outcome act(struct sleep *sleep)
{
	static const struct sum sums[] = {
		{ "released-bytes", "released" },
		{ "kept-bytes", "kept" },
		{ "unmanaged-bytes", "unmanaged" },
		{ NULL, NULL }
	};
	static const struct style style = { sentence, sums };
	struct request probe = sleep->request, part = sleep->request;
	struct together together = {
		.request = &sleep->request,
		.probe = &probe,
		.part = &part,
		.alone = sleep->alone,
		.timeout_ms = sleep->timeout_ms,
		.wait_ms = sleep->wait_ms,
		.undo = undo,
	};

	request_add(&probe, "dry-run", "yes");
	request_add(&part, "imports-only", "yes");
	request_add(&sleep->request, "progress", "yes");
	return together_each(&sleep->selection, &together, &style);
}

static enum outcome act_dry(struct sleep *sleep)
{
	static const struct style style = { .sentence = sentence_dry };

	request_add(&sleep->request, "dry-run", "yes");
	return ask_each(&sleep->selection, &sleep->request, &style);
}

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *arg)
{
	struct sleep *sleep = arg;

	switch (value) {
	case OPT_LEVEL:
		if (strcmp(optarg, "1") && strcmp(optarg, "2")) {
			usage_error("--level %s: must be 1 or 2", optarg);
			return false;
		}
		return request_add(&sleep->request, "level", optarg);
	case OPT_TAGS:
		sleep->alone = true;	/* the others have tags of their own */
		return request_add(&sleep->request, "tags", optarg);
	case OPT_TIMEOUT:
		return parse_timeout(optarg, &sleep->timeout_ms) &&
		       request_add_number(&sleep->request, "timeout-ms",
					  sleep->timeout_ms);
	case OPT_WAIT:
		return parse_wait(optarg, &sleep->wait_ms);
	case OPT_DISCARD:
		return request_add(&sleep->request, "discard-all", "yes");
	case OPT_FORCE:
		return request_add(&sleep->request, "force", "yes");
	case OPT_NO_HOLD:
		return request_add(&sleep->request, "hold", "no");
	case OPT_ALONE:
		sleep->alone = true;
		return true;
	default:
		sleep->dry_run = true;
		return true;
	}
}

enum outcome sleep_main(int argc, char **argv)
{
	static const struct syntax syntax = { help, options, take_option };
	struct sleep sleep = { .dry_run = false };
	enum outcome outcome;

	request_start(&sleep.request, "sleep");
	if (!select_options(argc, argv, &syntax, &sleep, &sleep.selection,
			    &outcome))
		return outcome;
	return sleep.dry_run ? act_dry(&sleep) : act(&sleep);
}
