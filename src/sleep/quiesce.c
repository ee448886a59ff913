/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/quiesce.h"
#include "sleep/gate.h"
#include "sleep/waiter.h"
#include "memory/capture.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_SLICE 0.05	/* seconds */
#define POLL 0.0002
#define STEP_WAIT 0.01	/* for a call to come */

struct drain {
	struct vs_context *context;	/* pinned: the event dies with it */
	CUevent event;
	bool done;
};

/* What was queued at one moment, on every context; without events where the
 * driver cannot record them, for the waiter then knows. */
struct snapshot {
	struct drain drains[VS_CONTEXT_MAX];
	int count;
	double taken;
};

struct attempt {
	const atomic_bool *cancel;
	double start, deadline;
	double depth;			/* longest age of a drained snapshot */
	struct snapshot watched;	/* of the last slice that failed */
	unsigned seed;
};

static void nap(double seconds)
{
	struct timespec ts = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};

	nanosleep(&ts, NULL);
}

static void forget(struct snapshot *snapshot)
{
	int i;

	for (i = 0; i < snapshot->count; i++) {
		vs_real.cuEventDestroy_v2(snapshot->drains[i].event);
		vs_context_unpin(snapshot->drains[i].context);
	}
	snapshot->count = 0;
}

static enum vs_status failed(struct vs_why *why, CUresult rc, CUdevice device)
{
	char error[96];

	vs_driver_error(rc, error, sizeof(error));
	if (vs_driver_sticky(rc))
		return vs_why_set(why, VS_FAILED, "a context on device %d is "
				  "lost: %s", device, error);
	return vs_why_set(why, VS_CUDA, "device %d does not come to rest: %s",
			  device, error);
}

static enum vs_status make_event(struct snapshot *snapshot,
				 struct vs_context *context,
				 struct vs_why *why)
{
	struct drain *d = &snapshot->drains[snapshot->count];
	struct vs_context_scope scope;
	enum vs_status st;
	CUresult rc;

	st = vs_context_enter(context, &scope, why);
	if (st)
		return st;
	rc = vs_real.cuEventCreate(&d->event, CU_EVENT_DISABLE_TIMING);
	vs_context_leave(&scope);
	if (rc)
		return failed(why, rc, context->device);
	d->context = context;
	d->done = false;
	snapshot->count++;
	return VS_OK;
}

static enum vs_status record_all(struct snapshot *snapshot,
				 struct vs_why *why)
{
	const struct drain *end = snapshot->drains + snapshot->count;
	char text[96];
	struct drain *d;
	CUresult rc = CUDA_SUCCESS;

	if (!vs_capture_lock_quiet(text, sizeof(text)))
		return vs_why_set(why, VS_BUSY, "%s", text);
	for (d = snapshot->drains; d < end; d++) {
		rc = vs_real.cuCtxRecordEvent(d->context->handle, d->event);
		if (rc)
			break;
	}
	vs_capture_unlock();
	snapshot->taken = vs_lock_now();
	return rc ? failed(why, rc, d->context->device) : VS_OK;
}

static enum vs_status ask_waiter(struct vs_context **contexts, int count,
				 struct vs_why *why)
{
	char text[96];
	int i;

	if (vs_capture_lock_quiet(text, sizeof(text))) {
		vs_capture_unlock();	/* the gate is shut: none can begin */
		return vs_waiter_ask(contexts, count, why);
	}
	for (i = 0; i < count; i++)
		vs_context_unpin(contexts[i]);
	return vs_why_set(why, VS_BUSY, "%s", text);
}

static enum vs_status take(struct snapshot *snapshot, struct vs_why *why)
{
	struct vs_context *contexts[VS_CONTEXT_MAX];
	enum vs_status st = VS_OK;
	int i, count;

	snapshot->count = 0;
	count = vs_context_pin_all(contexts, VS_CONTEXT_MAX);
	if (!vs_real.cuCtxRecordEvent)
		return ask_waiter(contexts, count, why);
	for (i = 0; !st && i < count; i++)
		st = make_event(snapshot, contexts[i], why);
	for (i = snapshot->count; i < count; i++)
		vs_context_unpin(contexts[i]);
	if (!st)
		st = record_all(snapshot, why);
	if (st)
		forget(snapshot);
	return st;
}

/* VS_BUSY while something is not done. */
static enum vs_status look(struct snapshot *snapshot, struct vs_why *why)
{
	const struct drain *end = snapshot->drains + snapshot->count;
	enum vs_status st = VS_OK;
	struct drain *d;
	CUresult rc;

	if (!vs_real.cuCtxRecordEvent)
		return vs_waiter_look(why);
	for (d = snapshot->drains; d < end; d++) {
		if (d->done)
			continue;
		rc = vs_real.cuEventQuery(d->event);
		if (rc == CUDA_ERROR_NOT_READY)
			st = vs_why_set(why, VS_BUSY, "device %d has %.1f s or "
					"more of queued work",
					d->context->device,
					vs_lock_now() - snapshot->taken);
		else if (rc)
			return failed(why, rc, d->context->device);
		else
			d->done = true;
	}
	return st;
}

/* The age at which a watched snapshot is done is how deep the queue was. */
static void watch(struct attempt *a)
{
	double age = vs_lock_now() - a->watched.taken;

	if (!a->watched.count || look(&a->watched, NULL) == VS_BUSY)
		return;
	if (age > a->depth)
		a->depth = age;
	forget(&a->watched);
}

