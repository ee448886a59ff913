/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life - a process with two contexts on two devices, four tags with different
 * policies, arenas, a segment of three chunks, and a known pattern in every
 * allocation; it sleeps and wakes in several ways, and is looked at after
 * each step.
 *
 * For one process: what does not hold is printed and ends it with status 1.
 * Device memory of the simulation can be touched directly.
 */
#ifndef VS_TESTS_LIFE_H
#define VS_TESTS_LIFE_H

#include <stdbool.h>

/* Before the first of all, also for processes that are forked. */
void life_settings(void);

void life_begin(void);
/* What comes may fail again and again, until life_recover. */
void life_lasting(void);
bool life_lasts(void);
void life_run(void);
/* Nothing fails any more: a whole cycle works, with every byte. */
void life_recover(void);
/* The simulation holds nothing of ours any more. */
void life_end(void);

/* What this run is about, for messages. */
void life_title(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
void life_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#endif
