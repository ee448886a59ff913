/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "group.h"

#include "print.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWS_MS 100
#define STEP_MS 5
#define STEP_TIME_MS 500	/* for the last one, of one that is not stuck */
#define GRACE 1.0		/* seconds, for the answer that time is over */
#define STUCK 0.02		/* seconds: so long it may just be busy */

/* For a tool that cannot go on without it. */
static void *need(void *memory)
{
	if (!memory) {
		fprintf(stderr, "vsleepctl: out of memory\n");
		exit(FAILED);
	}
	return memory;
}

struct member *group_add(struct group *group, struct connection *connection)
{
	struct member *member;

	group->members = need(reallocarray(group->members, group->count + 1,
					   sizeof(*member)));
	member = &group->members[group->count++];
	memset(member, 0, sizeof(*member));
	member->connection = *connection;
	member->failed = connection->fd < 0;
	member->answer = need(calloc(1, sizeof(*member->answer)));
	member->before = need(calloc(1, sizeof(*member->before)));
	connection->fd = -1;
	return member;
}

static void member_free(struct member *member)
{
	client_close(&member->connection);
	free(member->answer);
	free(member->before);
}

void group_remove(struct group *group, int index)
{
	struct member *member = &group->members[index];

	member_free(member);
	group->count--;
	memmove(member, member + 1,
		(group->count - index) * sizeof(*member));
}

void group_free(struct group *group)
{
	int i;

	for (i = 0; i < group->count; i++)
		member_free(&group->members[i]);
	free(group->members);
	group->members = NULL;
	group->count = 0;
}

bool member_reachable(const struct member *member)
{
	return !member->absent && !member->failed;
}

bool member_said(const struct member *member, const char *status)
{
	return member->answered &&
	       !strcmp(answer_text(member->answer, "status"), status);
}

bool member_ended(const struct member *member)
{
	return member->failed && member->connection.outcome == NO_PROCESS;
}

int group_applicable(const struct group *group)
{
	int count = 0;
	int i;

	for (i = 0; i < group->count; i++)
		count += !group->members[i].absent;
	return count;
}

static void fail(struct member *member)
{
	client_close(&member->connection);
	member->failed = true;
	member->request = NULL;
}

static void note_progress(void *arg, const char *line)
{
	struct member *member = arg;
	unsigned long long done, total;
	char phase[32];

	if (sscanf(line, "phase=%31s done-bytes=%llu total-bytes=%llu", phase,
		   &done, &total) != 3)
		return;
	strcpy(member->phase, phase);
	member->done_bytes = done;
	member->total_bytes = total;
}

static void begin(struct member *member)
{
	member->answered = false;
	member->phase[0] = '\0';
	member->done_bytes = 0;
	member->total_bytes = 0;
	member->asked = member->heard = now();
	if (!client_send(&member->connection, member->request,
			 member->answer))
		fail(member);
}

/* Some answers are without, and several need a name. */
static void add_pid(struct member *member)
{
	struct answer *answer = member->answer;
	int pid = (int)member->connection.pid;

	if (pid > 0 && !answer_text(answer, "pid")[0])
		answer_put(answer, "pid", answer_store(answer, "%d", pid));
}

static void hear(struct member *member, const struct pollfd *fd,
		 unsigned patience_ms)
{
	int taken;

	if (!fd->revents) {
		if (now() - member->heard < patience_ms / 1000.0)
			return;
		client_fail(&member->connection, FAILED, "it does not answer; "
			    "what was asked for may still happen");
		fail(member);
		return;
	}
	member->heard = now();
	taken = client_take(&member->connection, note_progress, member,
			    member->answer);
	if (taken < 0)
		fail(member);
	if (taken > 0) {
		add_pid(member);
		member->answered = true;
		member->request = NULL;
	}
}

