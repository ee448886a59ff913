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
#define POLL 0.001		/* for a cancel */
#define STEP_WAIT 0.01	/* for a call to come */

struct attempt {
	const atomic_bool *cancel;
	double start, deadline;
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

static bool cancelled(struct attempt *a, struct vs_why *why)
{
	if (!atomic_load(a->cancel))
		return false;
	vs_why_set(why, VS_CANCELLED, "cancelled");
	return true;
}

/* A waiter that is stuck may come back in time. */
static enum vs_status ask(struct attempt *a, double until, struct vs_why *why)
{
	while (vs_waiter_stuck(why)) {
		if (cancelled(a, why))
			return VS_CANCELLED;
		if (vs_lock_now() >= until)
			return VS_BUSY;
		nap(POLL);
	}
	return vs_waiter_ask(why);
}

static enum vs_status wait_drained(struct attempt *a, double until,
				   struct vs_why *why)
{
	enum vs_status st = ask(a, until, why);
	double now;

	if (st)
		return st;
	for (;;) {
		now = vs_lock_now();
		if (vs_waiter_answered(now + POLL < until ? now + POLL : until))
			break;
		if (cancelled(a, why))
			return VS_CANCELLED;
		if (now >= until)
			break;
	}
	return vs_waiter_answer(why);
}

/* Shut, ask, wait; reopened unless all is done by @until. */
static enum vs_status try_slice(struct attempt *a, double until,
				struct vs_why *why)
{
	enum vs_status st;

	st = vs_gate_shut(VS_HOLD_OPERATION, until, a->cancel, why);
	if (st)
		return st;
	st = wait_drained(a, until, why);
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
		if (!vs_waiter_stuck(why)) {
			if (vs_capture_lock_quiet(text, sizeof(text))) {
				vs_capture_unlock();
				return VS_OK;
			}
			vs_why_set(why, VS_BUSY, "%s", text);
		}
		if (cancelled(a, why))
			return VS_CANCELLED;
		if (vs_lock_now() >= a->deadline)
			return VS_BUSY;
		nap(POLL);
	}
}

/* The last slice has at least half of the time. */
static double slice_end(struct attempt *a, double slice)
{
	double now = vs_lock_now(), half = (a->deadline - a->start) / 2;
	double depth = vs_waiter_depth();

	if (slice < depth * 1.5)
		slice = depth * 1.5;
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
	vs_waiter_end();
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
	vs_waiter_end();
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

#define LOOK 0.1	/* seconds that the driver may take to answer */

enum vs_status vs_quiesce_look(char (*texts)[VS_QUIESCE_TEXT], int max,
			       int *count, struct vs_why *why)
{
	CUdevice devices[VS_CONTEXT_MAX];
	char text[VS_QUIESCE_TEXT];
	enum vs_status st;
	int i, known;

	*count = 0;
	if (vs_gate_inside(text, sizeof(text)))
		add_text(texts, max, count, text);
	if (vs_waiter_stuck(why)) {
		add_text(texts, max, count, why->text);
		return VS_OK;
	}
	if (!vs_real.cuCtxRecordEvent)
		return VS_OK;	/* only waiting would tell */
	st = vs_waiter_ask(why);
	if (st)
		return st;
	vs_waiter_settle(vs_lock_now() + LOOK);
	st = vs_waiter_answer(why);
	known = vs_waiter_devices(devices, VS_CONTEXT_MAX);
	for (i = 0; st == VS_BUSY && i < known; i++) {
		snprintf(text, sizeof(text), "device %d has queued work",
			 devices[i]);
		add_text(texts, max, count, text);
	}
	if (st == VS_BUSY && !known)
		add_text(texts, max, count, why->text);
	vs_waiter_give_up();
	vs_waiter_end();
	return st == VS_BUSY ? VS_OK : st;
}
