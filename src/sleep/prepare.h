/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare - backups are made while the program runs, so that a later sleep
 * copies only what has changed since.
 *
 * A pass looks once at all memory that is awake and that a sleep at level 1
 * would copy, slice by slice.  It holds nobody: a free or the end of a context
 * waits for a slice at most, a capture for one block of host memory, and where
 * the device does not get to a slice it is left alone until it does.  Passes
 * end when another request comes, and when the program or the host runs out of
 * memory.  All is of the operation thread but what says otherwise.
 */
#ifndef VS_SLEEP_PREPARE_H
#define VS_SLEEP_PREPARE_H

#include "sleep/operation.h"
#include "sleep/transition.h"

/* What VS_VERB_PREPARE does.  VS_CANCELLED: taken back, or another request is
 * waiting; VS_NOMEM: no device memory to copy by way of; VS_BUSY: captures did
 * not end.  What is prepared stays, and @out says how much. */
enum vs_status vs_prepare_run(const struct vs_request *request,
			      struct vs_transition *t,
			      struct vs_prepared *out, struct vs_why *why);

/*
 * With VSLEEP_PREPARE passes run whenever there is no request: once what is
 * allocated has been the same for a second, and again after a wake and after
 * that has changed.  One step: when to come again, CLOCK_MONOTONIC seconds;
 * 0: not until a request is over.
 */
double vs_prepare_idle(void);

/* A request begins: no pass runs, though the device may not have got to its
 * slice; it is over. */
void vs_prepare_halt(void);
void vs_prepare_over(enum vs_verb verb, enum vs_status st);

#endif
