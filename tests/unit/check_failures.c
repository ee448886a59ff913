/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every occurrence of every driver call, in a life with several cycles, fails
 * once; and from the first, second, fourth ... on for good.  After each step
 * the invariants hold and every byte that should be there is; a step that
 * failed has changed nothing.  One that failed once succeeds when tried again;
 * after a fault for good everything works as soon as it is over.
 *
 * Each fault runs in a process of its own.  A first run without faults counts
 * the calls.  Printed at the end: entry point, faults tried.
 */
#include <config.h>

#include "life.h"
#include "sim.h"
#include "trials.h"

#include "base/cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MAX 96
#define POLLS 64	/* faults that are tried of what is polled */

/* What src/ calls on the way through such a life. */
static const char *const wanted[] = {
	"cuCtxGetCurrent", "cuCtxPopCurrent_v2",
	"cuCtxPushCurrent_v2", "cuCtxRecordEvent", "cuCtxSetCurrent",
	"cuCtxSynchronize",
	"cuEventCreate", "cuEventDestroy_v2", "cuEventQuery",
	"cuMemAddressFree", "cuMemAddressReserve", "cuMemCreate",
	"cuMemGetAllocationGranularity",
	"cuMemGetAllocationPropertiesFromHandle",
	"cuMemAdvise_v2", "cuMemPrefetchAsync_v2", "cuMemRangeGetAttribute",
	"cuDeviceGetGraphMemAttribute", "cuDeviceGraphMemTrim",
	"cuMemGetInfo_v2", "cuMemHostRegister_v2", "cuMemHostUnregister",
	"cuMemMap", "cuMemRelease", "cuMemSetAccess", "cuMemUnmap",
	"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async",
	"cuPointerGetAttributes",
	"cuDeviceGetMemPool", "cuEventRecord", "cuMemPoolGetAttribute",
	"cuStreamCreate", "cuStreamGetCtx", "cuStreamGetId", "cuStreamQuery",
	"cuStreamSynchronize",
	"cuThreadExchangeStreamCaptureMode",
};

#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

struct count {
	char name[64];
	unsigned long calls;
	_Atomic unsigned long missed;	/* of its faults: not reached */
};

/* Written by the first child, read by the parent. */
static struct counts {
	int used;
	struct count list[CALLS_MAX];
} *counts;

static struct count *tried;	/* the one that is; NULL: by hand */

static void note(const char *name, unsigned long calls, void *unused)
{
	struct count *c;

	(void)unused;
	if (!calls || counts->used == CALLS_MAX)
		return;
	c = &counts->list[counts->used++];
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->calls = calls;
}

static void count_calls(void)
{
	life_begin();
	sim_calls_reset();
	life_run();
	sim_each_call(note, NULL);
	life_end();
}

static int code_for(const char *name)
{
	return !strcmp(name, "cuMemCreate") ? CUDA_ERROR_OUT_OF_MEMORY :
					      CUDA_ERROR_UNKNOWN;
}

/* Asked until the answer is yes: how often is a matter of time. */
static bool is_polled(const char *name)
{
	return !strcmp(name, "cuEventQuery");
}

static unsigned long faults_of(const struct count *c)
{
	return is_polled(c->name) && c->calls > POLLS ? POLLS : c->calls;
}

static void unreached(void)
{
	if (!tried)
		life_fail("the fault was never reached");
	else
		tried->missed++;
}

static bool missed_too_many(const struct count *c)
{
	return !is_polled(c->name) &&
	       trials_missed(c->name, c->missed, c->calls);
}

static void live_with(const struct trial *t)
{
	life_begin();
	life_title("%s, call %u%s", t->name, t->nth,
		   t->lasting ? " and all later ones" : "");
	if (t->lasting) {
		life_lasting();
		sim_fail_from(t->name, t->nth, t->code);
	} else {
		sim_fail(t->name, t->nth, t->code);
	}
	life_run();
	if (!sim_injected() && !t->lasting)
		unreached();
	sim_fail_clear();
	if (t->lasting)
		life_recover();
	life_end();
	_exit(0);
}

static int try_all(void)
{
	struct trial t = { .nth = 1 };
	unsigned long once = 0, lasting = 0, faults;
	int i, bad;

	for (i = 0; i < counts->used; i++) {
		tried = &counts->list[i];
		t.name = tried->name;
		t.code = code_for(t.name);
		faults = faults_of(tried);
		for (t.nth = 1; t.nth <= faults; t.nth++) {
			t.lasting = false;
			once += trials_begin(&t, live_with);
		}
		for (t.nth = 1; t.nth <= faults; t.nth *= 2) {
			t.lasting = true;
			lasting += trials_begin(&t, live_with);
		}
		printf("%-36s %4lu faults\n", t.name, faults);
	}
	bad = trials_end();
	for (i = 0; i < counts->used; i++)
		bad += missed_too_many(&counts->list[i]);
	printf("driver calls: %lu faults once, %lu for good, %d runs failed\n",
	       once, lasting, bad);
	return bad;
}

static int unused(void)
{
	size_t i;
	int k, bad = 0;

	for (i = 0; i < WANTED; i++) {
		for (k = 0; k < counts->used; k++)
			if (!strcmp(counts->list[k].name, wanted[i]))
				break;
		if (k < counts->used)
			continue;
		fprintf(stderr, "%s was never reached\n", wanted[i]);
		bad++;
	}
	return bad;
}

/* With NAME NTH, or NAME NTH+: that fault alone, in this process. */
int main(int argc, char **argv)
{
	struct trial t = { 0 };

	life_settings();
	if (argc == 3) {
		t.name = argv[1];
		t.nth = (unsigned)atoi(argv[2]);
		t.lasting = strchr(argv[2], '+') != NULL;
		t.code = code_for(t.name);
		live_with(&t);
	}
	counts = trials_shared(sizeof(*counts));
	return !trials_once(count_calls) || unused() || try_all();
}
