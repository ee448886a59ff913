/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "stub_operation.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JOBS 8192

struct vs_job {
	bool done;
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
		pthread_cond_wait(&changed, &lock);
	if (last)
		*last = last_request;
	pthread_mutex_unlock(&lock);
}

void stub_wait_forgotten(unsigned count)
{
	pthread_mutex_lock(&lock);
	while (forgotten < count)
		pthread_cond_wait(&changed, &lock);
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
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void vs_operation_status(struct vs_reply *out)
{
	memset(out, 0, sizeof(*out));
	out->ledger = stub_ledger;
}
