/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/operation.h"
#include "sleep/gate.h"
#include "sleep/job.h"
#include "sleep/prepare.h"
#include "sleep/retain.h"
#include "sleep/transition.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH 1.0	/* seconds, while prepare may add to what is retained */

static struct vs_lock job_lock = VS_LOCK(VS_RANK_STATE);
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct vs_job *queue;	/* under job_lock, as all below */
static struct vs_job *running;	/* one of the queue */
static struct vs_job *rest;	/* a quiesce that is done, and holds */
static bool unsettled;		/* a hold has come off without a job */
static pthread_t self;		/* the operation thread, once it is started */
static atomic_bool started;
static atomic_bool starting;		/* or started: jobs will be run */

/* The end of a request: who asked is told, and those who wait for it. */
static void finish(struct vs_job *job, enum vs_status st,
		   const struct vs_why *why)
{
	static const uint64_t one = 1;
	ssize_t written;

	job->reply.status = st;
	job->reply.why = *why;
	job->done = true;
	vs_job_unlink(&queue, job);
	/* A full counter wakes its reader too. */
	if (job->notify_fd >= 0)
		do
			written = write(job->notify_fd, &one, sizeof(one));
		while (written < 0 && errno == EINTR);
	pthread_cond_broadcast(&changed);
	vs_job_put(job);
}

/* The rest of a quiesce that holds, or is just about to; false when it is
 * over already, or somebody else's. */
static bool end_rest(struct vs_job *job, const char *by)
{
	if (job->taken || job->ended_by)
		return false;
	job->ended_by = by;
	return true;
}

static bool rest_is_over(double now)
{
	return !rest->taken && (rest->ended_by || now >= rest->lease_end);
}

/* What runs ends by itself soon, all others now; false when it has begun. */
static bool take_back(struct vs_job *job, const char *by,
		      const struct vs_ledger *now)
{
	struct vs_why why;

	if (!vs_job_take_back(job, by))
		return job->request.verb == VS_VERB_QUIESCE &&
		       end_rest(job, by);
	if (job == running)
		return true;
	if (job->request.rest) {
		job->request.rest->taken = false;
		job->request.rest->ended_by = by;
	}
	job->reply.ledger = *now;
	finish(job, vs_job_say_cancelled(job, &why), &why);
	return true;
}

static int take_back_all(vs_job_is *chosen, const char *by,
			 const struct vs_ledger *now)
{
	struct vs_job *job, *next;
	int count = 0;

	for (job = queue; job; job = next) {
		next = job->next;
		if (chosen(job))
			count += take_back(job, by, now);
	}
	if (rest && chosen(rest))
		count += end_rest(rest, by);
	pthread_cond_broadcast(&changed);
	return count;
}

/* A rest that is over by its lease is none; one that was ended by somebody
 * ends what builds on it. */
static bool take_rest(struct vs_request *request, struct vs_why *why)
{
	struct vs_job *wanted = request->rest;

	if (!wanted)
		return true;
	if (wanted->ended_by) {
		vs_why_set(why, VS_CANCELLED, "cancelled by %s",
			   wanted->ended_by);
		return false;
	}
	if (wanted != rest || vs_lock_now() >= wanted->lease_end) {
		request->rest = NULL;
		return true;
	}
	wanted->taken = true;
	wanted->users++;
	return true;
}

/* A pause that has begun may be resumed before it answers. */
static bool may_be_joined(struct vs_job *job)
{
	return vs_job_open(job) ||
	       (!vs_job_cancelled(job) && !vs_job_pauses(job));
}

static struct vs_job *find_same(const struct vs_request *request)
{
	struct vs_job *job, *found = NULL;

	for (job = queue; job; job = job->next)
		found = job;	/* only the last: order matters to others */
	return found && vs_job_does(found, request) && may_be_joined(found) ?
	       found : NULL;
}

