/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - one request on its way, for sleep/operation alone; all is under its
 * lock but what struct vs_transition says of itself.
 */
#ifndef VS_SLEEP_JOB_H
#define VS_SLEEP_JOB_H

#include "sleep/transition.h"

struct vs_job {
	struct vs_request request;
	struct vs_transition transition;
	struct vs_reply reply;
	unsigned users;		/* who asked, the queue, who has its rest */
	bool done;
	int notify_fd;
	double submitted;
	double not_before;	/* of the next try */
	const char *ended_by;	/* what took it back, or ended its rest */
	double lease_end;	/* quiesce: of its rest */
	bool taken;		/* quiesce: a job takes its rest over */
	struct vs_job *next;
};

/* NULL: no memory. */
struct vs_job *vs_job_make(const struct vs_request *request, int notify_fd);
/* One user less. */
void vs_job_put(struct vs_job *job);

void vs_job_append(struct vs_job **queue, struct vs_job *job);
void vs_job_unlink(struct vs_job **queue, struct vs_job *job);

/* One that does just what @request asks for, for more than one who asks. */
bool vs_job_does(const struct vs_job *job, const struct vs_request *request);
/* Whoever has the longer breath decides, as far as it is not too late. */
void vs_job_join(struct vs_job *job, const struct vs_job *other);

/* What a wake takes back, a resume, and a cancel. */
typedef bool vs_job_is(const struct vs_job *job);
bool vs_job_leads_to_sleep(const struct vs_job *job);
bool vs_job_pauses(const struct vs_job *job);
bool vs_job_any(const struct vs_job *job);

/* False when it has begun, or was taken back before. */
bool vs_job_take_back(struct vs_job *job, const char *by);
/* It has neither begun nor been taken back. */
bool vs_job_open(struct vs_job *job);
bool vs_job_cancelled(struct vs_job *job);
enum vs_status vs_job_say_cancelled(const struct vs_job *job,
				    struct vs_why *why);

/* What it asks for: @request, as it was when it began.  Not under the lock. */
enum vs_status vs_job_carry_out(struct vs_job *job,
				const struct vs_request *request,
				struct vs_why *why);

#endif
