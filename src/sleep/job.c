/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/job.h"
#include "sleep/prepare.h"
#include "sleep/retain.h"
#include "base/lock.h"

#include <stdlib.h>

struct vs_job *vs_job_make(const struct vs_request *request, int notify_fd)
{
	struct vs_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->request = *request;
	job->notify_fd = notify_fd;
	job->submitted = vs_lock_now();
	job->users = 1;
	atomic_store(&job->transition.phase, "waiting");
	return job;
}

void vs_job_put(struct vs_job *job)
{
	if (--job->users)
		return;
	if (job->request.rest)
		vs_job_put(job->request.rest);
	free(job);
}

void vs_job_append(struct vs_job **queue, struct vs_job *job)
{
	job->next = NULL;
	while (*queue)
		queue = &(*queue)->next;
	*queue = job;
}

void vs_job_unlink(struct vs_job **queue, struct vs_job *job)
{
	while (*queue != job)
		queue = &(*queue)->next;
	*queue = job->next;
}

bool vs_job_does(const struct vs_job *job, const struct vs_request *request)
{
	const struct vs_request *r = &job->request;

	return r->verb == request->verb && r->level == request->level &&
	       r->all_tags == request->all_tags && r->tags == request->tags &&
	       r->hold == request->hold &&
	       r->discard_all == request->discard_all &&
	       r->force == request->force && r->dry_run == request->dry_run &&
	       r->imports_only == request->imports_only &&
	       r->own_only == request->own_only &&
	       r->verify == request->verify &&
	       r->rest == request->rest && r->verb != VS_VERB_QUIESCE;
}

void vs_job_join(struct vs_job *job, const struct vs_job *other)
{
	if (job->notify_fd < 0)
		job->notify_fd = other->notify_fd;
	if (job->request.timeout_ms < other->request.timeout_ms)
		job->request.timeout_ms = other->request.timeout_ms;
	if (job->request.wait_ms < other->request.wait_ms)
		job->request.wait_ms = other->request.wait_ms;
}

bool vs_job_take_back(struct vs_job *job, const char *by)
{
	if (!vs_transition_cancel(&job->transition))
		return false;
	job->ended_by = by;
	return true;
}

bool vs_job_open(struct vs_job *job)
{
	return atomic_load(&job->transition.turn) == VS_TURN_OPEN;
}

bool vs_job_cancelled(struct vs_job *job)
{
	return atomic_load(&job->transition.turn) == VS_TURN_CANCELLED;
}

enum vs_status vs_job_say_cancelled(const struct vs_job *job,
				    struct vs_why *why)
{
	return vs_why_set(why, VS_CANCELLED, "cancelled by %s",
			  job->ended_by);
}

bool vs_job_leads_to_sleep(const struct vs_job *job)
{
	return !job->request.dry_run &&
	       (job->request.verb == VS_VERB_SLEEP ||
		job->request.verb == VS_VERB_QUIESCE);
}

bool vs_job_pauses(const struct vs_job *job)
{
	return job->request.verb == VS_VERB_PAUSE;
}

bool vs_job_any(const struct vs_job *job)
{
	(void)job;
	return true;
}

enum vs_status vs_job_carry_out(struct vs_job *job,
				const struct vs_request *request,
				struct vs_why *why)
{
	struct vs_transition *t = &job->transition;

	switch (request->verb) {
	case VS_VERB_SLEEP:
		if (!request->dry_run)
			return vs_transition_sleep(request, t, why);
		if (!vs_transition_begin(t))
			return VS_CANCELLED;
		return vs_transition_outlook(request, &job->reply.outlook,
					     why);
	case VS_VERB_WAKE:
		return vs_transition_wake(request, t, why);
	case VS_VERB_PAUSE:
		return vs_transition_pause(request, t, why);
	case VS_VERB_QUIESCE:
		return vs_transition_quiesce(request, t, why);
	case VS_VERB_TRIM:
		if (!vs_transition_begin(t))
			return VS_CANCELLED;
		job->reply.trimmed_bytes = vs_retain_trim(true);
		job->reply.trimmed = true;
		return VS_OK;
	case VS_VERB_PREPARE:
		return vs_prepare_run(request, t, &job->reply.prepared, why);
	}
	return vs_why_set(why, VS_REFUSED, "no such request");
}
