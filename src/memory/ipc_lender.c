/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_lender.h"
#include "base/lock.h"
#include "base/thread.h"

#include <string.h>

#define ERRANDS 8
#define SHORT 0.25		/* seconds that one is waited for */
#define KEPT 2.0		/* seconds, for who asks again */

enum errand_state { FREE, WAITS, RUNS, DONE };

struct errand {
	enum errand_state state;
	bool late;		/* who asked was told to ask again, */
	bool again;		/* and has */
	bool stale;		/* nobody is to have it */
	double since;		/* in this state */
	struct vs_ipc_peer *peer;	/* held */
	struct vs_ipc_handle handle;
	unsigned first;
	enum vs_status status;
	struct vs_why why;
	struct vs_ipc_loan loan;
};

static struct vs_lock errand_lock = VS_LOCK(VS_RANK_STATE);
static pthread_cond_t changed;
static bool started;			/* under errand_lock */
static struct errand errands[ERRANDS];	/* likewise */

static void enter(struct errand *e, enum errand_state state)
{
	e->state = state;
	e->since = vs_lock_now();
	pthread_cond_broadcast(&changed);
}

/* ---- the thread --------------------------------------------------------- */

/* The lock is dropped meanwhile. */
static void end(struct errand *e)
{
	struct vs_ipc_loan loan = e->loan;
	struct vs_ipc_peer *peer = e->peer;

	enter(e, FREE);
	vs_lock_drop(&errand_lock);
	vs_ipc_close_parts(&loan);
	vs_ipc_peer_end(peer);
	vs_lock_take(&errand_lock);
}

/* What is lent late stays counted, as its borrower may have it by another
 * message: until it gives that back, as it does with all that it has not
 * mapped, or ends. */
static void run(struct errand *e)
{
	struct vs_ipc_loan loan;
	struct vs_why why = { .status = VS_OK };
	enum vs_status st;
	unsigned i;

	enter(e, RUNS);
	vs_lock_drop(&errand_lock);
	st = vs_ipc_lend(e->peer, &e->handle, e->first, &loan, &why);
	vs_lock_take(&errand_lock);
	if (st)
		loan.count = 0;
	for (i = 0; (e->late || e->again) && i < loan.count; i++)
		loan.parts[i].fresh = false;
	e->status = st;
	e->why = why;
	e->loan = loan;
	/* A refusal may not be true any more when it is asked for again. */
	e->stale |= e->late && st;
	enter(e, DONE);
}

static bool over(const struct errand *e, double now)
{
	return (e->stale && e->state != RUNS && e->state != FREE) ||
	       (e->state == DONE && now >= e->since + KEPT);
}

/* One that is over, or the oldest that waits; NULL: none, until *@until. */
static struct errand *next(double *until)
{
	double now = vs_lock_now();
	struct errand *e, *found = NULL;

	*until = 0;
	for (e = errands; e < errands + ERRANDS; e++) {
		if (over(e, now))
			return e;
		if (e->state == WAITS && (!found || e->since < found->since))
			found = e;
		if (e->state == DONE &&
		    (!*until || e->since + KEPT < *until))
			*until = e->since + KEPT;
	}
	return found;
}

static void *lend(void *unused)
{
	struct errand *e;
	double until;

	(void)unused;
	vs_lock_take(&errand_lock);
	for (;;) {
		e = next(&until);
		if (!e)
			vs_lock_wait(&errand_lock, &changed, until);
		else if (over(e, vs_lock_now()))
			end(e);
		else
			run(e);
	}
	return NULL;
}

/* Lock held. */
static bool start(void)
{
	if (started)
		return true;
	vs_lock_cond_init(&changed);
	started = !vs_thread_start(NULL, "vsleep-lend", lend, NULL);
	return started;
}

/* ---- who asks ----------------------------------------------------------- */

/* Lock held, as below. */
static struct errand *find(const struct vs_ipc_peer *peer,
			   const struct vs_ipc_handle *handle, unsigned first)
{
	struct errand *e;

	for (e = errands; e < errands + ERRANDS; e++)
		if (e->state != FREE && !e->stale && e->peer == peer &&
		    e->first == first &&
		    !memcmp(&e->handle, handle, sizeof(*handle)))
			return e;
	return NULL;
}

/* It holds the peer. */
static struct errand *begin(struct vs_ipc_peer *peer,
			    const struct vs_ipc_handle *handle, unsigned first)
{
	struct errand *e;

	for (e = errands; e < errands + ERRANDS; e++) {
		if (e->state != FREE)
			continue;
		*e = (struct errand){
			.peer = peer, .handle = *handle, .first = first,
		};
		vs_ipc_peer_hold(peer);
		enter(e, WAITS);
		return e;
	}
	return NULL;
}

/* The driver blocks one. */
static bool blocked(void)
{
	double now = vs_lock_now();
	struct errand *e;

	for (e = errands; e < errands + ERRANDS; e++)
		if (e->state == RUNS && now >= e->since + SHORT)
			return true;
	return false;
}

/* True when it is done. */
static bool await(const struct errand *e)
{
	double until = vs_lock_now() + SHORT;

	while (e->state != DONE && !blocked() &&
	       vs_lock_wait(&errand_lock, &changed, until))
		;
	return e->state == DONE;
}

enum vs_status vs_ipc_lender_ask(struct vs_ipc_peer *peer,
				 const struct vs_ipc_handle *handle,
				 unsigned first, struct vs_ipc_loan *out,
				 struct vs_why *why)
{
	enum vs_status st = VS_BUSY;
	struct errand *e = NULL;
	bool done = false;

	vs_lock_take(&errand_lock);
	if (start())
		e = find(peer, handle, first);
	if (e) {
		e->late = false;
		e->again = true;
	} else if (started) {
		e = begin(peer, handle, first);
	}
	if (e && await(e)) {
		done = true;
		*out = e->loan;
		*why = e->why;
		st = e->status;
		enter(e, FREE);
	} else if (e) {
		e->late = true;
	}
	vs_lock_drop(&errand_lock);
	if (done)
		vs_ipc_peer_end(peer);
	else
		vs_why_set(why, VS_BUSY, "the driver takes long to lend "
			   "memory");
	return st;
}

void vs_ipc_lender_forget(const struct vs_ipc_peer *peer)
{
	struct errand *e;

	vs_lock_take(&errand_lock);
	for (e = errands; e < errands + ERRANDS; e++)
		if (e->state != FREE && e->peer == peer)
			e->stale = true;
	if (started)
		pthread_cond_broadcast(&changed);
	vs_lock_drop(&errand_lock);
}
