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

void life_begin(void);
void life_run(void);
/* The simulation holds nothing of ours any more. */
void life_end(void);

/* What this run is about, for messages. */
void life_title(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
void life_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#endif
