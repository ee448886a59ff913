/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "peers.h"
#include "vsleepctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"usage: vsleepctl wake [OPTION...] PID...\n"
	"\n"
	"Bring the GPU memory of processes back and let them run on.\n"
	SELECT_HELP
	"  --tags TAG[,TAG...]    only what was allocated under these tags\n"
	"  --wait SECONDS         try so long for memory that others hold\n"
	"  --no-hold              let it run though other tags still sleep\n"
	"  --alone                without those that share memory with it\n"
	"  --verify               compare what came back with what went\n"
	"  --no-verify            do not, whatever VSLEEP_VERIFY says\n"
	COMMON_HELP;

enum {
	OPT_TAGS = OPT_OWN, OPT_WAIT, OPT_NO_HOLD, OPT_ALONE, OPT_VERIFY,
	OPT_NO_VERIFY
};

static const struct option options[] = {
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
	{ "alone", no_argument, NULL, OPT_ALONE },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "no-verify", no_argument, NULL, OPT_NO_VERIFY },
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

static void print_verified(const struct answer *answer)
{
	char verified[SIZE_TEXT], rest[SIZE_TEXT];
	unsigned long long same = answer_number(answer, "verified-bytes");
	unsigned long long unknown = answer_number(answer, "unverified-bytes");

	if (same || unknown)
		printf("  %s verified, %s not\n", print_size(same, verified),
		       print_size(unknown, rest));
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
	print_verified(answer);
	print_lost(answer);
}

struct wake {
	struct selection selection;
	struct request request;
	struct request part;	/* its own memory; runs on no sooner */
	bool alone;
};

/* One of our own options; false after a usage error. */
static bool take_option(int value, void *arg)
{
	struct wake *wake = arg;
	const char *word;
	unsigned ms;

	switch (value) {
	case OPT_TAGS:
		wake->alone = true;	/* the others have tags of their own */
		return request_add(&wake->request, "tags", optarg) &&
		       request_add(&wake->part, "tags", optarg);
	case OPT_WAIT:
		return parse_wait(optarg, &ms) &&
		       request_add_number(&wake->request, "wait-ms", ms) &&
		       request_add_number(&wake->part, "wait-ms", ms);
	case OPT_ALONE:
		wake->alone = true;
		return true;
	case OPT_VERIFY:
	case OPT_NO_VERIFY:
		word = value == OPT_VERIFY ? "yes" : "no";
		return request_add(&wake->request, "verify", word) &&
		       request_add(&wake->part, "verify", word);
	default:
		return request_add(&wake->request, "hold", "no");
	}
}

static unsigned long long asleep_bytes(const struct answer *answer,
				       const char *name)
{
	struct words tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		if (!strcmp(words_text(&tag, "tag"), name))
			return words_number(&tag, "evicted-bytes");
	}
	return 0;
}

/* The tags whose memory came back for others of the group, while what it maps
 * itself did not come; false: none. */
static bool came_half(const struct member *m, char *list, size_t size)
{
	struct words tag;
	const char *name;
	size_t len = 0;
	int i;

	if (!member_reachable(m) || !m->borrows || !m->lends ||
	    !m->answered || member_said(m, "ok"))
		return false;
	for (i = 0; i < m->before->tags_count; i++) {
		answer_tag(m->before, i, &tag);
		name = words_text(&tag, "tag");
		if (words_number(&tag, "evicted-bytes") <=
		    asleep_bytes(m->answer, name))
			continue;
		len += (size_t)snprintf(list + len, size - len, "%s%s",
					len ? "," : "", name);
		if (len >= size)
			return false;
	}
	return len > 0;
}

/* It shall sleep again, as it did. */
static bool plan_back(const struct member *m, struct request *request)
{
	char list[sizeof(request->text) / 2];

	if (!came_half(m, list, sizeof(list)))
		return false;
	request_start(request, "sleep");
	request_add(request, "progress", "yes");
	if (!strstr(answer_text(m->before, "holds"), "asleep"))
		request_add(request, "hold", "no");
	return request_add(request, "tags", list);
}

static void swap_answers(struct member *m)
{
	struct answer *answer = m->before;

	m->before = m->answer;
	m->answer = answer;
}

/* Who cannot wake stays as it was.  Its answer is that of the wake. */
static void take_back(struct group *group)
{
	struct request *requests = calloc((unsigned)group->count + 1,
					  sizeof(*requests));
	bool *some = calloc((unsigned)group->count + 1, sizeof(*some));
	struct member *m;
	int i;

	for (i = 0; requests && some && i < group->count; i++) {
		m = &group->members[i];
		some[i] = plan_back(m, &requests[i]);
		if (!some[i])
			continue;
		m->request = &requests[i];
		swap_answers(m);
	}
	group_ask(group, PATIENCE_MS);
	for (i = 0; requests && some && i < group->count; i++)
		if (some[i] && group->members[i].answered)
			swap_answers(&group->members[i]);
	free(requests);
	free(some);
}

/* Nobody comes along: of those that are named who lends to another is there
 * before it. */
static void wake_alone(const struct wake *wake, struct group *group)
{
	int i;

	peers_among(group);
	for (i = 0; i < group->count; i++)
		swap_answers(&group->members[i]);
	peers_ask(group, &wake->request, &wake->part, true);
	take_back(group);
}

static enum outcome act(const struct wake *wake)
{
	static const struct sum sums[] = {
		{ "restored-bytes", "restored" },
		{ "evicted-bytes", "asleep" },
		{ NULL, NULL }
	};
	static const struct style style = { sentence, sums };
	struct group group = { .count = 0 };
	enum outcome outcome = select_find(&wake->selection, false, &group);

	if (outcome == DONE && wake->alone) {
		wake_alone(wake, &group);
	} else if (outcome == DONE) {
		peers_join(&group);
		peers_ask(&group, &wake->request, &wake->part, true);
	}
	if (outcome == DONE)
		outcome = print_group(&group, &wake->selection.common, &style);
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
	request_start(&wake.part, "wake");
	request_add(&wake.part, "progress", "yes");
	request_add(&wake.part, "own-only", "yes");
	if (!select_options(argc, argv, &syntax, &wake, &wake.selection,
			    &outcome))
		return outcome;
	return act(&wake);
}
