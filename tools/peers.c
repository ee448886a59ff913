/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "peers.h"

#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who has the number @pid for @with; -1: no member. */
static int find(const struct group *group, pid_t with, pid_t pid)
{
	int i;

	for (i = 0; i < group->count; i++)
		if (client_is(group->members[i].connection.pid, with, pid))
			return i;
	return -1;
}

static bool parse_line(const char *line, pid_t *pid, bool *owner)
{
	char role[16];
	int number;

	if (sscanf(line, "%d role=%15s", &number, role) != 2 || number <= 0)
		return false;
	*pid = number;
	*owner = !strcmp(role, "owner");
	return true;
}

/* One that has ended meanwhile shares nothing. */
static void add(struct group *group, pid_t with, pid_t pid)
{
	struct connection connection;

	client_connect_beside(with, pid, &connection);
	if (connection.fd < 0 && connection.outcome == NO_PROCESS)
		return;
	fprintf(stderr, "vsleepctl: process %d shares memory with process %d "
		"and goes with it\n", (int)connection.pid, (int)with);
	group_add(group, &connection)->joined = true;
}

/* One side may have answered before the other came in. */
static void note(struct group *group, int index, int other, bool owner)
{
	struct member *members = group->members;

	members[index].borrows |= owner;
	members[index].lends |= !owner;
	if (other < 0)
		return;
	members[other].lends |= owner;
	members[other].borrows |= !owner;
}

/* Members move when one is added. */
static void join(struct group *group, int index, bool take)
{
	pid_t with = group->members[index].connection.pid, pid;
	const char *line;
	bool owner;
	int i;

	if (!group->members[index].answered)
		return;
	for (i = 0; (line = answer_nth(group->members[index].answer,
				       "ipc-peer", i)); i++) {
		if (!parse_line(line, &pid, &owner))
			continue;
		if (take && find(group, with, pid) < 0)
			add(group, with, pid);
		note(group, index, find(group, with, pid), owner);
	}
}

bool peers_look(struct group *group, bool add)
{
	int i, count = group->count;

	for (i = 0; i < count; i++)
		group->members[i].borrows = group->members[i].lends = false;
	for (i = 0; i < count; i++)
		join(group, i, add);
	return group->count > count;
}

/* True when one became related by an answer of another. */
static bool spread(struct group *group)
{
	struct member *m, *other;
	bool owner, more = false;
	const char *line;
	int i, k, index;
	pid_t pid;

	for (i = 0; i < group->count; i++) {
		m = &group->members[i];
		for (k = 0; m->answered &&
		     (line = answer_nth(m->answer, "ipc-peer", k)); k++) {
			if (!parse_line(line, &pid, &owner))
				continue;
			index = find(group, m->connection.pid, pid);
			if (index < 0)
				continue;
			other = &group->members[index];
			more |= m->related != other->related;
			m->related = other->related |= m->related;
		}
	}
	return more;
}

void peers_relate(struct group *group)
{
	int i;

	for (i = 0; i < group->count; i++)
		group->members[i].related = !group->members[i].joined;
	while (spread(group))
		;
}

void peers_join(struct group *group)
{
	struct request status;
	int i, from, to;

	request_start(&status, "status");
	for (from = 0; from < group->count; from = to) {
		to = group->count;
		for (i = from; i < to; i++)
			group->members[i].request =
				member_reachable(&group->members[i]) ?
				&status : NULL;
		group_ask(group, PATIENCE_MS);
		for (i = from; i < to; i++)
			join(group, i, true);
	}
}

void peers_among(struct group *group)
{
	struct request status;
	const char *line;
	bool owner;
	int i, k, other;
	pid_t pid;

	request_start(&status, "status");
	group_ask_all(group, &status, PATIENCE_MS);
	for (i = 0; i < group->count; i++)
		for (k = 0; group->members[i].answered &&
		     (line = answer_nth(group->members[i].answer, "ipc-peer",
					k)); k++) {
			if (!parse_line(line, &pid, &owner))
				continue;
			other = find(group, group->members[i].connection.pid,
				     pid);
			if (other >= 0)
				note(group, i, other, owner);
		}
}

static bool well(const struct member *member)
{
	return !member_reachable(member) || member_said(member, "ok") ||
	       member_said(member, "partial");
}

void peers_ask(struct group *group, const struct request *request,
	       const struct request *part, bool lenders_first)
{
	struct member *m;
	bool go_on = true, first, both;
	int i;

	for (i = 0; i < group->count; i++) {
		m = &group->members[i];
		m->request = NULL;
		if (!member_reachable(m))
			continue;
		both = m->borrows && m->lends;
		first = lenders_first ? m->lends : m->borrows;
		if (first)
			m->request = both ? part : request;
	}
	group_ask(group, PATIENCE_MS);
	for (i = 0; i < group->count; i++) {
		m = &group->members[i];
		first = lenders_first ? m->lends : m->borrows;
		if (!lenders_first && first && !well(m))
			go_on = false;
	}
	for (i = 0; go_on && i < group->count; i++) {
		m = &group->members[i];
		both = m->borrows && m->lends;
		first = lenders_first ? m->lends : m->borrows;
		if (member_reachable(m) && (both || !first))
			m->request = request;
	}
	group_ask(group, PATIENCE_MS);
}
