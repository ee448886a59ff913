/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "together.h"

#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORTEST_ROUND_MS 200
#define LOOSE_ROUND_MS 1000
#define LONGEST_ROUND_MS 300000	/* the first at rest wait for the last */
#define PAUSE_MS 250		/* between rounds, at most */
#define LEASE_MS 60000		/* beyond its round */
#define RETRY_MS 100
#define DEFAULT_TIMEOUT_MS 10000

enum step { GO_ON, BUSY_NOW, STOP, JOINED };

/* Nothing to be undone or let go: it did as it was told, or is not there. */
static bool well(const struct member *member)
{
	return member->absent || member_ended(member) ||
	       (member->answered &&
		(member_said(member, "ok") || member_said(member, "partial")));
}

static enum step judge(const struct group *group)
{
	enum step step = GO_ON;
	const struct member *member;
	int i;

	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (well(member))
			continue;
		if (!member_said(member, "busy"))
			return STOP;
		step = BUSY_NOW;
	}
	return step;
}

/* What the others are told of the one that could not. */
static void name_culprit(const struct group *group, char *buf, size_t size)
{
	const struct member *member;
	int i;

	for (i = 0; i < group->count - 1 && well(&group->members[i]); i++)
		;
	member = &group->members[i];
	snprintf(buf, size, "process %d could not (%s)",
		 (int)member->connection.pid, member->answered ?
		 answer_text(member->answer, "status") : "no answer");
}

static void spare(struct member *member, const char *what, const char *culprit)
{
	snprintf(member->connection.why, sizeof(member->connection.why),
		 "%s: all or none, and %s", what, culprit);
	member->spared = true;
}

static void spare_others(struct group *group, const char *what)
{
	char culprit[128];
	int i;

	name_culprit(group, culprit, sizeof(culprit));
	for (i = 0; i < group->count; i++)
		if (member_reachable(&group->members[i]) &&
		    well(&group->members[i]))
			spare(&group->members[i], what, culprit);
}

/* The answer is needed later; the next one goes elsewhere. */
static void keep_before(struct group *group)
{
	struct answer *answer;
	int i;

	for (i = 0; i < group->count; i++) {
		answer = group->members[i].before;
		group->members[i].before = group->members[i].answer;
		group->members[i].answer = answer;
	}
}

/* VSLEEP_TIMEOUT where the command line names none. */
static unsigned find_timeout(struct group *group,
			     const struct together *together)
{
	struct request request;
	const char *line, *value;
	unsigned longest = 0, ms;
	int i, j;

	if (together->timeout_ms)
		return together->timeout_ms;
	request_start(&request, "config");
	group_ask_all(group, &request, PATIENCE_MS);
	for (i = 0; i < group->count; i++)
		for (j = 0; (line = answer_nth(group->members[i].answer,
					       "setting", j)); j++) {
			value = strstr(line, " value=");
			if (!strncmp(line, "VSLEEP_TIMEOUT ", 15) && value &&
			    parse_seconds(value + 7, &ms) && ms > longest)
				longest = ms;
		}
	return longest ? longest : DEFAULT_TIMEOUT_MS;
}

/* Closed connections let go of what they held. */
static void let_go(struct group *group)
{
	struct member *member;
	int i;

	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (member_reachable(member))
			member->failed =
				!client_reconnect(&member->connection);
	}
}

static unsigned left_ms(double deadline)
{
	double left = (deadline - now()) * 1000;

	return left > 0 ? (unsigned)left : 0;
}

/*
 * Rounds until all are at rest at the same time; their answers stay.  The
 * first has half the time, for what is queued deep.  Every other one is short
 * and not steady, for those that need calls of their own to come to rest.
 */
static enum step rest(struct group *group, unsigned timeout_ms)
{
	double deadline = now() + timeout_ms / 1000.0;
	unsigned left = timeout_ms;
	unsigned round;
	enum step step;
	bool steady;

	for (steady = true; ; steady = !steady) {
		round = left > SHORTEST_ROUND_MS * 2 ? left / 2 : left;
		if (!steady && round > LOOSE_ROUND_MS)
			round = LOOSE_ROUND_MS;
		if (round > LONGEST_ROUND_MS)
			round = LONGEST_ROUND_MS;
		group_rest(group, steady, round, round + LEASE_MS,
			   PATIENCE_MS);
		step = judge(group);
		left = left_ms(deadline);
		/* Too short a round would call those busy that are not. */
		if (step != BUSY_NOW || left <= SHORTEST_ROUND_MS)
			return step;
		let_go(group);
		pause_ms((unsigned)random() % (left / 8 + 1) % PAUSE_MS);
		left = left_ms(deadline);
	}
}

static void swap_answers(struct member *member)
{
	struct answer *answer = member->answer;

	member->answer = member->before;
	member->before = answer;
}

/* What each is to be asked; false: nothing.  One that has failed may have done
 * a part, and that it has failed is still to be told. */
static bool plan_undo(struct member *member, const struct together *together,
		      const char *culprit, struct request *request)
{
	bool some;

	if (!member_reachable(member) || !member->answered ||
	    (!well(member) && !together->part))
		return false;
	some = together->undo(member->before, member->answer, request);
	if (well(member))
		spare(member, "taken back", culprit);
	else if (some)
		swap_answers(member);
	return some;
}

/* Who lends is to be there before those that map its memory, and some do
 * both. */
