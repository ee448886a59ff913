/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callback - what the program wants to be told: before it is put to sleep,
 * and after it has woken.
 *
 * Both are called on the operation thread with the gate open, so they may
 * call CUDA; the first when nothing sleeps and nothing holds the program, the
 * second when that is so again, also after a sleep that came to nothing.  A
 * callback that is added meanwhile is first told at the next sleep.
 * Rank CALLBACK; the lock is not held while they run.
 */
#ifndef VS_SLEEP_CALLBACK_H
#define VS_SLEEP_CALLBACK_H

#include "base/why.h"

typedef void vs_callback_fn(void *arg);

/* @before or @after may be NULL.  Refused when there are too many. */
enum vs_status vs_callback_add(vs_callback_fn *before, vs_callback_fn *after,
			       void *arg, struct vs_why *why);
/* Refused when the three were never added.  Returns when neither runs. */
enum vs_status vs_callback_remove(vs_callback_fn *before,
				  vs_callback_fn *after, void *arg,
				  struct vs_why *why);

/* Operation thread only.  Before: first added is called first; does nothing
 * between two befores without an after.  After: last added first, and only
 * those that were told. */
void vs_callback_before(void);
void vs_callback_after(void);

#endif
