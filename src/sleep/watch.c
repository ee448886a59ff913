/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/watch.h"
#include "sleep/gate.h"
#include "memory/pool.h"
#include "memory/spare.h"
#include "base/context.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"

#include <string.h>

static struct vs_lock watch_lock = VS_LOCK(VS_RANK_STATE);
static pthread_cond_t begun;

/* under watch_lock */
static bool started, wanted;

/* Until there is something to look at, at @due or when a watch begins. */
static void wait_due(double due)
{
	vs_lock_take(&watch_lock);
	while (!wanted && (due <= 0 || vs_lock_now() < due))
		vs_lock_wait(&watch_lock, &begun, due);
	wanted = false;
	vs_lock_drop(&watch_lock);
}

/* When to look again; 0: not until a watch begins. */
static double look(void)
{
	double pool, spare;

	vs_spare_stop();
	pool = vs_pool_idle(vs_lock_now());
	vs_spare_go_on();
	spare = vs_spare_idle(vs_lock_now());
	return !pool || (spare && spare < pool) ? spare : pool;
}

static void *watch(void *unused)
{
	double due = 0;

	vs_context_relax();
	while (!vs_gate_closing()) {
		wait_due(due);
		due = vs_gate_closing() ? 0 : look();
	}
	return unused;
}

/* Under the lock. */
static void start(void)
{
	int rc;

	vs_lock_cond_init(&begun);
	rc = vs_thread_start(NULL, "vsleep-watch", watch, NULL);
	started = !rc;
	if (rc)
		vs_log_warn("what pools and frees keep without use does not "
			    "go back: %s", strerror(rc));
}

void vs_watch_begin(void)
{
	vs_lock_take(&watch_lock);
	wanted = true;
	if (!started)
		start();
	else
		pthread_cond_signal(&begun);
	vs_lock_drop(&watch_lock);
}
