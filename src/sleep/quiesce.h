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

#endif