/* Wait for news of those that are still asked; false when none is left. */
static bool wait_for_news(struct group *group, struct pollfd *fds,
			  unsigned patience_ms, int ms)
{
	bool asked = false;
	int i;

	for (i = 0; i < group->count; i++) {
		fds[i].fd = group->members[i].request ?
			    group->members[i].connection.fd : -1;
		fds[i].events = POLLIN;
		fds[i].revents = 0;
		asked |= fds[i].fd >= 0;
	}
	if (!asked)
		return false;
	if (poll(fds, group->count, ms) < 0 && errno != EINTR) {
		fprintf(stderr, "vsleepctl: poll: %s\n", strerror(errno));
		exit(FAILED);
	}
	for (i = 0; i < group->count; i++)
		if (fds[i].fd >= 0)
			hear(&group->members[i], &fds[i], patience_ms);
	print_progress(group);
	return true;
}

/* Everybody that can be asked is to get it. */
static void give_all(struct group *group, const struct request *request)
{
	int i;

	for (i = 0; i < group->count; i++) {
		group->members[i].answered = false;
		group->members[i].request =
			member_reachable(&group->members[i]) ? request : NULL;
	}
}

static struct pollfd *begin_all(struct group *group)
{
	int i;

	for (i = 0; i < group->count; i++)
		if (group->members[i].request)
			begin(&group->members[i]);
	return need(calloc(group->count + 1, sizeof(struct pollfd)));
}

void group_ask(struct group *group, unsigned patience_ms)
{
	struct pollfd *fds = begin_all(group);

	while (wait_for_news(group, fds, patience_ms, NEWS_MS))
		;
	print_progress_end();
	free(fds);
}

void group_ask_all(struct group *group, const struct request *request,
		   unsigned patience_ms)
{
	give_all(group, request);
	group_ask(group, patience_ms);
}

static void ask_to_rest(struct request *request, bool steady, unsigned ms,
			unsigned lease_ms)
{
	request_start(request, "quiesce");
	request_add_number(request, "timeout-ms", ms ? ms : 1);
	request_add_number(request, "lease-ms", lease_ms);
	request_add(request, "progress", "yes");
	if (steady)
		request_add(request, "steady", "yes");
}

/* All that have not answered wait for something, and none has failed. */
static bool stuck(const struct group *group)
{
	const struct member *member;
	bool rests = false, waits = false;
	int i;

	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (member->request && now() - member->asked < STUCK)
			return false;
		if (member->answered && !member_said(member, "ok"))
			return false;
		rests |= member->answered;
		waits |= member->request != NULL;
	}
	return rests && waits;
}

/* What brings it to rest is stuck, and the others wait for nothing: with the
 * connection its request ends. */
static void give_up(struct member *member)
{
	struct answer *answer = member->answer;

	member->request = NULL;
	if (!client_reconnect(&member->connection)) {
		fail(member);
		return;
	}
	answer_start(answer);
	answer_put(answer, "status", "busy");
	answer_put(answer, "message", "no answer in time: its driver may take "
		   "no more work");
	add_pid(member);
	member->answered = true;
}

static void give_up_all(struct group *group)
{
	int i;

	for (i = 0; i < group->count; i++)
		if (group->members[i].request)
			give_up(&group->members[i]);
}

static void step_on(struct group *group, const struct request *step)
{
	struct member *member;
	int i;

	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (!member_reachable(member) || !member->answered)
			continue;
		member->request = step;
		begin(member);
	}
}

void group_rest(struct group *group, bool steady, unsigned ms,
		unsigned lease_ms, unsigned patience_ms)
{
	double end = now() + ms / 1000.0;
	struct request first, step;
	struct pollfd *fds;

	ask_to_rest(&first, steady, ms, lease_ms);
	give_all(group, &first);
	fds = begin_all(group);
	while (wait_for_news(group, fds, patience_ms,
			     steady ? STEP_MS : NEWS_MS)) {
		if (now() >= end + GRACE)
			give_up_all(group);
		if (!steady || now() >= end || !stuck(group))
			continue;
		ask_to_rest(&step, true,
			    (unsigned)((end - now()) * 1000) + STEP_TIME_MS,
			    lease_ms);
		request_add(&step, "step", "yes");
		step_on(group, &step);
	}
	print_progress_end();
	free(fds);
}
