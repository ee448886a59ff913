/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_share - the file that the processes of one simulated machine share: the
 * driver keeps it, the management library reads it.
 */
#ifndef VS_TESTS_SIM_SHARE_H
#define VS_TESTS_SIM_SHARE_H

#include <stddef.h>

#define SIM_DEVICES	16
#define SIM_SHARE_ROWS	512

struct sim_row {
	int pid;			/* 0: nobody's */
	unsigned long long born;	/* tells a reused pid */
	size_t used[SIM_DEVICES];
	size_t reserve[SIM_DEVICES];	/* of used: anyone may take it */
};

/* Start time of a process; 0 when it is dead, though perhaps not reaped. */
unsigned long long sim_share_born(int pid);

#endif
