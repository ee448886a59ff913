/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation - requests to sleep and wake, one at a time, on a thread of ours.
 *
 * A job belongs to this module: it completes or rolls back whatever becomes
 * of who asked.  The same request while one runs joins it.  A wake while a
 * sleep still drains cancels the sleep; later it queues behind it.  A resume
 * is no job: it never waits.
 *
 * While a quiesce holds the program, others wait in the queue, but for the
 * one that takes its rest over and for dry runs; a wake ends it.
 * Rank STATE.
 */
#ifndef VS_SLEEP_OPERATION_H
#define VS_SLEEP_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tag.h"
#include "base/why.h"
#include "sleep/ledger.h"

enum vs_verb {
	VS_VERB_SLEEP,
	VS_VERB_WAKE,
	VS_VERB_PAUSE,		/* at rest and held; memory stays */
	VS_VERB_QUIESCE,	/* at rest for as long as the job is not
				   forgotten: the first step of a group */
	VS_VERB_TRIM,		/* give back the backups of what is awake */
	VS_VERB_PREPARE,	/* make backups of it */
};
enum vs_choice { VS_DEFAULT, VS_YES, VS_NO };

struct vs_request {
	enum vs_verb verb;
	int level;		/* 1 or 2; sleep only */
	bool all_tags;		/* no list was given */
	vs_tag_set tags;
	unsigned timeout_ms;	/* deadline of the drain */
	unsigned wait_ms;	/* wake: retry this long for device memory */
	bool steady;		/* quiesce: keep the gate shut until then */
	bool step;		/* quiesce: first let one held call go */
	unsigned lease_ms;	/* quiesce: lets go by itself after this */
	enum vs_choice hold;	/* sleep, wake: VS_NO lets the program run
				   though something sleeps */
	bool dry_run;		/* sleep: only say what it would do */
	bool imports_only;	/* sleep: unmap what is others', no more */
	bool own_only;		/* wake: bring back all but that */
	enum vs_choice verify;	/* wake; by default as VSLEEP_VERIFY has it */
	struct vs_job *rest;	/* sleep, pause: a quiesce whose rest it takes
				   over, so it does not drain again; or NULL */
	bool discard_all;
	bool force;		/* sleep despite unhooked entry points */
};

/* What a dry run found. */
#define VS_OBSTACLES_MAX 8
struct vs_outlook {
	bool filled;
	uint64_t release_bytes;		/* would go back to the device */
	uint64_t keep_bytes;		/* selected, but would stay */
	uint64_t host_bytes;		/* of host memory it takes */
	uint64_t host_available;
	int obstacle_count;		/* what stands in the way now */
	char obstacles[VS_OBSTACLES_MAX][160];
};

/* What a prepare has looked at. */
struct vs_prepared {
	bool filled;
	uint64_t copied_bytes;
	uint64_t unchanged_bytes;	/* the backup had them already */
	uint64_t zero_bytes;
	uint64_t left_bytes;		/* host memory lacks for them */
};

/* One reply: a statement from the ledger. */
struct vs_reply {
	enum vs_status status;
	struct vs_why why;
	struct vs_ledger ledger;
	struct vs_outlook outlook;
	bool trimmed;
	uint64_t trimmed_bytes;		/* host memory that went back */
	struct vs_prepared prepared;
};

struct vs_progress {
	const char *phase;	/* "waiting", "draining", "copying out", ... */
	uint64_t done_bytes;
	uint64_t total_bytes;
};

struct vs_job;

/* Start the operation thread.  Once. */
enum vs_status vs_operation_start(struct vs_why *why);

/* It has been, in this process: jobs are run. */
bool vs_operation_started(void);

/* Queue a request, or join the same one.  @notify_fd (an eventfd, or -1) is
 * written when the job ends.  NULL with @why when it is refused at once. */
struct vs_job *vs_operation_submit(const struct vs_request *request,
				   int notify_fd, struct vs_why *why);
/* True when done; then *out is filled. */
bool vs_operation_done(struct vs_job *job, struct vs_reply *out);
void vs_operation_progress(struct vs_job *job, struct vs_progress *out);
/* The client is gone or has its answer; the job goes on without it.  Only a
 * quiesce ends: it lets the program go, unless another job took its rest. */
void vs_operation_forget(struct vs_job *job);

/* Take back what is queued, drains, or waits for memory; how many jobs.  What
 * has begun to move memory goes on. */
int vs_operation_cancel(void);

/* Take the operator's hold off, and back each pause that waits or drains: at
 * once, whatever runs. */
void vs_operation_resume(void);

/* This quiesce still holds the program, or the job that took it over does. */
bool vs_operation_rests(struct vs_job *job);

/* This is the operation thread: it must not wait for a job. */
bool vs_operation_is_self(void);

/* Another request could run now, if the one that runs ended. */
bool vs_operation_wanted(void);

/* Submit and wait, at most so long (VS_BUSY then); for exit and tests. */
void vs_operation_run(const struct vs_request *request, double seconds,
		      struct vs_reply *out);

/* The state now, without waiting for any job. */
void vs_operation_status(struct vs_reply *out);

#endif
