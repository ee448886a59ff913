/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim - what tests may ask of the simulated driver beside the CUDA calls.
 *
 * A test links with libcuda.so.1 or finds these names by dlsym.  Names of
 * entry points are the exported spellings (cuMemAlloc_v2); a name that the
 * driver does not have ends the process with a message, so that a misspelt
 * injection cannot pass for a test.
 */
#ifndef VS_TESTS_SIM_H
#define VS_TESTS_SIM_H

#include <stddef.h>

struct sim_ledger {
	unsigned long handles;		/* physical handles not yet released */
	unsigned long mappings;
	unsigned long reservations;
	unsigned long allocations;	/* native, managed, pool and host */
	unsigned long registered;
	unsigned long streams;
	unsigned long events;
	unsigned long contexts;
	unsigned long invalid;
	size_t device_bytes;		/* of this process, all devices */
};

/*
 * Let the nth call (1 is the next one) of the entry point give this code and
 * do nothing.  sim_fail_from: that one and all later ones.
 */
void sim_fail(const char *name, unsigned nth, int code);
void sim_fail_from(const char *name, unsigned nth, int code);
void sim_fail_clear(void);
unsigned long sim_injected(void);	/* how many of them have struck */

unsigned long sim_calls(const char *name);
void sim_calls_reset(void);
void sim_each_call(void (*fn)(const char *name, unsigned long calls,
			      void *arg), void *arg);

void sim_limit(int dev, size_t bytes);	/* memory that the device has */
size_t sim_used(int dev);		/* by this process */
/* Of it: what the driver keeps for managed memory that is elsewhere, until
 * anyone needs it. */
size_t sim_reserved(int dev);
void sim_ledger_get(struct sim_ledger *out);
const char *sim_invalid_text(void);	/* one line per invalid call */

void sim_hold(int on);	/* while on, no stream starts a new piece of work */

/*
 * Add a kernel, or replace one.  params has a letter per parameter: b 1 byte,
 * h 2, w 4, q 8.  args[i] points at the i-th one.
 */
void sim_kernel_add(const char *name, const char *params,
		    void (*fn)(void **args));

/* The same with the launch's grid and block: dims[0..2], dims[3..5]. */
void sim_kernel_add_grid(const char *name, const char *params,
			 void (*fn)(void **args, const unsigned *dims));

/* Back to the state before cuInit; for tests with one thread. */
void sim_reset(void);

#endif
