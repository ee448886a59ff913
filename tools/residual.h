/* SPDX-License-Identifier: Apache-2.0 */
/*
 * residual - what a process uses on its GPUs, by cause.
 *
 * The driver knows what a process uses in all, vsleep what of it is managed
 * and what the program got by other ways.  The rest is the context, modules,
 * managed memory that is on the device, and what else the driver holds.
 */
#ifndef TOOLS_RESIDUAL_H
#define TOOLS_RESIDUAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "message.h"

struct residual {
	bool known;			/* the driver knows the process */
	unsigned long long used;	/* what it says; 0 if not known */
	unsigned long long managed;	/* of it resident, by vsleep */
	unsigned long long unmanaged;	/* by other ways, on the device */
	unsigned long long rest;
};

/* What the answer of process @pid to a status request comes to. */
void residual_of(const struct answer *answer, pid_t pid,
		 struct residual *out);

/*
 * Add it to the answer: used-bytes and rest-bytes, or used=unknown, and
 * used-bytes to the line of each device.
 */
void residual_add(struct answer *answer, pid_t pid);

/* A sentence about it on stdout, from an answer that it was added to. */
void residual_print(const struct answer *answer);

/* What a kind of unmanaged memory is, "pool" say; NULL for a new kind. */
const char *residual_kind(const char *kind);

/* The kinds in an answer, one after the other: from *at (begins as 0) on;
 * false at the end. */
bool residual_next(const struct answer *answer, int *at, char kind[32],
		   unsigned long long *bytes);

#endif
