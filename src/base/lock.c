/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <time.h>

#ifdef VS_DEBUG
static _Thread_local unsigned held
	__attribute__((tls_model("initial-exec")));	/* bit n: rank n */

static void note_take(enum vs_rank rank)
{
	if (held >> rank)
		vs_log_error("lock of rank %d taken while holding 0x%x", rank,
			     held);
	held |= 1u << rank;
}

static void note_drop(enum vs_rank rank)
{
	held &= ~(1u << rank);
}
#else
static void note_take(enum vs_rank rank)
{
	(void)rank;
}

static void note_drop(enum vs_rank rank)
{
	(void)rank;
}
#endif

void vs_lock_take(struct vs_lock *lock)
{
	note_take(lock->rank);
	pthread_mutex_lock(&lock->mutex);
}

void vs_lock_drop(struct vs_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
	note_drop(lock->rank);
}

bool vs_lock_wait(struct vs_lock *lock, pthread_cond_t *cond, double deadline)
{
	struct timespec until;
	int rc = 0, before;

	/* A thread that is cancelled here would take the lock with it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (deadline <= 0) {
		pthread_cond_wait(cond, &lock->mutex);
		goto out;
	}
	until.tv_sec = (time_t)deadline;
	until.tv_nsec = (long)((deadline - (double)until.tv_sec) * 1e9);
	rc = pthread_cond_timedwait(cond, &lock->mutex, &until);
out:
	pthread_setcancelstate(before, NULL);
	return rc != ETIMEDOUT;
}

void vs_lock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

double vs_lock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
