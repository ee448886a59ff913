/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm - a program whose memory is mapped by its own hand, in the ways of
 * those that do so.  Commands on stdin, answers as puppet gives them:
 *
 *   segments [TAG]   a thread works like PyTorch's expandable segments: one
 *                    reservation, handles of two sizes mapped in its slots,
 *                    unmapped, then released, or mapped again elsewhere
 *   pool [TAG]       ... like llama.cpp: one reservation of 32 GiB, a pool
 *                    that grows at its end, handles released once mapped, all
 *                    unmapped at once
 *   mirror [TAG]     ... with one handle mapped three times: to write, to
 *                    read, and closed
 *   stop             end the threads; what was wrong with bytes and rights
 *   hold TAG         some memory of that tag, mapped twice, kept
 *   shift            its first mapping goes, a read-only one comes
 *   check            its bytes, by the newest mapping
 *   drop             gives it back
 *   device           bytes of this process, by the simulated driver
 *   free all, leave return
 *
 * $COUNT is a file that shows how often the threads went round.
 */
#include "drv.h"
#include "sim.h"
#include "vmm_ways.h"

#include <pthread.h>

#define THREADS 8

static pthread_t threads[THREADS];
static struct way_state states[THREADS];
static int started;

static struct {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base, newest;
	size_t size;
	uint32_t seed;
	int mapped;
} held;

static void *work(void *arg)
{
	struct way_state *s = arg;

	CK(cuCtxSetCurrent(drv.context));
	ways_tag(s->tag);
	s->begin(s);
	while (!atomic_load(&ways_over)) {
		s->round(s);
		ways_count();
	}
	s->end(s);
	return NULL;
}

static int begin(const char *how, const char *tag)
{
	struct way_state *s = &states[started];

	if (started == THREADS || !ways_find(s, how))
		return 0;
	snprintf(s->tag, sizeof(s->tag), "%s", tag);
	s->random = (uint64_t)started + 1;
	return !pthread_create(&threads[started++], NULL, work, s);
}

static void stop(void)
{
	int i;

	atomic_store(&ways_over, 1);
	for (i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	started = 0;
	atomic_store(&ways_over, 0);
	printf("ok bad=%d\n", atomic_load(&ways_bad));
}

static void hold(const char *tag)
{
	held.size = 2 * ways_unit();
	ways_tag(tag);
	held.handle = ways_create(held.size);
	ways_tag("");
	CK(cuMemAddressReserve(&held.base, 16 * held.size, 0, 0, 0));
	for (held.mapped = 0; held.mapped < 2; held.mapped++)
		ways_map(held.base + held.mapped * held.size, held.size,
			 held.handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	held.newest = held.base + held.size;
	held.seed = 77;
	ways_fill(held.base, held.size, held.seed);
}

static void shift(void)
{
	CK(cuMemUnmap(held.newest - held.size, held.size));
	held.newest += held.size;
	ways_map(held.newest, held.size, held.handle,
		 CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void drop(void)
{
	if (!held.handle)
		return;
	CK(cuMemRelease(held.handle));
	CK(cuMemUnmap(held.newest - held.size, 2 * held.size));
	CK(cuMemAddressFree(held.base, 16 * held.size));
	held.handle = 0;
}

/* False: what is asked is not known. */
static int obey(const char *verb, const char *word)
{
	if (begin(verb, word) || !strcmp(verb, "leave"))
		printf("ok\n");
	else if (!strcmp(verb, "stop"))
		stop();
	else if (!strcmp(verb, "hold"))
		hold(word), printf("ok\n");
	else if (!strcmp(verb, "shift"))
		shift(), printf("ok\n");
	else if (!strcmp(verb, "check"))
		printf("ok bad=%d\n",
		       ways_differ(held.newest, held.size, held.seed));
	else if (!strcmp(verb, "drop") || !strcmp(verb, "free"))
		drop(), printf("ok\n");
	else if (!strcmp(verb, "device"))
		printf("ok bytes=%zu\n", sim_used(0));
	else
		return 0;
	return 1;
}

int main(void)
{
	char line[128], verb[32], word[64];

	drv_open();
	CK(cuMemFree(drv.bad));
	printf("ok ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		verb[0] = word[0] = '\0';
		sscanf(line, "%31s %63s", verb, word);
		if (!strcmp(verb, "leave"))
			return 0;
		if (!obey(verb, word))
			printf("error %s\n", verb);
		fflush(stdout);
	}
	return 1;
}
