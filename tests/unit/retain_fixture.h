/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retain_fixture - a process that retains backups, some of whose memory is
 * here; host memory is scarce when the test says so.
 */
#ifndef TESTS_RETAIN_FIXTURE_H
#define TESTS_RETAIN_FIXTURE_H

#include "memory_fixture.h"

#include <stdatomic.h>

#define PAGE (2 * MIB)
#define SOME (5 * MIB)		/* all of its tag's arena */
#define LARGE (17 * MIB)	/* a segment of its own, of nine chunks */

extern struct vs_reply retain_reply;		/* the last one */
extern CUdeviceptr retain_some, retain_large;	/* of tag w, filled */

extern atomic_bool retain_scarce;	/* host memory is */
extern atomic_int retain_looks;		/* whether it is was asked */

/* Saves that failed, and backups that were there before one, but not after. */
extern int retain_failed, retain_lost;

/* VSLEEP_RETAIN, VSLEEP_TAGS; no memory yet.  And with it. */
void retain_begin(const char *mode, const char *tags);
void retain_start(const char *mode);
void retain_assert_filled(void);
/* Its memory is freed, retain_large unless it is 0; nothing is left. */
void retain_end(void);

/* Successes, into retain_reply. */
void retain_sleep(int level, const char *tags);
void retain_wake(const char *tags);
uint64_t retain_trim(void);	/* bytes given back */

/* What the operation thread puts off until it has replied is done. */
void retain_tidy_up(void);

/* Of the last sleep, bytes. */
void retain_assert_moved(uint64_t copied, uint64_t unchanged, uint64_t zero);

/* So much in host memory, of it so much that is awake; or none at all. */
void retain_assert_held(uint64_t held, uint64_t retained);
void retain_assert_nothing_held(void);

static inline unsigned char *byte(CUdeviceptr at)
{
	return (unsigned char *)(uintptr_t)at;
}

#endif
