/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/waiter.h"
#include "sleep/mark.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/thread.h"

#include <string.h>

#define POLL 0.0002		/* seconds */
#define STUCK 0.005		/* a call that lasts longer */
#define MOMENT 0.001		/* until an idle device says that it is */
#define END 0.1			/* for letting go, by a thread that is slow */
#define PLACES (3 * VS_CONTEXT_MAX)	/* asked about, watched, dropped */

enum role {
	NOBODY,		/* a free place */
	ASKED,		/* to be recorded, or synchronised */
	RECORDED,
	WATCHED,	/* the same, given up */
	DROPPED,	/* to be let go of */
};

/* Work that may be queued in a context. */
struct work {
	enum role role;
	bool in_hand;			/* of a thread that is in a call */
	double since;			/* of that call */
	struct vs_context *context;	/* pinned */
	CUevent event;			/* dies with it */
};

static struct vs_lock waiter_lock = VS_LOCK(VS_RANK_GATE);
static pthread_cond_t asked, answered;

/* all under waiter_lock */
static struct work works[PLACES];
static bool started;
static int threads;
static bool more;			/* something is to be done at once */
static unsigned long rounds;		/* of questions to the driver */
static struct vs_why answer;		/* what went wrong */
static double taken;			/* when all was recorded */
static double watched_taken, depth;

static struct work *find(enum role role, bool in_hand)
{
	struct work *w;

	for (w = works; w < works + PLACES; w++)
		if (w->role == role && w->in_hand == in_hand)
			return w;
	return NULL;
}

static bool any(enum role role)
{
	return find(role, false) || find(role, true);
}

static bool some(bool in_hand)
{
	const struct work *w;

	for (w = works; w < works + PLACES; w++)
		if (w->role != NOBODY && w->in_hand == in_hand)
			return true;
	return false;
}

static bool pending(void)
{
	return find(RECORDED, false) || find(WATCHED, false);
}

static bool unanswered(void)
{
	return !answer.status && (any(ASKED) || any(RECORDED));
}

/* The place is free again; its context may go. */
static void clear(struct work *w)
{
	vs_context_unpin(w->context);
	w->role = NOBODY;
	w->context = NULL;
	w->event = NULL;
}

/* Under the lock, which it drops: one call, or a few in a row, of which only
 * the result is not known yet. */
static void go_out(struct work *w)
{
	w->in_hand = true;
	w->since = vs_lock_now();
	vs_lock_drop(&waiter_lock);
}

static void come_back(struct work *w)
{
	vs_lock_take(&waiter_lock);
	w->in_hand = false;
}

static void drop(struct work *w)
{
	CUevent event = w->event;

	go_out(w);
	if (event)
		vs_real.cuEventDestroy_v2(event);
	come_back(w);
	clear(w);
}

/* It has been given up meanwhile, or it is the answer. */
static void say(const struct work *w, const struct vs_why *why)
{
	if (w->role != ASKED && w->role != RECORDED)
		return;
	answer = *why;
}

static void watched_done(void)
{
	double age = vs_lock_now() - watched_taken;

	if (!any(WATCHED) && age > depth)
		depth = age;
}

static void done(struct work *w)
{
	bool was_watched = w->role == WATCHED;

	drop(w);
	if (was_watched)
		watched_done();
}

static void take(struct work *w)
{
	struct vs_context *context = w->context;
	struct vs_why why = { .status = VS_OK };
	bool records = vs_real.cuCtxRecordEvent;
	CUevent event = NULL;
	enum vs_status st;

	go_out(w);
	st = records ? vs_mark_record(context, &event, &why) :
		       vs_mark_synchronize(context, &why);
	come_back(w);
	w->event = event;
	if (st)
		say(w, &why);
	if (st || w->role == DROPPED)
		drop(w);
	else if (!records)
		done(w);
	else
		w->role = RECORDED;
	if (!any(ASKED))
		taken = vs_lock_now();
}

