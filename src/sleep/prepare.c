/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/prepare.h"
#include "sleep/pass.h"
#include "sleep/plan.h"
#include "sleep/state.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"

#include <time.h>

#define QUIET 1.0	/* seconds that allocations stay the same */
#define APART 10.0	/* seconds from pass to pass, but after a wake */
#define LOOK 0.5	/* between two looks at allocations, */
#define PAUSE 0.001	/* between two slices: the device is the program's */
#define POLL 0.0001	/* at a slice, */
#define POLL_LINGERING 0.01	/* at one that lasts, */
#define POLL_CAPTURE 0.01	/* and at captures */

/* Passes of our own accord. */
static struct {
	uint64_t seen;		/* what the allocations were, */
	double since;		/* since when; */
	double next;		/* not before; */
	bool due;		/* changed since the last pass */
	bool said;
} idle;

static void nap(double seconds)
{
	struct timespec t = { .tv_nsec = (long)(seconds * 1e9) };

	nanosleep(&t, NULL);
}

static bool wished(void)
{
	if (!vs_config.prepare)
		return false;
	if (vs_config.retain != VS_CONFIG_NO)
		return true;
	if (!idle.said)
		vs_log_warn("VSLEEP_PREPARE does nothing: VSLEEP_RETAIN=no "
			    "keeps no backup of what is awake");
	idle.said = true;
	return false;
}

static void say_rest(void)
{
	if (!wished())
		vs_ledger_prepare("off");
	else
		vs_ledger_prepare(idle.due ? "idle" : "done");
}

static void begin_pass(vs_tag_set tags)
{
	vs_pass_begin(tags);
	vs_ledger_prepare("running");
}

static void end_pass(void)
{
	struct vs_pass_now now;

	vs_pass_end();
	vs_pass_read(&now);
	vs_log_info("prepared: %llu MiB copied, %llu MiB unchanged, %llu MiB "
		    "left", (unsigned long long)now.bytes.copied_bytes >> 20,
		    (unsigned long long)now.bytes.unchanged_bytes >> 20,
		    (unsigned long long)now.bytes.left_bytes >> 20);
	say_rest();
}

static double pause_after(enum vs_pass_result result)
{
	if (result == VS_PASS_WAIT)
		return POLL;
	return result == VS_PASS_MORE ? PAUSE : POLL_CAPTURE;
}

static bool shall_stop(struct vs_transition *t, struct vs_why *why)
{
	if (atomic_load(&t->turn) != VS_TURN_CANCELLED &&
	    !vs_operation_wanted())
		return false;
	vs_why_set(why, VS_CANCELLED, "another request came");
	return true;
}

static enum vs_status run_pass(const struct vs_request *request,
			       struct vs_transition *t, struct vs_why *why)
{
	double patience = request->timeout_ms / 1000.0;
	struct vs_pass_now now;
	enum vs_pass_result result;
	enum vs_status st;

	do {
		result = vs_pass_step(&st, why);
		vs_pass_read(&now);
		atomic_store(&t->meter.done, now.done);
		if (result == VS_PASS_END)
			return st;
		if (now.stalled && vs_lock_now() > now.stalled + patience)
			return VS_BUSY;
		nap(pause_after(result));
	} while (!shall_stop(t, why));
	return VS_CANCELLED;
}

enum vs_status vs_prepare_run(const struct vs_request *request,
			      struct vs_transition *t,
			      struct vs_prepared *out, struct vs_why *why)
{
	struct vs_pass_now now;
	enum vs_status st;

	if (vs_config.retain == VS_CONFIG_NO)
		return vs_why_set(why, VS_REFUSED, "VSLEEP_RETAIN=no keeps "
				  "no backup of what is awake");
	if (vs_state_dead(why))
		return VS_FAILED;
	begin_pass(vs_plan_tags(request));
	vs_pass_read(&now);
	vs_transition_phase(t, "preparing", now.total);
	st = run_pass(request, t, why);
	end_pass();
	vs_pass_read(&now);
	*out = now.bytes;
	return st;
}

void vs_prepare_halt(void)
{
	if (vs_pass_runs())
		end_pass();
}

/* When a pass is to begin, or to look again whether it is; 0: now. */
static double due_later(double now)
{
	uint64_t seen = vs_pass_allocations();
	double from;

	if (seen != idle.seen) {
		idle.seen = seen;
		idle.since = now;
		idle.due = true;
		say_rest();
	}
	from = idle.since + QUIET;
	if (idle.next > from)
		from = idle.next;
	if (!idle.due || now + LOOK < from)
		return now + LOOK;
	return now < from ? from : 0;
}

static double take_step(void)
{
	struct vs_why why;
	enum vs_status st;
	enum vs_pass_result result = vs_pass_step(&st, &why);
	double now = vs_lock_now();

	if (result != VS_PASS_END)
		return now + pause_after(result);
	if (st)
		vs_log_info("prepare: %s", why.text);
	idle.due = false;
	idle.next = now + APART;
	end_pass();
	return now + LOOK;
}

double vs_prepare_idle(void)
{
	double now = vs_lock_now(), later;
	struct vs_why why;
	enum vs_status st;

	if (vs_pass_runs())
		return take_step();
	if (vs_pass_lingers()) {
		vs_pass_step(&st, &why);
		return now + POLL_LINGERING;
	}
	if (!wished() || vs_pass_stopped())
		return 0;
	later = due_later(now);
	if (later)
		return later;
	begin_pass(~(vs_tag_set)0);
	return now;
}

void vs_prepare_over(enum vs_verb verb, enum vs_status st)
{
	idle.since = vs_lock_now();
	if (verb == VS_VERB_TRIM || (verb == VS_VERB_PREPARE && !st))
		idle.due = false;
	if (verb == VS_VERB_WAKE && !st) {
		idle.due = true;
		idle.next = 0;
	}
	say_rest();
}
