/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every occurrence of every driver call, in a life with several cycles, fails
 * once.  After each step the invariants hold and every byte that should be
 * there is; a step that failed has changed nothing and succeeds when tried
 * again.
 *
 * Each fault runs in a process of its own.  A first run without faults counts
 * the calls.  Printed at the end: entry point, faults tried.
 */
#include <config.h>

#include "life.h"
#include "sim.h"

#include "base/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS_MAX 96
#define AT_ONCE 2	/* processes */

/* What src/ calls on the way through such a life. */
static const char *const wanted[] = {
	"cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxPopCurrent_v2",
	"cuCtxPushCurrent_v2", "cuCtxRecordEvent", "cuCtxSetCurrent",
	"cuEventCreate", "cuEventDestroy_v2", "cuEventQuery",
	"cuMemAddressFree", "cuMemAddressReserve", "cuMemCreate",
	"cuMemGetInfo_v2", "cuMemHostRegister_v2", "cuMemHostUnregister",
	"cuMemMap", "cuMemRelease", "cuMemSetAccess", "cuMemUnmap",
	"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async",
	"cuStreamCreate", "cuStreamSynchronize",
	"cuThreadExchangeStreamCaptureMode",
};

#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

struct count {
	char name[64];
	unsigned long calls;
};

/* Written by the first child, read by the parent. */
static struct counts {
	int used;
	struct count list[CALLS_MAX];
} *counts;

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

static void count_child(void)
{
	life_begin();
	sim_calls_reset();
	life_run();
	sim_each_call(note, NULL);
	life_end();
	_exit(0);
}

static int code_for(const char *name)
{
	return !strcmp(name, "cuMemCreate") ? CUDA_ERROR_OUT_OF_MEMORY :
					      CUDA_ERROR_UNKNOWN;
}

static void fault_child(const char *name, unsigned nth)
{
	life_begin();
	life_title("%s, call %u", name, nth);
	sim_fail(name, nth, code_for(name));
	life_run();
	if (!sim_injected())
		life_fail("the fault was never reached");
	sim_fail_clear();
	life_end();
	_exit(0);
}

static int reap(void)
{
	int status;

	if (wait(&status) < 0)
		return 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "a run died of signal %d\n", WTERMSIG(status));
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static int try_all(void)
{
	unsigned long nth, total = 0;
	int i, running = 0, bad = 0;

	for (i = 0; i < counts->used; i++) {
		for (nth = 1; nth <= counts->list[i].calls; nth++) {
			if (running == AT_ONCE) {
				bad += reap();
				running--;
			}
			fflush(stdout);
			if (!fork())
				fault_child(counts->list[i].name,
					    (unsigned)nth);
			running++;
			total++;
		}
		printf("%-36s %4lu faults\n", counts->list[i].name,
		       counts->list[i].calls);
	}
	while (running--)
		bad += reap();
	printf("%lu faults tried, %d runs failed\n", total, bad);
	return bad;
}

static int unreached(void)
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

/* With NAME NTH: that fault alone, in this process. */
int main(int argc, char **argv)
{
	int bad;

	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	setenv("VSLEEP_SIM_DEVICES", "2", 1);
	setenv("VSLEEP_SIM_MEMORY", "256M", 1);
	setenv("VSLEEP_THREADS", "2", 1);
	if (argc == 3)
		fault_child(argv[1], (unsigned)atoi(argv[2]));
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return 1;
	if (!fork())
		count_child();
	bad = reap();
	if (!bad)
		bad = unreached() + try_all();
	return bad != 0;
}
