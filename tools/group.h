/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group - the processes that a verb acts on, asked at the same time: one
 * connection each.  Does not choose them (select) and prints no answers.
 */
#ifndef TOOLS_GROUP_H
#define TOOLS_GROUP_H

#include "client.h"

struct member {
	struct connection connection;
	struct answer *answer;
	struct answer *before;	/* an earlier one that is still needed */
	const struct request *request;	/* to ask now; NULL: not asked */
	bool absent;		/* not applicable: it has no vsleep */
	bool answered;		/* the answer is whole */
	bool failed;		/* connection.outcome and .why say how */
	bool borrows, lends;	/* memory, by CUDA IPC */
	bool joined;		/* for that alone, nobody has chosen it */
	bool related;		/* to one that was chosen */
	bool spared;		/* not done, or undone, because of another */
	double asked;		/* when it got its request */
	double heard;		/* when it last said something */
	char phase[32];
	unsigned long long done_bytes, total_bytes;
};

struct group {
	int count;
	struct member *members;
};

/* Add a process; takes over the connection, which may be a failed one. */
struct member *group_add(struct group *group,
			 struct connection *connection);
void group_remove(struct group *group, int index);
/* Close all connections and forget all. */
void group_free(struct group *group);

/*
 * Ask those that have a request, at the same time, until each has answered
 * or failed; a failed one is closed.  Shows progress to people.  Fails one
 * that says nothing for @patience_ms.
 */
void group_ask(struct group *group, unsigned patience_ms);

/* Everybody that can be asked gets @request. */
void group_ask_all(struct group *group, const struct request *request,
		   unsigned patience_ms);

/*
 * Everybody is brought to rest, within @ms, and rests so much longer at most:
 * each has answered or failed.  @steady: nobody runs on before that, but those
 * that are at rest while others are not: these may wait for what those have
 * not submitted yet, so they go on call by call.
 */
void group_rest(struct group *group, bool steady, unsigned ms,
		unsigned lease_ms, unsigned patience_ms);

/* It is connected and not left out. */
bool member_reachable(const struct member *member);
/* Its last answer has this status. */
bool member_said(const struct member *member, const char *status);
/* It has ended since it was found. */
bool member_ended(const struct member *member);

/* How many take part; the others have no vsleep. */
int group_applicable(const struct group *group);

#endif