struct vs_job *vs_operation_submit(const struct vs_request *request,
				   int notify_fd, struct vs_why *why)
{
	struct vs_job *fresh = vs_job_make(request, notify_fd), *job;
	struct vs_ledger now;

	if (!fresh) {
		vs_why_set(why, VS_NOHOST, "no memory for a request");
		return NULL;
	}
	if (request->verb == VS_VERB_WAKE)
		vs_ledger_read(&now);
	vs_lock_take(&job_lock);
	if (!take_rest(&fresh->request, why)) {
		vs_lock_drop(&job_lock);
		free(fresh);
		return NULL;
	}
	if (request->verb == VS_VERB_WAKE)
		take_back_all(vs_job_leads_to_sleep, "a wake", &now);
	job = find_same(&fresh->request);
	if (job) {
		vs_job_join(job, fresh);
		vs_job_put(fresh);
	} else {
		job = fresh;
		vs_job_append(&queue, job);
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

static void forget(struct vs_job *job)
{
	static const char by[] = "the end of its client";

	if (job->request.verb == VS_VERB_QUIESCE &&
	    (vs_job_take_back(job, by) || end_rest(job, by)))
		pthread_cond_broadcast(&changed);
	vs_job_put(job);
}

void vs_operation_forget(struct vs_job *job)
{
	vs_lock_take(&job_lock);
	forget(job);
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

	vs_operation_status(out);
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
	forget(job);
	vs_lock_drop(&job_lock);
}

/* A wake that lacks device memory is tried again, others in between. */
static bool try_later(struct vs_job *job, enum vs_status st)
{
	double now = vs_lock_now();
	unsigned seed = (unsigned)(now * 1e6);

	if (st != VS_NOMEM || vs_job_cancelled(job) ||
	    now >= job->submitted + job->request.wait_ms / 1000.0)
		return false;
	atomic_store(&job->transition.turn, VS_TURN_OPEN);
	job->not_before = now + 0.02 + 0.06 * rand_r(&seed) / RAND_MAX;
	atomic_store(&job->transition.phase, "waiting for memory");
	vs_job_unlink(&queue, job);
	vs_job_append(&queue, job);
	return true;
}

int vs_operation_cancel(void)
{
	struct vs_ledger now;
	int count;

	vs_ledger_read(&now);
	vs_lock_take(&job_lock);
	count = take_back_all(vs_job_any, "a cancel", &now);
	vs_lock_drop(&job_lock);
	return count;
}

/* A pause that is just about to hold puts the hold on before it begins: so it
 * is taken back here, or its hold comes off here. */
void vs_operation_resume(void)
{
	struct vs_ledger now;
	bool paused;

	vs_ledger_read(&now);
	vs_lock_take(&job_lock);
	take_back_all(vs_job_pauses, "a resume", &now);
	paused = vs_gate_holds() & VS_HOLD_OPERATOR;
	vs_gate_open(VS_HOLD_OPERATOR);
	unsettled = true;
	vs_lock_drop(&job_lock);
	if (paused)
		vs_log_info("resumed");
}

bool vs_operation_rests(struct vs_job *job)
{
	bool yes;

	vs_lock_take(&job_lock);
	yes = job == rest && !rest_is_over(vs_lock_now());
	vs_lock_drop(&job_lock);
	return yes;
}

/* From now on the gate stays shut until the rest is taken or over. */
static void begin_rest(struct vs_job *job)
{
	job->users++;
	job->lease_end = vs_lock_now() + job->request.lease_ms / 1000.0;
	rest = job;
}

/* From here on it cannot be taken back: it is over, or will be tried again,
 * which this says. */
static bool conclude(struct vs_job *job, enum vs_status *st,
		     struct vs_why *why)
{
	bool again;

	vs_lock_take(&job_lock);
	running = NULL;
	again = try_later(job, *st);
	if (!again)
		vs_transition_begin(&job->transition);
	if (vs_job_cancelled(job) &&
	    (!*st || *st == VS_NOMEM || *st == VS_CANCELLED))
		*st = vs_job_say_cancelled(job, why);
	vs_lock_drop(&job_lock);
	return again;
}

static void reply(struct vs_job *job, enum vs_status st, struct vs_why *why)
{
	vs_ledger_read(&job->reply.ledger);
	vs_lock_take(&job_lock);
	if (!st && job->request.verb == VS_VERB_QUIESCE) {
		begin_rest(job);
		if (job->ended_by)
			st = vs_job_say_cancelled(job, why);
	}
	finish(job, st, why);
	vs_lock_drop(&job_lock);
}

/* @request: what it was when it began; others may join and change it. */
static void run_job(struct vs_job *job, const struct vs_request *request)
{
	struct vs_why why = { .status = VS_OK };
	bool dry = request->dry_run, again;
	enum vs_status st = VS_CANCELLED;

	vs_prepare_halt();
	if (!vs_job_cancelled(job))
		st = vs_job_carry_out(job, request, &why);
	else if (request->rest)
		vs_gate_open(VS_HOLD_OPERATION);
	if (!dry)
		vs_transition_settle();
	again = conclude(job, &st, &why);
	if (st && st != VS_PARTIAL && !dry)
		vs_ledger_failed(&why);
	vs_prepare_over(request->verb, st);
	if (!again)
		reply(job, st, &why);
	vs_transition_clean_up();
}

static void let_go(void)
{
	struct vs_job *was = rest;
	const char *by = was->ended_by;

	rest = NULL;
	vs_lock_drop(&job_lock);
	vs_log_info("let go by %s", by ? by : "the end of the lease");
	vs_transition_let_go();
	vs_lock_take(&job_lock);
	vs_job_put(was);
}

static void settle(void)
{
	unsettled = false;
	vs_lock_drop(&job_lock);
	vs_transition_settle();
	vs_lock_take(&job_lock);
}

static bool must_wait(const struct vs_job *job)
{
	return rest && job->request.rest != rest && !job->request.dry_run;
}

/* The first job that may run now; *until: when to look again, 0 never. */
static struct vs_job *next_job(double *until)
{
	double now = vs_lock_now();
	struct vs_job *job;

	*until = rest && !rest->taken ? rest->lease_end : 0;
	for (job = queue; job; job = job->next) {
		if (job == running || must_wait(job))
			continue;
		if (job->not_before <= now)
			return job;
		if (!*until || job->not_before < *until)
			*until = job->not_before;
	}
	return NULL;
}

/* Between two jobs. */
static void look_around(double *watch, double *prepare)
{
	double now = vs_lock_now(), until;
	bool watches = *watch && now >= *watch;
	bool prepares = *prepare && now >= *prepare && !rest &&
			!next_job(&until);

	vs_lock_drop(&job_lock);
	if (watches)
		*watch = vs_retain_watch();
	if (prepares)
		*prepare = vs_prepare_idle();
	if (*prepare && !*watch)
		*watch = now + WATCH;
	vs_lock_take(&job_lock);
}

static double sooner(double a, double b)
{
	return !a || (b && b < a) ? b : a;
}

static void *operate(void *unused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct vs_request request;
	struct vs_job *job;
	double until, look = 0, prepare = vs_lock_now();

	self = pthread_self();
	atomic_store(&started, true);
	vs_real.cuThreadExchangeStreamCaptureMode(&mode);
	vs_lock_take(&job_lock);
	for (;;) {
		if (rest && rest_is_over(vs_lock_now()))
			let_go();
		if (unsettled)
			settle();
		look_around(&look, &prepare);
		job = next_job(&until);
		if (!job) {
			until = sooner(until, sooner(look, rest ? 0 : prepare));
			vs_lock_wait(&job_lock, &changed, until);
			continue;
		}
		running = job;
		request = job->request;
		if (rest && job->request.rest == rest) {
			vs_job_put(rest);
			rest = NULL;
		}
		vs_lock_drop(&job_lock);
		run_job(job, &request);
		look = vs_retain_watch();
		prepare = vs_lock_now();
		vs_lock_take(&job_lock);
	}
	return unused;
}

bool vs_operation_wanted(void)
{
	double until;
	bool yes;

	vs_lock_take(&job_lock);
	yes = next_job(&until);
	vs_lock_drop(&job_lock);
	return yes;
}

bool vs_operation_started(void)
{
	return atomic_load(&starting);
}

bool vs_operation_is_self(void)
{
	return atomic_load(&started) && pthread_equal(self, pthread_self());
}

enum vs_status vs_operation_start(struct vs_why *why)
{
	int rc;

	vs_lock_cond_init(&changed);
	rc = vs_thread_start(NULL, "vsleep-op", operate, NULL);
	if (rc)
		return vs_why_set(why, VS_FAILED, "no thread for operations: "
				  "%s", strerror(rc));
	atomic_store(&starting, true);
	return VS_OK;
}