static void query(struct work *w)
{
	struct vs_context *context = w->context;
	struct vs_why why = { .status = VS_OK };
	CUevent event = w->event;
	bool ready;

	go_out(w);
	ready = vs_mark_ready(context, event, &why);
	come_back(w);
	if (!ready && w->role != DROPPED)
		return;
	if (why.status)
		say(w, &why);
	done(w);
}

static void query_all(enum role role)
{
	struct work *w;

	for (w = works; w < works + PLACES; w++)
		if (w->role == role && !w->in_hand)
			query(w);
}

static void go_round(void)
{
	struct work *w;

	more = false;
	while ((w = find(DROPPED, false)))
		drop(w);
	while ((w = find(ASKED, false)) && !answer.status)
		take(w);
	query_all(RECORDED);
	query_all(WATCHED);
	rounds++;
	pthread_cond_broadcast(&answered);
}

/* Where another one has taken over there is one too many in the end. */
static void *wait_thread(void *unused)
{
	vs_context_relax();
	vs_lock_take(&waiter_lock);
	for (;;) {
		go_round();
		if (threads > 1 && !some(true))
			break;
		if (!more)
			vs_lock_wait(&waiter_lock, &asked, pending() ?
				     vs_lock_now() + POLL : 0);
	}
	threads--;
	vs_lock_drop(&waiter_lock);
	return unused;
}

/* Under the lock. */
static int start(void)
{
	int rc;

	if (!started) {
		vs_lock_cond_init(&asked);
		vs_lock_cond_init(&answered);
	}
	started = true;
	rc = vs_thread_start(NULL, "vsleep-wait", wait_thread, NULL);
	if (!rc)
		threads++;
	return rc;
}

static const struct work *stuck(void)
{
	double before = vs_lock_now() - STUCK;
	const struct work *w;

	for (w = works; w < works + PLACES; w++)
		if (w->in_hand && w->since < before)
			return w;
	return NULL;
}

/* Something is to be done now; what is stuck does not do it. */
static void call(void)
{
	more = true;
	if (started)
		pthread_cond_signal(&asked);
	if (threads == 1 && stuck() && some(false))
		start();
}

static void let_go(struct work *w)
{
	w->role = DROPPED;
	if (!w->in_hand && !w->event)
		clear(w);
}

/* Under the lock; takes over the pins. */
static void put_down(struct vs_context **contexts, int count)
{
	struct work *w;
	int i;

	for (i = 0; i < count; i++) {
		w = find(NOBODY, false);
		if (w) {
			w->role = ASKED;
			w->context = contexts[i];
			continue;
		}
		vs_why_set(&answer, VS_BUSY, "what was asked about device %d "
			   "before is not settled", contexts[i]->device);
		vs_context_unpin(contexts[i]);
	}
}

enum vs_status vs_waiter_ask(struct vs_why *why)
{
	struct vs_context *contexts[VS_CONTEXT_MAX];
	int rc = 0;

	vs_lock_take(&waiter_lock);
	if (!threads)
		rc = start();
	if (rc && !vs_real.cuCtxRecordEvent) {
		vs_lock_drop(&waiter_lock);
		return vs_why_set(why, VS_REFUSED, "no thread to wait in: %s",
				  strerror(rc));
	}
	answer.status = VS_OK;
	taken = vs_lock_now();
	put_down(contexts, vs_context_pin_all(contexts, VS_CONTEXT_MAX));
	call();
	vs_lock_drop(&waiter_lock);
	return VS_OK;
}

/* False when the time is over.  Without a thread we ask ourselves. */
static bool news(double until)
{
	if (threads)
		return vs_lock_wait(&waiter_lock, &answered, until);
	go_round();
	vs_lock_wait(&waiter_lock, &answered, vs_lock_now() + POLL);
	return vs_lock_now() < until;
}

bool vs_waiter_answered(double until)
{
	bool yes;

	vs_lock_take(&waiter_lock);
	while (unanswered() && news(until))
		;
	yes = !unanswered();
	vs_lock_drop(&waiter_lock);
	return yes;
}