static void undo_lenders(struct group *group, const struct request *requests,
			 const bool *some)
{
	struct request *parts = calloc((unsigned)group->count, sizeof(*parts));
	int i;

	for (i = 0; parts && i < group->count; i++) {
		if (!some[i] || !group->members[i].lends)
			continue;
		parts[i] = requests[i];
		request_add(&parts[i], "own-only", "yes");
		group->members[i].request = &parts[i];
	}
	group_ask(group, PATIENCE_MS);
	free(parts);
}

/* Take back what has been done, where it was. */
static void undo(struct group *group, const struct together *together)
{
	struct request *requests = calloc(group->count, sizeof(*requests));
	bool *some = calloc(group->count, sizeof(*some));
	char culprit[128];
	struct member *member;
	int i;

	name_culprit(group, culprit, sizeof(culprit));
	for (i = 0; requests && some && i < group->count; i++)
		some[i] = plan_undo(&group->members[i], together, culprit,
				    &requests[i]);
	if (requests && some && together->part)
		undo_lenders(group, requests, some);
	for (i = 0; requests && some && i < group->count; i++)
		if (some[i] && member_reachable(&group->members[i]))
			group->members[i].request = &requests[i];
	group_ask(group, PATIENCE_MS);
	for (i = 0; some && i < group->count; i++) {
		member = &group->members[i];
		if (member->spared && !well(member))
			member->spared = false;
		else if (some[i] && !member->spared)
			swap_answers(member);
	}
	free(requests);
	free(some);
}

/* Nobody at rest opens anything, so from here on it is known who shares memory
 * with whom. */
static bool found_more(struct group *group, const struct together *together)
{
	return together->part && peers_look(group, !together->alone);
}

/* Who came along, and has closed what it shared before it slept, would not be
 * woken with the others: it is woken now. */
static void dismiss(struct group *group, const struct together *together)
{
	struct request *requests = calloc(group->count, sizeof(*requests));
	struct member *m;
	int i;

	peers_relate(group);
	for (i = 0; requests && i < group->count; i++) {
		m = &group->members[i];
		if (!m->related && member_reachable(m) && m->answered &&
		    together->undo(m->before, m->answer, &requests[i]))
			m->request = &requests[i];
	}
	group_ask(group, PATIENCE_MS);
	for (i = group->count - 1; i >= 0; i--)
		if (!group->members[i].related)
			group_remove(group, i);
	free(requests);
}

/* Once: all of them or none. */
static enum step attempt(struct group *group, const struct together *together)
{
	unsigned timeout_ms;
	enum step step;

	timeout_ms = find_timeout(group, together);
	group_ask_all(group, together->probe, PATIENCE_MS);
	if (judge(group) == STOP) {
		spare_others(group, "left alone");
		return STOP;
	}
	keep_before(group);
	step = rest(group, timeout_ms);
	if (step != GO_ON) {
		spare_others(group, "runs on");
		let_go(group);
		return step;
	}
	if (found_more(group, together)) {
		let_go(group);
		return JOINED;
	}
	if (together->part)
		peers_ask(group, together->request, together->part, false);
	else
		group_ask_all(group, together->request, PATIENCE_MS);
	step = judge(group);
	if (step != GO_ON)
		undo(group, together);
	else if (together->part)
		dismiss(group, together);
	return step;
}

static void refuse_others(struct group *group, const struct member *culprit)
{
	char text[64];
	int i;

	snprintf(text, sizeof(text), "process %d cannot be asked",
		 (int)culprit->connection.pid);
	for (i = 0; i < group->count; i++)
		if (member_reachable(&group->members[i]))
			spare(&group->members[i], "left alone", text);
}

static void forget(struct group *group)
{
	int i;

	for (i = 0; i < group->count; i++)
		group->members[i].spared = false;
}

/* One alone needs nobody to wait for.  Where it turns out not to be, it shall
 * not stay asleep should the others fail. */
static enum step attempt_one(struct group *group,
			     const struct together *together)
{
	struct request request;
	struct member *member;
	int i;

	keep_before(group);
	group_ask_all(group, together->request, PATIENCE_MS);
	if (!found_more(group, together))
		return judge(group);
	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (member_reachable(member) && member->answered &&
		    together->undo(member->before, member->answer, &request))
			member->request = &request;
	}
	group_ask(group, PATIENCE_MS);
	return JOINED;
}

/* The members have their answers, failures or spared afterwards. */
static void act(struct group *group, const struct together *together)
{
	double deadline = now() + together->wait_ms / 1000.0;
	enum step step;
	int i;

	/* One that is wrong from the beginning stops all. */
	for (i = 0; i < group->count; i++)
		if (group->members[i].failed && !group->members[i].absent) {
			refuse_others(group, &group->members[i]);
			return;
		}
	srandom((unsigned)getpid());
	for (;;) {
		step = group_applicable(group) == 1 ?
		       attempt_one(group, together) : attempt(group, together);
		if (step == JOINED)
			continue;
		if (step != BUSY_NOW || now() >= deadline)
			return;
		pause_ms(RETRY_MS);
		forget(group);
	}
}

enum outcome together_each(const struct selection *selection,
			   const struct together *together,
			   const struct style *style)
{
	struct group group = { .count = 0 };
	enum outcome outcome = select_find(selection, false, &group);

	if (outcome == DONE) {
		if (together->part && !together->alone)
			peers_join(&group);
		act(&group, together);
		outcome = print_group(&group, &selection->common, style);
	}
	group_free(&group);
	return outcome;
}
