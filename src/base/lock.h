/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock - mutexes with a rank.
 *
 * A thread takes locks in rising rank only; builds with --enable-debug log
 * an error where one does not.  Waiting on a condition drops the lock.
 */
#ifndef VS_BASE_LOCK_H
#define VS_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

enum vs_rank {
	VS_RANK_CALLBACK,	/* sleep/callback: what is called */
	VS_RANK_STATE,		/* sleep/operation: requests and state */
	VS_RANK_GATE,		/* sleep/gate: thread records, waiters */
	VS_RANK_SPARE,		/* memory/spare: what goes back in time */
	VS_RANK_CONTEXT,	/* base/context: known contexts */
	VS_RANK_CAPTURE,	/* memory/capture: capturing streams */
	VS_RANK_GROW,		/* memory/arena: one grower at a time */
	VS_RANK_SEGMENT,	/* memory/segment: the table */
	VS_RANK_STORE,		/* backup/store */
	VS_RANK_POOL,		/* backup/host_pool, ring, spill */
	VS_RANK_TAG,		/* base/tag: names */
	VS_RANK_COUNT
};

struct vs_lock {
	pthread_mutex_t mutex;
	enum vs_rank rank;
};

#define VS_LOCK(r) { .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (r) }

void vs_lock_take(struct vs_lock *lock);
void vs_lock_drop(struct vs_lock *lock);

/* Wait for @cond; @deadline is CLOCK_MONOTONIC seconds, 0 for ever.
 * False when the deadline passed.  @cond from vs_lock_cond_init. */
bool vs_lock_wait(struct vs_lock *lock, pthread_cond_t *cond, double deadline);
void vs_lock_cond_init(pthread_cond_t *cond);

/* Seconds of CLOCK_MONOTONIC. */
double vs_lock_now(void);

#endif
