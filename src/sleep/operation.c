/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/operation.h"
#include "sleep/transition.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vs_job {
	struct vs_request request;
	struct vs_transition transition;
	struct vs_reply reply;
	unsigned users;		/* who asked, and the queue */
	bool done;
	int notify_fd;
	double submitted;
	double not_before;	/* of the next try */
	struct vs_job *next;
};

static struct vs_lock job_lock = VS_LOCK(VS_RANK_STATE);
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct vs_job *queue;	/* first: running or next; under job_lock */

static void put(struct vs_job *job)
{
	if (!--job->users)
		free(job);
}

static bool same(const struct vs_request *a, const struct vs_request *b)
{
	return a->verb == b->verb && a->level == b->level &&
	       a->all_tags == b->all_tags && a->tags == b->tags &&
	       a->hold == b->hold && a->discard_all == b->discard_all &&
	       a->force == b->force;
}

/* A wake takes back a sleep that still waits for the program. */
static void cancel_sleeps(void)
{
	struct vs_job *job;

	for (job = queue; job; job = job->next)
		if (job->request.verb == VS_VERB_SLEEP)
			atomic_store(&job->transition.cancel, true);
}

static struct vs_job *find_same(const struct vs_request *request)
{
	struct vs_job *job, *found = NULL;

	for (job = queue; job; job = job->next)
		found = job;	/* only the last: order matters to others */
	return found && same(&found->request, request) &&
	       !atomic_load(&found->transition.cancel) ? found : NULL;
}

/* Whoever has the longer breath decides, as far as it is not too late. */
static void join(struct vs_job *job, const struct vs_request *other)
{
	if (job->request.timeout_ms < other->timeout_ms)
		job->request.timeout_ms = other->timeout_ms;
	if (job->request.wait_ms < other->wait_ms)
		job->request.wait_ms = other->wait_ms;
}

static void append(struct vs_job *job)
{
	struct vs_job **link;

	for (link = &queue; *link; link = &(*link)->next)
		;
	*link = job;
}

struct vs_job *vs_operation_submit(const struct vs_request *request,
				   int notify_fd, struct vs_why *why)
{
	struct vs_job *fresh = calloc(1, sizeof(*fresh)), *job;

	if (!fresh) {
		vs_why_set(why, VS_NOHOST, "no memory for a request");
		return NULL;
	}
	fresh->request = *request;
	fresh->notify_fd = notify_fd;
	fresh->submitted = vs_lock_now();
	fresh->users = 1;
	atomic_store(&fresh->transition.phase, "waiting");
	vs_lock_take(&job_lock);
	job = find_same(request);
	if (job) {
		if (job->notify_fd < 0)
			job->notify_fd = notify_fd;
		join(job, &fresh->request);
		free(fresh);
	} else {
		if (request->verb == VS_VERB_WAKE)
			cancel_sleeps();
		job = fresh;
		append(job);
	}
	job->users++;
	pthread_cond_broadcast(&changed);
	vs_lock_drop(&job_lock);
	return job;
}

bool vs_operation_done(struct vs_job *job, struct vs_reply *out)
{
	bool done;

	vs_lock_take(&job_lock);
	done = job->done;
	if (done)
		*out = job->reply;
	vs_lock_drop(&job_lock);
	return done;
}

void vs_operation_progress(struct vs_job *job, struct vs_progress *out)
{
	out->phase = atomic_load(&job->transition.phase);
	out->total_bytes = atomic_load(&job->transition.total);
	out->done_bytes = atomic_load(&job->transition.meter.done);
}

void vs_operation_forget(struct vs_job *job)
{
	vs_lock_take(&job_lock);
	put(job);
	vs_lock_drop(&job_lock);
}

void vs_operation_status(struct vs_reply *out)
{
	memset(out, 0, sizeof(*out));
	vs_ledger_read(&out->ledger);
}

void vs_operation_run(const struct vs_request *request, double seconds,
		      struct vs_reply *out)
{
	double until = vs_lock_now() + seconds;
	struct vs_job *job;

	memset(out, 0, sizeof(*out));
	job = vs_operation_submit(request, -1, &out->why);
	if (!job) {
		out->status = out->why.status;
		return;
	}
	vs_lock_take(&job_lock);
	while (!job->done && vs_lock_wait(&job_lock, &changed, until))
		;
	if (job->done)
		*out = job->reply;
	else
		out->status = vs_why_set(&out->why, VS_BUSY, "not done after "
					 "%.0f s", seconds);
	put(job);
	vs_lock_drop(&job_lock);
}

/* A wake that lacks device memory is tried again, others in between. */
static bool try_later(struct vs_job *job, enum vs_status st)
{
	double now = vs_lock_now();
	unsigned seed = (unsigned)(now * 1e6);
	struct vs_job **link;

	if (st != VS_NOMEM ||
	    now >= job->submitted + job->request.wait_ms / 1000.0)
		return false;
	job->not_before = now + 0.02 + 0.06 * rand_r(&seed) / RAND_MAX;
	atomic_store(&job->transition.phase, "waiting for memory");
	for (link = &queue; *link != job; link = &(*link)->next)
		;
	*link = job->next;
	job->next = NULL;
	append(job);
	return true;
}

static void finish(struct vs_job *job, enum vs_status st,
		   const struct vs_why *why)
{
	static const uint64_t one = 1;
	struct vs_job **link;
	ssize_t written;

	job->reply.status = st;
	job->reply.why = *why;
	job->done = true;
	for (link = &queue; *link != job; link = &(*link)->next)
		;
	*link = job->next;
	if (job->notify_fd >= 0) {
		written = write(job->notify_fd, &one, sizeof(one));
		(void)written;	/* a full counter wakes its reader too */
	}
	pthread_cond_broadcast(&changed);
	put(job);
}

static void run_job(struct vs_job *job)
{
	struct vs_why why = { .status = VS_OK };
	enum vs_status st;

	if (job->request.verb == VS_VERB_SLEEP)
		st = vs_transition_sleep(&job->request, &job->transition,
					 &why);
	else
		st = vs_transition_wake(&job->request, &job->transition,
					&why);
	if (st && st != VS_PARTIAL)
		vs_ledger_failed(&why);
	vs_ledger_read(&job->reply.ledger);
	vs_lock_take(&job_lock);
	if (!try_later(job, st))
		finish(job, st, &why);
	vs_lock_drop(&job_lock);
	vs_transition_clean_up();
}

/* The first job that may run now; *until: when to look again, 0 never. */
static struct vs_job *next_job(double *until)
{
	double now = vs_lock_now();
	struct vs_job *job;

	*until = 0;
	for (job = queue; job; job = job->next) {
		if (job->not_before <= now)
			return job;
		if (!*until || job->not_before < *until)
			*until = job->not_before;
	}
	return NULL;
}

static void *operate(void *unused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct vs_job *job;
	double until;

	vs_real.cuThreadExchangeStreamCaptureMode(&mode);
	vs_lock_take(&job_lock);
	for (;;) {
		job = next_job(&until);
		if (!job) {
			vs_lock_wait(&job_lock, &changed, until);
			continue;
		}
		vs_lock_drop(&job_lock);
		run_job(job);
		vs_lock_take(&job_lock);
	}
	return unused;
}

enum vs_status vs_operation_start(struct vs_why *why)
{
	int rc;

	vs_lock_cond_init(&changed);
	rc = vs_thread_start(NULL, "vsleep-op", operate, NULL);
	if (rc)
		return vs_why_set(why, VS_FAILED, "no thread for operations: "
				  "%s", strerror(rc));
	return VS_OK;
}
