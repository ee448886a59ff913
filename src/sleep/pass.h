/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass - one look at all memory that is awake and that a sleep at level 1 would
 * copy, slice by slice, while the program runs.
 *
 * A chunk's segment and context are pinned for a slice only.  Where the device
 * does not get to a slice the pass may end before it: the slice lingers, with
 * what it has pinned, until a later step finds it done.  Operation thread only,
 * but what says otherwise.
 */
#ifndef VS_SLEEP_PASS_H
#define VS_SLEEP_PASS_H

#include "memory/segment.h"
#include "sleep/operation.h"

struct vs_pass_now {
	uint64_t total, done;	/* bytes to look at, looked at */
	double stalled;		/* captures are in the way since then; 0: not */
	struct vs_prepared bytes;
};

enum vs_pass_result {
	VS_PASS_MORE,
	VS_PASS_WAIT,		/* the device is not done */
	VS_PASS_CAPTURED,	/* a capture runs, which a step might break */
	VS_PASS_END,		/* all is looked at, or nothing more can be */
};

void vs_pass_begin(vs_tag_set tags);
/* @st and @why are those of an end, and the cause while captured. */
enum vs_pass_result vs_pass_step(enum vs_status *st, struct vs_why *why);
/* Waits for its slice, but not for long. */
void vs_pass_end(void);

bool vs_pass_runs(void);
/* No pass runs, but its slice does. */
bool vs_pass_lingers(void);
/* Of the pass that runs, or was the last. */
void vs_pass_read(struct vs_pass_now *out);

/* The program is at rest and no pass runs: no slice lingers then, and nothing
 * of ours is left in the contexts. */
void vs_pass_settle(void);

/* A slice works on @segment. */
bool vs_pass_holds(const struct vs_segment *segment);

/* A number that is another one when something else is allocated. */
uint64_t vs_pass_allocations(void);

/* The process exits: a slice that runs is waited for, for a second, and none
 * begins any more.  Any thread. */
void vs_pass_stop(void);
bool vs_pass_stopped(void);

#endif
