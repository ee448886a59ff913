/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices - a CUDA program on several devices, whose threads have the context
 * of another device current than they allocate on.
 *
 * Its arguments are the devices.  One command a line, one answer a line:
 *
 *   get      a small and a large block on each device
 *   queue    on each device a kernel that runs for a while, and behind it a
 *            new pattern for the blocks
 *   check    how many words, copied out at once on streams of their own,
 *            differ from the last pattern
 *   current  what is current on four threads that began with it
 *   contexts how many contexts there are, and the devices whose primary one
 *            is active
 *   put      free the blocks
 */
#include "drv.h"
#include "sim.h"

#include <pthread.h>
#include <semaphore.h>

#define DEVICES 8
#define THREADS 4

static const size_t sizes[2] = { 300000, (size_t)17 << 20 };

struct home {
	int device;
	CUcontext context;
	CUstream stream;
	CUfunction spin;
	CUdeviceptr blocks[2];
};

static struct home homes[DEVICES];
static int count;
static uint32_t seed;
static uint32_t *out;
static char said[128];

/* Of a thread that has the neighbour's context current. */
static void each_home(void (*fn)(struct home *home))
{
	CUcontext popped;
	int i;

	for (i = 0; i < count; i++) {
		CK(cuCtxSetCurrent(homes[(i + 1) % count].context));
		CK(cuCtxPushCurrent(homes[i].context));
		fn(&homes[i]);
		CK(cuCtxPopCurrent(&popped));
	}
}

static void pattern(struct home *home)
{
	int i;

	for (i = 0; i < 2; i++)
		CK(cuMemsetD32Async(home->blocks[i], seed + (uint32_t)i,
				    sizes[i] / 4, home->stream));
}

static void get(struct home *home)
{
	int i;

	for (i = 0; i < 2; i++)
		CK(cuMemAlloc(&home->blocks[i], sizes[i]));
	pattern(home);
}

static void queue(struct home *home)
{
	uint64_t ns = 50000000;
	CUdeviceptr none = 0;
	void *args[] = { &ns, &none };

	CK(cuLaunchKernel(home->spin, 1, 1, 1, 1, 1, 1, 0, home->stream, args,
			  NULL));
	pattern(home);
}

static size_t bad;

static void check(struct home *home)
{
	size_t i, k;
	CUstream s;

	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < 2; i++) {
		CK(cuMemcpyDtoHAsync(out, home->blocks[i], sizes[i], s));
		CK(cuStreamSynchronize(s));
		for (k = 0; k < sizes[i] / 4; k++)
			bad += out[k] != seed + (uint32_t)i;
	}
	CK(cuStreamDestroy(s));
}

static void put(struct home *home)
{
	int i;

	for (i = 0; i < 2; i++)
		CK(cuMemFree(home->blocks[i]));
}

/* Threads that wait to be asked. */
static sem_t asked[THREADS], answered;
static char currents[THREADS][8];

static void *sit(void *arg)
{
	long n = (long)arg;
	CUcontext now;
	int i;

	if (n < THREADS - 1)
		CK(cuCtxSetCurrent(homes[n % count].context));
	for (;;) {
		sem_wait(&asked[n]);
		strcpy(currents[n], "none");
		CK(cuCtxGetCurrent(&now));
		for (i = 0; i < count; i++)
			if (now == homes[i].context)
				snprintf(currents[n], sizeof(currents[n]),
					 "%d", homes[i].device);
		sem_post(&answered);
	}
	return NULL;
}

static void do_current(void)
{
	int i;

	for (i = 0; i < THREADS; i++)
		sem_post(&asked[i]);
	for (i = 0; i < THREADS; i++)
		while (sem_wait(&answered))
			;
	snprintf(said, sizeof(said), "%s %s %s %s", currents[0], currents[1],
		 currents[2], currents[3]);
}

static void do_contexts(void)
{
	struct sim_ledger ledger;
	unsigned flags;
	int i, n, active;
	size_t len;

	sim_ledger_get(&ledger);
	len = (size_t)snprintf(said, sizeof(said), "contexts=%lu active=",
			       ledger.contexts);
	CK(cuDeviceGetCount(&n));
	for (i = 0; i < n; i++) {
		CK(cuDevicePrimaryCtxGetState(i, &flags, &active));
		len += (size_t)snprintf(said + len, sizeof(said) - len, "%d",
					active);
	}
}

static void obey(const char *verb)
{
	said[0] = '\0';
	if (!strcmp(verb, "get")) {
		seed++;
		each_home(get);
	} else if (!strcmp(verb, "queue")) {
		seed++;
		each_home(queue);
	} else if (!strcmp(verb, "check")) {
		bad = 0;
		each_home(check);
		snprintf(said, sizeof(said), "bad=%zu", bad);
	} else if (!strcmp(verb, "put")) {
		each_home(put);
	} else if (!strcmp(verb, "current")) {
		do_current();
	} else if (!strcmp(verb, "contexts")) {
		do_contexts();
	} else {
		exit(3);
	}
	printf("ok %s\n", said);
}

static void open_home(struct home *home, int device)
{
	CUmodule module;

	home->device = device;
	CK(cuDevicePrimaryCtxRetain(&home->context, device));
	CK(cuCtxSetCurrent(home->context));
	CK(cuStreamCreate(&home->stream, CU_STREAM_NON_BLOCKING));
	CK(cuModuleLoadData(&module, kernels_ptx));
	CK(cuModuleGetFunction(&home->spin, module, "spin"));
}

int main(int argc, char **argv)
{
	static char line[64];
	pthread_t thread;
	long i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CK(cuInit(0));
	for (count = 0; count + 1 < argc && count < DEVICES; count++)
		open_home(&homes[count], atoi(argv[count + 1]));
	out = malloc(sizes[1]);
	sem_init(&answered, 0, 0);
	for (i = 0; i < THREADS; i++) {
		sem_init(&asked[i], 0, 0);
		if (pthread_create(&thread, NULL, sit, (void *)i))
			return 3;
	}
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "leave\n")) {
		line[strcspn(line, "\n")] = '\0';
		obey(line);
	}
	return 0;
}
