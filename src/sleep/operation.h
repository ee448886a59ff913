/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation - requests to sleep and wake, one at a time, on a thread of ours.
 *
 * A job belongs to this module: it completes or rolls back whatever becomes
 * of who asked.  The same request while one runs joins it.  A wake while a
 * sleep still drains cancels the sleep; later it queues behind it.
 * Rank STATE.
 */
#ifndef VS_SLEEP_OPERATION_H
#define VS_SLEEP_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tag.h"
#include "base/why.h"
#include "sleep/ledger.h"

enum vs_verb { VS_VERB_SLEEP, VS_VERB_WAKE };
enum vs_choice { VS_DEFAULT, VS_YES, VS_NO };

struct vs_request {
	enum vs_verb verb;
	int level;		/* 1 or 2; sleep only */
	bool all_tags;		/* no list was given */
	vs_tag_set tags;
	unsigned timeout_ms;	/* sleep: deadline of the drain */
	unsigned wait_ms;	/* wake: retry this long for device memory */
	enum vs_choice hold;	/* wake: VS_NO lets the program run though
				   something still sleeps */
	bool discard_all;
	bool force;		/* sleep despite unhooked entry points */
};

/* One reply: a statement from the ledger. */
struct vs_reply {
	enum vs_status status;
	struct vs_why why;
	struct vs_ledger ledger;
};

struct vs_progress {
	const char *phase;	/* "waiting", "draining", "copying out", ... */
	uint64_t done_bytes;
	uint64_t total_bytes;
};

struct vs_job;

/* Start the operation thread.  Once. */
enum vs_status vs_operation_start(struct vs_why *why);

/* Queue a request, or join the same one.  @notify_fd (an eventfd, or -1) is
 * written when the job ends.  NULL with @why when it is refused at once. */
struct vs_job *vs_operation_submit(const struct vs_request *request,
				   int notify_fd, struct vs_why *why);
/* True when done; then *out is filled. */
bool vs_operation_done(struct vs_job *job, struct vs_reply *out);
void vs_operation_progress(struct vs_job *job, struct vs_progress *out);
/* The client is gone or has its answer; the job goes on without it. */
void vs_operation_forget(struct vs_job *job);

/* Submit and wait, at most so long (VS_BUSY then); for exit and tests. */
void vs_operation_run(const struct vs_request *request, double seconds,
		      struct vs_reply *out);

/* The state now, without waiting for any job. */
void vs_operation_status(struct vs_reply *out);

#endif
