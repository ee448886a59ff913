/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce - bring the program to rest: no capture, gate shut, all contexts
 * drained; or leave it as it was and say what is in the way.
 *
 * Works in slices that grow, with the gate open for a random while between
 * them, so that a program which needs another thread or process to get on
 * gets its chance.  Operation thread only.
 */
#ifndef VS_SLEEP_QUIESCE_H
#define VS_SLEEP_QUIESCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/why.h"

/* On success the gate is shut under VS_HOLD_OPERATION and every known device
 * is idle.  VS_BUSY at the deadline, VS_CANCELLED soon after *cancel is set,
 * VS_FAILED when a context is lost, VS_CUDA for other trouble: the gate is as
 * before. */
enum vs_status vs_quiesce(double seconds, const atomic_bool *cancel,
			  struct vs_why *why);

/* What it would have to wait for right now, a text each; the program runs on.
 * Trouble that no waiting ends is returned as vs_quiesce would. */
#define VS_QUIESCE_TEXT 160
enum vs_status vs_quiesce_look(char (*texts)[VS_QUIESCE_TEXT], int max,
			       int *count, struct vs_why *why);

/*
 * For one of several processes that wait for each other: the gate is shut once
 * and stays so, since what runs on here the others would have to catch up
 * with.  @step: it is shut already, and one held call goes first.  That way
 * those that are at rest follow the others, call by call.  Results as above,
 * but on failure the gate is open.
 */
enum vs_status vs_quiesce_steady(double seconds, bool step,
				 const atomic_bool *cancel,
				 struct vs_why *why);

#endif