void vs_waiter_settle(double until)
{
	unsigned long seen;
	double moment;

	vs_lock_take(&waiter_lock);
	while (unanswered() && any(ASKED) && news(until))
		;
	seen = rounds;
	moment = vs_lock_now() + MOMENT;
	while (unanswered() && !any(ASKED) &&
	       (rounds < seen + 2 || vs_lock_now() < moment) && news(until))
		;
	vs_lock_drop(&waiter_lock);
}

static enum vs_status queued(struct vs_why *why, const struct work *w,
			     double since)
{
	return vs_why_set(why, VS_BUSY, "device %d has %.1f s or more of "
			  "queued work", w->context->device,
			  vs_lock_now() - since);
}

static enum vs_status no_return(struct vs_why *why, const struct work *w)
{
	double seconds = vs_lock_now() - w->since;

	if (!vs_real.cuCtxRecordEvent)
		return queued(why, w, w->since);
	if (w->event)
		return vs_why_set(why, VS_BUSY, "the driver has not answered "
				  "about device %d for %.1f s",
				  w->context->device, seconds);
	return vs_why_set(why, VS_BUSY, "device %d has taken no event for "
			  "%.1f s, as with a full launch queue",
			  w->context->device, seconds);
}

static enum vs_status say_answer(struct vs_why *why)
{
	const struct work *w;

	if (answer.status) {
		if (why)
			*why = answer;
		return answer.status;
	}
	if (!unanswered())
		return VS_OK;
	w = find(ASKED, true);
	if (!w)
		w = stuck();
	if (w)
		return no_return(why, w);
	w = find(RECORDED, false);
	if (!w)
		w = find(RECORDED, true);
	if (w)
		return queued(why, w, taken);
	return vs_why_set(why, VS_BUSY, "there was no time to ask device %d",
			  find(ASKED, false)->context->device);
}

enum vs_status vs_waiter_answer(struct vs_why *why)
{
	enum vs_status st;

	vs_lock_take(&waiter_lock);
	st = say_answer(why);
	vs_lock_drop(&waiter_lock);
	return st;
}

int vs_waiter_devices(CUdevice *devices, int max)
{
	const struct work *w;
	int count = 0;

	vs_lock_take(&waiter_lock);
	for (w = works; w < works + PLACES && count < max; w++)
		if (w->role == RECORDED)
			devices[count++] = w->context->device;
	vs_lock_drop(&waiter_lock);
	return count;
}

/* A synchronise goes on anyway, and tells how long the queue was. */
static bool worth_watching(const struct work *w, bool complete)
{
	if (vs_real.cuCtxRecordEvent)
		return complete && w->role == RECORDED;
	return w->role == ASKED && w->in_hand;
}

void vs_waiter_give_up(void)
{
	bool complete, watched;
	struct work *w;

	vs_lock_take(&waiter_lock);
	complete = !any(ASKED) && !answer.status;
	watched = any(WATCHED);
	if (!watched)
		watched_taken = taken;
	for (w = works; w < works + PLACES; w++) {
		if (w->role != ASKED && w->role != RECORDED)
			continue;
		if (!watched && worth_watching(w, complete))
			w->role = WATCHED;
		else
			let_go(w);
	}
	call();
	vs_lock_drop(&waiter_lock);
}

double vs_waiter_depth(void)
{
	double longest;

	vs_lock_take(&waiter_lock);
	longest = depth;
	vs_lock_drop(&waiter_lock);
	return longest;
}

bool vs_waiter_stuck(struct vs_why *why)
{
	const struct work *w;

	vs_lock_take(&waiter_lock);
	w = stuck();
	if (w)
		no_return(why, w);
	vs_lock_drop(&waiter_lock);
	return w;
}

static bool all_gone(void)
{
	return !some(false) && !some(true);
}

void vs_waiter_end(void)
{
	double until = vs_lock_now() + END;
	struct work *w;

	vs_lock_take(&waiter_lock);
	depth = 0;
	for (w = works; w < works + PLACES; w++)
		if (w->role != NOBODY)
			let_go(w);
	if (!all_gone())
		call();
	while (!all_gone() && !stuck() && news(until))
		;
	vs_lock_drop(&waiter_lock);
}
