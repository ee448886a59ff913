/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter - a thread that asks the driver in our place whether the devices are
 * at rest, since each of these calls may block.
 *
 * It records an event on every context and asks for it until it is done.  To
 * record takes as long as the launch queue of a stream is full, and other
 * calls about that context may then wait too.  On drivers before
 * cuCtxRecordEvent (CUDA 12.5) it synchronises the contexts one by one.
 *
 * The operation thread asks, looks, and gives up whenever it likes: what does
 * not come back is left to itself, and cleans up when it does.  Until then
 * nothing more can be asked.  A context is pinned only while work may be
 * queued in it, so that who destroys it waits no longer than the driver would
 * let him; a call that is stuck in one context keeps no other, since another
 * thread takes over what is left to do.  Nobody waits for it to exit.
 *
 * Rank GATE; no driver call is made under the lock.  Captures: the rule of
 * memory/capture for calls that may last.
 */
#ifndef VS_SLEEP_WAITER_H
#define VS_SLEEP_WAITER_H

#include <stdbool.h>

#include "base/cuda.h"
#include "base/why.h"

/* What is queued now, in all contexts known?  A question that is not answered
 * by VS_OK is given up before the next one.  Where no thread can be had the
 * caller asks the driver himself, in the waits below; refused where he would
 * have to synchronise. */
enum vs_status vs_waiter_ask(struct vs_why *why);

/* Until then (seconds of CLOCK_MONOTONIC) wait for the answer: true when it is
 * there.  Settle: no longer than an idle device needs to say that it is. */
bool vs_waiter_answered(double until);
void vs_waiter_settle(double until);

/* VS_OK when all that was queued is done.  VS_BUSY when something is not, or a
 * capture runs; VS_FAILED when a context is lost, VS_CUDA. */
enum vs_status vs_waiter_answer(struct vs_why *why);

/* The devices whose work is recorded and not done; how many. */
int vs_waiter_devices(CUdevice *devices, int max);

/* Before the gate opens again.  Of what was recorded it is found out how long
 * it takes; nothing that was not is begun any more. */
void vs_waiter_give_up(void);

/* The longest that anything given up has taken, since vs_waiter_end. */
double vs_waiter_depth(void);

/* A call does not come back: VS_BUSY, and @why says of which device. */
bool vs_waiter_stuck(struct vs_why *why);

/* Let go of all events and contexts; returns when that is done, or will be
 * when what is stuck comes back. */
void vs_waiter_end(void);

#endif
