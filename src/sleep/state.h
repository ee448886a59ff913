/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state - which tags sleep, and the process state that this adds up to.
 *
 * Of the operation thread alone; what others may read is in the ledger.
 */
#ifndef VS_SLEEP_STATE_H
#define VS_SLEEP_STATE_H

#include <stdbool.h>

#include "sleep/ledger.h"
#include "sleep/operation.h"

/* A context was lost for good; @why then tells how. */
bool vs_state_dead(struct vs_why *why);
/* It is lost now: the gate opens, for the error is the program's own. */
void vs_state_die(const struct vs_why *why);

/* Every tag that the request is about has been put to sleep. */
bool vs_state_covers(const struct vs_request *request);
/* Some tag that the request is about sleeps. */
bool vs_state_touches(const struct vs_request *request);

/* The request's tags sleep now; are awake now. */
void vs_state_slept(const struct vs_request *request);
void vs_state_woke(const struct vs_request *request);

/* AWAKE, PARTLY or ASLEEP, and the tags that sleep. */
enum vs_state vs_state_settled(void);
vs_tag_set vs_state_asleep(void);

#endif
