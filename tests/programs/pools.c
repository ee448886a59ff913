/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pools - a program that gets all its memory in the order of streams, from the
 * default pool and from one of its own.  Commands on stdin, answers as puppet
 * gives them:
 *
 *   work THREADS     each has two streams and its default one: a block is
 *                    allocated and written in one, compared in another that
 *                    waits for it, freed there or in a third; some live long
 *   stop             end the threads; how many words were wrong
 *   used             what the pools say is in use
 *   device           bytes of this process, by the simulated driver
 *   free all, leave return
 *
 * $COUNT is a file that shows how often the threads went round.
 */
#include "drv.h"
#include "sim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define THREADS 8
#define OLD 12

struct old {
	CUdeviceptr p;
	uint64_t words;
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	unsigned number;
	uint32_t random;
	CUmemoryPool pool;
	CUstream streams[3];
	CUevent event;
	CUdeviceptr bad;
	struct old old[OLD];
	uint64_t wrong;
};

static struct worker workers[THREADS];
static int started;
static CUmemoryPool own_pool;
static atomic_bool over;
static atomic_ulong rounds;
static int count_fd = -1;

static uint32_t next(struct worker *w)
{
	w->random = w->random * 1664525 + 1013904223;
	return w->random >> 8;
}

static void count(void)
{
	char line[32];

	snprintf(line, sizeof(line), "%010lu\n", atomic_fetch_add(&rounds, 1));
	if (count_fd >= 0 && pwrite(count_fd, line, strlen(line), 0) < 0)
		perror("count");
}

/* Everything put into @after from here on follows what is in @before. */
static void follow(struct worker *w, CUstream after, CUstream before)
{
	CK(cuEventRecord(w->event, before));
	CK(cuStreamWaitEvent(after, w->event, 0));
}

static CUdeviceptr get(struct worker *w, size_t size, CUstream s)
{
	CUdeviceptr p;

	if (w->number % 2)
		CK(cuMemAllocFromPoolAsync(&p, size, own_pool, s));
	else
		CK(cuMemAllocAsync(&p, size, s));
	return p;
}

static void compare(struct worker *w, const struct old *o, CUstream s)
{
	void *args[] = { (void *)&o->p, (void *)&o->words, (void *)&o->seed,
			 &w->bad };

	drv_launch(drv.check, s, o->words, args);
}

static void make(struct worker *w, struct old *o, CUstream s)
{
	static const uint64_t words[] = { 10, 175, 1300, 20000, 100000,
					  300000 };

	o->words = words[next(w) % 6] + next(w) % 8;
	o->seed = next(w);
	o->p = get(w, o->words * 4, s);
	drv_pattern(s, o->p, o->words, o->seed);
}

static void go_round(struct worker *w)
{
	CUstream a = w->streams[next(w) % 3], b = w->streams[next(w) % 3];
	struct old *slot = &w->old[next(w) % OLD], o;

	make(w, &o, a);
	follow(w, b, a);
	compare(w, &o, b);
	if (next(w) % 4) {
		a = w->streams[next(w) % 3];
		follow(w, a, b);
		CK(cuMemFreeAsync(o.p, a));
		return;
	}
	CK(cuCtxSynchronize());
	if (slot->p) {
		compare(w, slot, b);
		CK(cuMemFreeAsync(slot->p, b));
	}
	*slot = o;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	int i;

	CK(cuCtxSetCurrent(drv.context));
	for (i = 0; i < 2; i++)
		CK(cuStreamCreate(&w->streams[i], CU_STREAM_NON_BLOCKING));
	w->streams[2] = CU_STREAM_PER_THREAD;
	CK(cuEventCreate(&w->event, CU_EVENT_DISABLE_TIMING));
	CK(cuMemAllocAsync(&w->bad, 8, w->streams[0]));
	CK(cuMemsetD8Async(w->bad, 0, 8, w->streams[0]));
	CK(cuStreamSynchronize(w->streams[0]));
	while (!atomic_load(&over)) {
		go_round(w);
		count();
	}
	CK(cuCtxSynchronize());
	for (i = 0; i < OLD; i++) {
		if (!w->old[i].p)
			continue;
		compare(w, &w->old[i], w->streams[1]);
		CK(cuMemFreeAsync(w->old[i].p, w->streams[1]));
	}
	CK(cuCtxSynchronize());
	CK(cuMemcpyDtoH(&w->wrong, w->bad, 8));
	CK(cuMemFree(w->bad));
	CK(cuEventDestroy(w->event));
	for (i = 0; i < 2; i++)
		CK(cuStreamDestroy(w->streams[i]));
	return NULL;
}

static void begin(int threads)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	if (!own_pool)
		CK(cuMemPoolCreate(&own_pool, &props));
	atomic_store(&over, false);
	for (started = 0; started < threads && started < THREADS; started++) {
		workers[started] = (struct worker){
			.number = (unsigned)started,
			.random = (uint32_t)started * 7919 + 17,
		};
		pthread_create(&workers[started].thread, NULL, work,
			       &workers[started]);
	}
}

static uint64_t end(void)
{
	uint64_t wrong = 0;

	atomic_store(&over, true);
	while (started) {
		pthread_join(workers[--started].thread, NULL);
		wrong += workers[started].wrong;
	}
	return wrong;
}

static unsigned long long used(void)
{
	CUmemoryPool pool;
	cuuint64_t a = 0, b = 0;

	CK(cuDeviceGetDefaultMemPool(&pool, drv.device));
	CK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &a));
	if (own_pool)
		CK(cuMemPoolGetAttribute(own_pool,
					 CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
					 &b));
	return a + b;
}

static void give_back(void)
{
	CUmemoryPool pool;

	CK(cuCtxSynchronize());
	CK(cuDeviceGetDefaultMemPool(&pool, drv.device));
	CK(cuMemPoolTrimTo(pool, 0));
	if (own_pool)
		CK(cuMemPoolDestroy(own_pool));
	own_pool = NULL;
	if (drv.bad)
		CK(cuMemFree(drv.bad));
	drv.bad = 0;
}

static bool obey(char *line)
{
	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, "work ", 5)) {
		begin(atoi(line + 5));
		printf("ok\n");
	} else if (!strcmp(line, "stop")) {
		printf("ok bad=%llu\n", (unsigned long long)end());
	} else if (!strcmp(line, "used")) {
		printf("ok bytes=%llu\n", used());
	} else if (!strcmp(line, "device")) {
		printf("ok bytes=%zu\n", sim_used(drv.device));
	} else if (!strcmp(line, "free all")) {
		give_back();
		printf("ok\n");
	} else {
		return false;
	}
	return true;
}

int main(void)
{
	const char *path = getenv("COUNT");
	char line[128];

	if (path)
		count_fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin))
		if (!obey(line))
			break;
	return 0;
}
