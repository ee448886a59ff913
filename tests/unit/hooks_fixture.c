/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that call the exported wrappers: they may not link the simulated
 * driver, whose names are the same, so what it offers to tests is looked up.
 */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "base/driver.h"
#include "init.h"

#include <stdio.h>
#include <stdlib.h>

/* What init.c does, but for threads and the socket. */
void vs_init_context(CUcontext context)
{
	vs_context_note(context);
}

static void *find(const char *name)
{
	void *found = vs_driver_dlsym(vs_driver_handle(), name);

	if (!found) {
		fprintf(stderr, "the simulated driver has no %s\n", name);
		abort();
	}
	return found;
}

#define FIND(name) ((__typeof__(&name))find(#name))

void sim_fail(const char *name, unsigned nth, int code)
{
	FIND(sim_fail)(name, nth, code);
}

void sim_fail_from(const char *name, unsigned nth, int code)
{
	FIND(sim_fail_from)(name, nth, code);
}

void sim_fail_clear(void)
{
	FIND(sim_fail_clear)();
}

void sim_hold(int on)
{
	FIND(sim_hold)(on);
}

unsigned long sim_calls(const char *name)
{
	return FIND(sim_calls)(name);
}

void sim_limit(int dev, size_t bytes)
{
	FIND(sim_limit)(dev, bytes);
}

size_t sim_used(int dev)
{
	return FIND(sim_used)(dev);
}

size_t sim_reserved(int dev)
{
	return FIND(sim_reserved)(dev);
}

void sim_ledger_get(struct sim_ledger *out)
{
	FIND(sim_ledger_get)(out);
}

const char *sim_invalid_text(void)
{
	return FIND(sim_invalid_text)();
}
