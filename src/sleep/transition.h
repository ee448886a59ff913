/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transition - what a sleep and a wake do, from the check to the last byte;
 * each either completes or rolls back.
 *
 * Sleep: come to rest, copy everything out, and only then unmap and release.
 * Wake: create every handle first, then map and fill.  Operation thread only.
 */
#ifndef VS_SLEEP_TRANSITION_H
#define VS_SLEEP_TRANSITION_H

#include <stdatomic.h>

#include "backup/store.h"
#include "sleep/operation.h"

/* What others may see of a running transition. */
struct vs_transition {
	atomic_bool cancel;		/* set by others: give the drain up */
	_Atomic(const char *) phase;
	_Atomic uint64_t total;
	struct vs_store_meter meter;
};

enum vs_status vs_transition_sleep(const struct vs_request *request,
				   struct vs_transition *t,
				   struct vs_why *why);

/* VS_NOMEM: still asleep, @why has both figures. */
enum vs_status vs_transition_wake(const struct vs_request *request,
				  struct vs_transition *t,
				  struct vs_why *why);

/* The next part begins: its word, and its bytes to move. */
void vs_transition_phase(struct vs_transition *t, const char *word,
			 uint64_t total);

/* Host memory that the last wake no longer needs; after its reply. */
void vs_transition_clean_up(void);

#endif
