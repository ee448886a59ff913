/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - the thread that listens to vsleepctl and to our signals.
 *
 * It never waits for an operation, for a client or for CUDA, so status is
 * answered at once whatever else goes on.  All signals are blocked in it.
 */
#ifndef VS_CONTROL_SERVER_H
#define VS_CONTROL_SERVER_H

#include "base/why.h"
#include "sleep/operation.h"

/* Start the thread.  A socket that cannot be had is logged, and the thread
 * runs without it: the signals work all the same. */
enum vs_status vs_server_start(struct vs_why *why);

/* Answer what is done, end the thread, unlink the socket.  In a forked child
 * only the descriptors are closed, so that nothing outlives the parent. */
void vs_server_stop(void);

/* Ask for what a signal asks for.  Async-signal-safe; keeps errno. */
void vs_server_poke(enum vs_verb verb);

/* The same for the marker's number, and for the line that says that the
 * program has taken a signal over.  All pokes keep their order. */
void vs_server_poke_mark(int n);
void vs_server_poke_given(int number);

#endif
