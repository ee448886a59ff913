/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter - a thread that blocks in cuCtxSynchronize in our place, for drivers
 * before cuCtxRecordEvent (CUDA 12.5).
 *
 * There is one, made on first need; while it waits nothing more can be asked
 * of it.  Asked by the operation thread, with the gate shut.  Rank CONTEXT
 * is not held.
 */
#ifndef VS_SLEEP_WAITER_H
#define VS_SLEEP_WAITER_H

#include <stdbool.h>

#include "base/context.h"
#include "base/why.h"

/* An earlier question is not answered yet. */
bool vs_waiter_stuck(void);

/* Wait for all that is queued in these contexts; takes over their pins, also
 * on failure. */
enum vs_status vs_waiter_ask(struct vs_context **contexts, int count,
			     struct vs_why *why);

/* Before the gate opens again: leave the contexts alone that have not been
 * waited for yet, since a capture may begin in them. */
void vs_waiter_give_up(void);

/* VS_BUSY until all is done; VS_FAILED when a context is lost. */
enum vs_status vs_waiter_look(struct vs_why *why);

#endif
