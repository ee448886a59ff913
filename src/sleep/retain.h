/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retain - backups of memory that is awake, kept for the next sleep.
 *
 * VSLEEP_RETAIN says whether; where it says auto they go back when host memory
 * gets scarce.  Operation thread only.
 */
#ifndef VS_SLEEP_RETAIN_H
#define VS_SLEEP_RETAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Give back what is retained, but of segments that a plan has pinned unless
 * @all; host memory that was held, bytes. */
uint64_t vs_retain_trim(bool all);

/* After a request: nothing stays where nothing shall. */
void vs_retain_settle(void);

/* Look whether host memory is scarce; when to look again, CLOCK_MONOTONIC
 * seconds, 0: no more. */
double vs_retain_watch(void);

#endif