static bool cancelled(struct attempt *a, struct vs_why *why)
{
	if (!atomic_load(a->cancel))
		return false;
	vs_why_set(why, VS_CANCELLED, "cancelled");
	return true;
}

static enum vs_status wait_drained(struct attempt *a, struct snapshot *now,
				   double until, struct vs_why *why)
{
	enum vs_status st;

	for (;;) {
		st = look(now, why);
		if (st != VS_BUSY)
			return st;
		if (cancelled(a, why))
			return VS_CANCELLED;
		if (vs_lock_now() >= until)
			return VS_BUSY;
		watch(a);
		nap(POLL);
	}
}

/* Shut, snapshot, wait; reopened unless all is done by @until. */
static enum vs_status try_slice(struct attempt *a, double until,
				struct vs_why *why)
{
	struct snapshot now;
	enum vs_status st;

	st = vs_gate_shut(VS_HOLD_OPERATION, until, a->cancel, why);
	if (st)
		return st;
	st = take(&now, why);
	if (!st) {
		st = wait_drained(a, &now, until, why);
		if (st == VS_BUSY && !a->watched.count)
			a->watched = now;
		else
			forget(&now);
	}
	if (st) {
		vs_waiter_give_up();
		vs_gate_open(VS_HOLD_OPERATION);
	}
	return st;
}

/*
 * With the gate open: a capture is not interrupted, and further ones may
 * begin meanwhile; a waiter that is stuck from the last slice comes back.
 */
static enum vs_status wait_chance(struct attempt *a, struct vs_why *why)
{
	char text[96] = "";

	for (;;) {
		if (vs_waiter_stuck()) {
			vs_waiter_look(why);
		} else if (vs_capture_lock_quiet(text, sizeof(text))) {
			vs_capture_unlock();
			return VS_OK;
		} else {
			vs_why_set(why, VS_BUSY, "%s", text);
		}
		if (cancelled(a, why))
			return VS_CANCELLED;
		if (vs_lock_now() >= a->deadline)
			return VS_BUSY;
		watch(a);
		nap(POLL * 5);
	}
}

/* The last slice has at least half of the time. */
static double slice_end(struct attempt *a, double slice)
{
	double now = vs_lock_now(), half = (a->deadline - a->start) / 2;

	if (slice < a->depth * 1.5)
		slice = a->depth * 1.5;
	if (now + slice >= a->start + half)
		return a->deadline;
	return now + slice;
}

static enum vs_status run(struct attempt *a, struct vs_why *why)
{
	double slice = FIRST_SLICE, pause;
	enum vs_status st;

	for (;;) {
		if (cancelled(a, why))
			return VS_CANCELLED;
		st = wait_chance(a, why);
		if (st)
			return st;
		st = try_slice(a, slice_end(a, slice), why);
		if (st != VS_BUSY)
			return st;
		if (vs_lock_now() >= a->deadline)
			return st;
		pause = slice * (0.1 + 0.4 * rand_r(&a->seed) / RAND_MAX);
		if (pause > 0.1)
			pause = 0.1;
		nap(pause);
		watch(a);
		slice *= 2;
	}
}

static void begin(struct attempt *a, double seconds)
{
	a->start = vs_lock_now();
	a->deadline = a->start + seconds;
	a->seed = (unsigned)(a->start * 1e6);
}

enum vs_status vs_quiesce(double seconds, const atomic_bool *cancel,
			  struct vs_why *why)
{
	struct attempt a = { .cancel = cancel };
	enum vs_status st;

	begin(&a, seconds);
	st = run(&a, why);
	forget(&a.watched);
	return st;
}

enum vs_status vs_quiesce_steady(double seconds, bool step,
				 const atomic_bool *cancel,
				 struct vs_why *why)
{
	struct attempt a = { .cancel = cancel };
	enum vs_status st = VS_OK;

	begin(&a, seconds);
	if (step)
		vs_gate_step(STEP_WAIT);
	else
		st = wait_chance(&a, why);
	if (!st)
		st = try_slice(&a, a.deadline, why);
	if (st)
		vs_gate_open(VS_HOLD_OPERATION);
	forget(&a.watched);
	return st;
}

static void add_text(char (*texts)[VS_QUIESCE_TEXT], int max, int *count,
		     const char *text)
{
	int i;

	for (i = 0; i < *count; i++)
		if (!strcmp(texts[i], text))
			return;
	if (*count < max)
		snprintf(texts[(*count)++], sizeof(*texts), "%s", text);
}

/* An idle device may need a moment to say that it is. */
#define MOMENT 0.001

enum vs_status vs_quiesce_look(char (*texts)[VS_QUIESCE_TEXT], int max,
			       int *count, struct vs_why *why)
{
	char text[VS_QUIESCE_TEXT];
	struct snapshot now = { .count = 0 };
	enum vs_status st;
	int i;

	*count = 0;
	if (vs_gate_inside(text, sizeof(text)))
		add_text(texts, max, count, text);
	if (!vs_real.cuCtxRecordEvent)
		return VS_OK;	/* only waiting would tell */
	st = take(&now, why);
	if (!st && look(&now, why) == VS_BUSY)
		nap(MOMENT);
	if (!st)
		st = look(&now, why);
	else if (st == VS_BUSY)
		add_text(texts, max, count, why->text);
	for (i = 0; st == VS_BUSY && i < now.count; i++) {
		if (now.drains[i].done)
			continue;
		snprintf(text, sizeof(text), "device %d has queued work",
			 now.drains[i].context->device);
		add_text(texts, max, count, text);
	}
	forget(&now);
	return st == VS_BUSY ? VS_OK : st;
}
