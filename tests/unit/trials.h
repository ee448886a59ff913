/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trials - faults that are tried, each in a process of its own, several at
 * once.
 */
#ifndef TESTS_TRIALS_H
#define TESTS_TRIALS_H

#include <stdbool.h>
#include <stdlib.h>

struct trial {
	int kind;		/* of life, for the body */
	const char *name;	/* of the call that fails */
	unsigned nth;		/* the nth one does */
	int code;		/* with this code */
	bool lasting;		/* and all later ones */
};

/* Begin one; @body ends its process, with status 0 if all was well.  With
 * TRIALS_EVERY=N only every Nth is begun; how many were, 0 or 1. */
int trials_begin(const struct trial *trial,
		  void (*body)(const struct trial *trial));

/* Wait for all: how many did not end well. */
int trials_end(void);

/* @body, which shall return, in a process of its own: true if it does. */
bool trials_once(void (*body)(void));

/* One life is not quite like the other: what is done already when it is asked
 * for takes fewer calls.  True, and said, if that does not explain that
 * @missed of the faults at @calls calls were never reached. */
bool trials_missed(const char *name, unsigned long missed,
		   unsigned long calls);

/* N of TRIALS_EVERY=N, without it 1. */
static inline unsigned long trials_every(void)
{
	const char *text = getenv("TRIALS_EVERY");

	return text ? strtoul(text, NULL, 10) : 1;
}

/* Memory that the processes share; it begins as zeros. */
void *trials_shared(unsigned long size);

#endif
