/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "stub_operation.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOBS 8192

struct vs_job {
	bool done;
	bool taken;		/* another was asked to take its rest over */
	int notify_fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct vs_ledger stub_ledger;

/* under lock */
static struct vs_job jobs[JOBS];
static struct vs_request last_request;
static struct vs_reply verdict;
static struct vs_why refusal;
static bool at_once;
static unsigned submitted;
static unsigned forgotten;
static unsigned let_go;
static unsigned resumed;
static bool lease_over;
static struct vs_outlook outlook;

/* A test that waits in vain fails soon. */
static void wait_changed(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	ck_assert_int_eq(pthread_cond_timedwait(&changed, &lock, &until), 0);
}

void stub_answer(enum vs_status status, const char *text)
{
	pthread_mutex_lock(&lock);
	vs_why_set(&refusal, status, "%s", text);
	pthread_mutex_unlock(&lock);
}

void stub_at_once(void)
{
	pthread_mutex_lock(&lock);
	at_once = true;
	pthread_mutex_unlock(&lock);
}

void stub_wait_submitted(unsigned count, struct vs_request *last)
{
	pthread_mutex_lock(&lock);
	while (submitted < count)
		wait_changed();
	if (last)
		*last = last_request;
	pthread_mutex_unlock(&lock);
}

void stub_wait_forgotten(unsigned count)
{
	pthread_mutex_lock(&lock);
	while (forgotten < count)
		wait_changed();
	pthread_mutex_unlock(&lock);
}

unsigned stub_let_go(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = let_go;
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned stub_resumed(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = resumed;
	pthread_mutex_unlock(&lock);
	return count;
}

void stub_end_leases(void)
{
	pthread_mutex_lock(&lock);
	lease_over = true;
	pthread_mutex_unlock(&lock);
}

void stub_foretell(const struct vs_outlook *what)
{
	pthread_mutex_lock(&lock);
	outlook = *what;
	pthread_mutex_unlock(&lock);
}

unsigned stub_submitted(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = submitted;
	pthread_mutex_unlock(&lock);
	return count;
}

void stub_finish(enum vs_status status, const char *text)
{
	uint64_t one = 1;
	unsigned i;

	pthread_mutex_lock(&lock);
	verdict.status = status;
	vs_why_set(&verdict.why, status, "%s", text);
	for (i = 0; i < submitted; i++) {
		if (jobs[i].done)
			continue;
		jobs[i].done = true;
		if (jobs[i].notify_fd >= 0 &&
		    write(jobs[i].notify_fd, &one, sizeof(one)) < 0)
			perror("notify");
	}
	pthread_mutex_unlock(&lock);
}

struct vs_job *vs_operation_submit(const struct vs_request *request,
				   int notify_fd, struct vs_why *why)
{
	struct vs_job *job = NULL;

	pthread_mutex_lock(&lock);
	last_request = *request;
	if (refusal.status || submitted == JOBS) {
		*why = refusal;
	} else {
		if (request->rest)
			request->rest->taken = true;
		job = &jobs[submitted++];
		job->done = at_once;
		job->notify_fd = notify_fd;
	}
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return job;
}

bool vs_operation_done(struct vs_job *job, struct vs_reply *out)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = job->done;
	if (done) {
		*out = verdict;
		out->ledger = stub_ledger;
		out->outlook = outlook;
	}
	pthread_mutex_unlock(&lock);
	return done;
}

void vs_operation_progress(struct vs_job *job, struct vs_progress *out)
{
	(void)job;
	out->phase = "copying out";
	out->done_bytes = 5;
	out->total_bytes = 9;
}

void vs_operation_forget(struct vs_job *job)
{
	pthread_mutex_lock(&lock);
	job->notify_fd = -1;
	forgotten++;
	let_go += job->done && !job->taken;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int vs_operation_cancel(void)
{
	int count = 0;
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < submitted; i++)
		count += !jobs[i].done;
	pthread_mutex_unlock(&lock);
	stub_finish(VS_CANCELLED, "cancelled");
	return count;
}

void vs_operation_resume(void)
{
	pthread_mutex_lock(&lock);
	resumed++;
	pthread_mutex_unlock(&lock);
}

bool vs_operation_rests(struct vs_job *job)
{
	bool yes;

	pthread_mutex_lock(&lock);
	yes = !lease_over && job->done && !job->taken;
	pthread_mutex_unlock(&lock);
	return yes;
}

void vs_operation_status(struct vs_reply *out)
{
	memset(out, 0, sizeof(*out));
	out->ledger = stub_ledger;
}
