/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/waiter.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/thread.h"

#include <string.h>

static struct vs_lock waiter_lock = VS_LOCK(VS_RANK_GATE);
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;

/* under waiter_lock; the contexts are pinned and the thread's while busy */
static struct vs_context *list[VS_CONTEXT_MAX];
static int list_count;
static bool started, busy, given_up;
static CUresult answer;
static CUdevice answer_device;
static double since;

static bool wanted(void)
{
	bool yes;

	vs_lock_take(&waiter_lock);
	yes = !given_up;
	vs_lock_drop(&waiter_lock);
	return yes;
}

static CUresult synchronize(struct vs_context *context)
{
	CUresult rc = vs_real.cuCtxSetCurrent(context->handle);

	return rc ? rc : vs_real.cuCtxSynchronize();
}

static void wait_for_list(int count)
{
	CUdevice device = 0;
	CUresult rc = CUDA_SUCCESS;
	int i;

	for (i = 0; i < count; i++) {
		if (!rc && wanted()) {
			device = list[i]->device;
			rc = synchronize(list[i]);
		}
		vs_context_unpin(list[i]);
	}
	vs_real.cuCtxSetCurrent(NULL);
	vs_lock_take(&waiter_lock);
	answer = rc;
	answer_device = device;
	busy = false;
	vs_lock_drop(&waiter_lock);
}

static void *wait_thread(void *unused)
{
	int count;

	vs_context_relax();
	for (;;) {
		vs_lock_take(&waiter_lock);
		while (!list_count)
			vs_lock_wait(&waiter_lock, &asked, 0);
		count = list_count;
		list_count = 0;
		vs_lock_drop(&waiter_lock);
		wait_for_list(count);
	}
	return unused;
}

static enum vs_status start(struct vs_why *why)
{
	int rc;

	if (started)
		return VS_OK;
	rc = vs_thread_start(NULL, "vsleep-wait", wait_thread, NULL);
	if (rc)
		return vs_why_set(why, VS_REFUSED, "no thread to wait in: %s",
				  strerror(rc));
	started = true;
	return VS_OK;
}

bool vs_waiter_stuck(void)
{
	bool stuck;

	vs_lock_take(&waiter_lock);
	stuck = busy;
	vs_lock_drop(&waiter_lock);
	return stuck;
}

enum vs_status vs_waiter_ask(struct vs_context **contexts, int count,
			     struct vs_why *why)
{
	enum vs_status st = start(why);
	int i;

	for (i = 0; st && i < count; i++)
		vs_context_unpin(contexts[i]);
	if (st)
		return st;
	vs_lock_take(&waiter_lock);
	memcpy(list, contexts, (size_t)count * sizeof(*contexts));
	list_count = count;
	busy = count > 0;
	given_up = false;
	answer = CUDA_SUCCESS;
	since = vs_lock_now();
	pthread_cond_signal(&asked);
	vs_lock_drop(&waiter_lock);
	return VS_OK;
}

void vs_waiter_give_up(void)
{
	vs_lock_take(&waiter_lock);
	given_up = true;
	vs_lock_drop(&waiter_lock);
}

enum vs_status vs_waiter_look(struct vs_why *why)
{
	char error[96];
	enum vs_status st = VS_OK;

	vs_lock_take(&waiter_lock);
	if (busy)
		st = vs_why_set(why, VS_BUSY, "%.1f s or more of queued work",
				vs_lock_now() - since);
	else if (answer)
		st = vs_why_set(why, vs_driver_sticky(answer) ? VS_FAILED :
				VS_CUDA, "a context on device %d does not "
				"come to rest: %s", answer_device,
				vs_driver_error(answer, error,
						sizeof(error)));
	vs_lock_drop(&waiter_lock);
	return st;
}
