/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm - threads that hold locks all the time, of the C library, the loader
 * and vsleep, and 2000 signals among them; $SEED says when and to whom.
 *
 * One word for each thing that must be: what came out of pipe and semaphore,
 * what the device computed, how often the threads went round.
 */
#include "drv.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define SIGNALS 2000
#define WORDS ((uint64_t)1 << 18)

enum { MALLOC, MALLOC2, PRINT, LOAD, ALLOC, ALLOC2, COMPUTE, READ, WAIT,
       THREADS };

static struct {
	pthread_t thread;
	atomic_int tid;
	atomic_ulong rounds, wrong;
} all[THREADS];

static atomic_int stop;
static int ends[2];
static sem_t semaphore;
static CUdeviceptr block;

static void round_of(int who, int wrong)
{
	atomic_fetch_add(&all[who].rounds, 1);
	atomic_fetch_add(&all[who].wrong, wrong != 0);
}

static int do_malloc(unsigned long n)
{
	unsigned char *p = malloc(n % 5000 + 1);
	int wrong;

	if (!p)
		return 1;
	memset(p, (int)n, n % 5000 + 1);
	wrong = p[n % 5000] != (unsigned char)n;
	free(p);
	return wrong;
}

static int do_load(void)
{
	void *handle = dlopen("libm.so.6", RTLD_NOW);
	int wrong = !handle || !dlsym(handle, "cos");

	return wrong || dlclose(handle);
}

static int do_alloc(unsigned long n)
{
	size_t size = (n % 7 + 1) * (n % 5 ? 5000 : 3000000);
	uint32_t in = (uint32_t)n, out = 0;
	CUdeviceptr p;
	int wrong;

	if (cuMemAlloc(&p, size))
		return 1;
	wrong = cuMemcpyHtoD(p + size / 8 * 4, &in, 4) ||
		cuMemcpyDtoH(&out, p + size / 8 * 4, 4) || in != out;
	return wrong || cuMemFree(p);
}

static int do_compute(CUstream s, unsigned long n)
{
	uint32_t out = 0;

	drv_add(s, block, WORDS, 1);
	return cuStreamSynchronize(s) ||
	       cuMemcpyDtoH(&out, block + (WORDS - 1) * 4, 4) || out != n + 1;
}

static void *go(void *arg)
{
	int who = (int)(intptr_t)arg;
	CUstream s = NULL;
	unsigned long n;
	char c;

	CK(cuCtxSetCurrent(drv.context));
	if (who == COMPUTE)
		CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	atomic_store(&all[who].tid, (int)syscall(SYS_gettid));
	for (n = 0; !atomic_load(&stop); n++) {
		switch (who) {
		case MALLOC:
		case MALLOC2:
			round_of(who, do_malloc(n));
			break;
		case PRINT:
			round_of(who, fprintf(stderr, "%lu\n", n) < 0);
			break;
		case LOAD:
			round_of(who, do_load());
			break;
		case ALLOC:
		case ALLOC2:
			round_of(who, do_alloc(n));
			break;
		case COMPUTE:
			round_of(who, do_compute(s, n));
			break;
		case READ:
			round_of(who, read(ends[0], &c, 1) != 1 ||
				      c != (char)n);
			break;
		case WAIT:
			round_of(who, sem_wait(&semaphore));
			break;
		}
	}
	return NULL;
}

static uint64_t state;

static unsigned draw(unsigned below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % below;
}

/* One byte and one post for every ten signals. */
static void send_all(void)
{
	unsigned i, who;
	char c = 0;

	for (i = 0; i < SIGNALS; i++) {
		int number = i % 2 ? SIGUSR2 : SIGUSR1;

		who = draw(THREADS * 2);
		if (who < THREADS)
			syscall(SYS_tgkill, getpid(),
				atomic_load(&all[who].tid), number);
		else
			kill(getpid(), number);
		usleep(draw(1500));
		if (i % 10)
			continue;
		if (write(ends[1], &c, 1) != 1)
			exit(3);
		c++;
		sem_post(&semaphore);
	}
}

static int shared_pending(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long set = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "ShdPnd:", 7))
			set = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return set != 0;
}

/*
 * A signal that was sent to one thread may come later than one that was sent
 * after it to another.  In one thread the lower number comes first and keeps
 * the other waiting until its handler is done.
 */
static void wake_last(void)
{
	struct dirent *entry;
	DIR *tasks;

	while (shared_pending())
		usleep(1000);
	tasks = opendir("/proc/self/task");
	while (tasks && (entry = readdir(tasks)))
		if (atoi(entry->d_name) > 0)
			syscall(SYS_tgkill, getpid(), atoi(entry->d_name),
				SIGUSR2);
	if (tasks)
		closedir(tasks);
}

static void finish(void)
{
	char c = (char)(SIGNALS / 10);

	atomic_store(&stop, 1);
	wake_last();
	if (write(ends[1], &c, 1) != 1)
		exit(3);
	sem_post(&semaphore);
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i].thread, NULL);
}

int main(void)
{
	static const char *const names[THREADS] = {
		"malloc", "malloc", "print", "load", "alloc", "alloc",
		"compute", "read", "wait",
	};
	const char *seed = getenv("SEED");
	int i;

	state = seed ? strtoull(seed, NULL, 0) : 1;
	drv_open();
	CK(cuMemAlloc(&block, WORDS * 4));
	CK(cuMemsetD8(block, 0, WORDS * 4));
	CK(cuCtxSynchronize());	/* the stream that adds waits for no other */
	sem_init(&semaphore, 0, 0);
	if (pipe(ends))
		return 3;
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&all[i].thread, NULL, go,
				   (void *)(intptr_t)i))
			return 3;
	for (i = 0; i < THREADS; i++)
		while (!atomic_load(&all[i].tid))
			usleep(100);
	send_all();
	finish();
	for (i = 0; i < THREADS; i++)
		printf("%s rounds=%lu wrong=%lu\n", names[i],
		       atomic_load(&all[i].rounds),
		       atomic_load(&all[i].wrong));
	CK(cuMemFree(block));
	return 0;
}
