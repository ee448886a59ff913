/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transition - what a sleep, a wake and a pause do, from the check to the
 * last byte; each either completes or rolls back.
 *
 * Sleep: come to rest, copy everything out, and only then unmap and release.
 * Wake: create every handle first, then map and fill.  A request with a rest
 * finds the program at rest under VS_HOLD_OPERATION, and takes that hold off
 * whatever becomes of it.  Operation thread only.
 */
#ifndef VS_SLEEP_TRANSITION_H
#define VS_SLEEP_TRANSITION_H

#include <stdatomic.h>

#include "backup/store.h"
#include "sleep/operation.h"

enum vs_turn { VS_TURN_OPEN, VS_TURN_CANCELLED, VS_TURN_BEGUN };

/* What others may see of a running transition. */
struct vs_transition {
	_Atomic int turn;		/* enum vs_turn */
	atomic_bool cancel;		/* taken back: give the drain up */
	_Atomic(const char *) phase;
	_Atomic uint64_t total;
	struct vs_store_meter meter;
};

/* Take it back, from any thread; false when it has begun. */
bool vs_transition_cancel(struct vs_transition *t);
/* From here on it cannot be taken back; false when it was. */
bool vs_transition_begin(struct vs_transition *t);

enum vs_status vs_transition_sleep(const struct vs_request *request,
				   struct vs_transition *t,
				   struct vs_why *why);

/* VS_NOMEM: still asleep, @why has both figures. */
enum vs_status vs_transition_wake(const struct vs_request *request,
				  struct vs_transition *t,
				  struct vs_why *why);

/* What the same sleep would do now; the program is not held. */
enum vs_status vs_transition_outlook(const struct vs_request *request,
				     struct vs_outlook *out,
				     struct vs_why *why);

enum vs_status vs_transition_pause(const struct vs_request *request,
				   struct vs_transition *t,
				   struct vs_why *why);

/* At rest: the gate is left shut under VS_HOLD_OPERATION. */
enum vs_status vs_transition_quiesce(const struct vs_request *request,
				     struct vs_transition *t,
				     struct vs_why *why);
/* It is let go. */
void vs_transition_let_go(void);

/* Parts of the above.  A sleep as asked for can be; the program can be brought
 * to rest at all; its callbacks are told if it runs and nothing sleeps; it
 * comes to rest. */
enum vs_status vs_transition_check(const struct vs_request *request,
				   struct vs_why *why);
enum vs_status vs_transition_able(struct vs_why *why);
void vs_transition_announce(void);
enum vs_status vs_transition_rest(const struct vs_request *request,
				  struct vs_transition *t,
				  struct vs_why *why);

/* After each change: where all is as without us the program is told so, and
 * its exit is its own. */
void vs_transition_settle(void);

/*
 * Managed memory of the request's tags.  It loses nothing and can be had at
 * any moment, so it goes last, and what does not go, or has too little room
 * to come back, fails nothing.
 */
struct vs_plan;
void vs_transition_managed_out(const struct vs_request *request,
			       struct vs_plan *plan, struct vs_transition *t,
			       struct vs_ledger_last *result);
void vs_transition_managed_back(const struct vs_request *request,
				struct vs_transition *t,
				struct vs_ledger_last *result);

/* At rest: what frees had to put off is done, and what is spare goes back. */
void vs_transition_tidy(void);

/* The next part begins: its word, and its bytes to move. */
void vs_transition_phase(struct vs_transition *t, const char *word,
			 uint64_t total);

/* Host memory that the last wake no longer needs; after its reply. */
void vs_transition_clean_up(void);

#endif
