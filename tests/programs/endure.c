/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endure CYCLES - sleep and wake, with allocations that come and go between,
 * and see that nothing grows: device bytes, host memory, descriptors, mappings,
 * threads.  Blocks alternate between a tag that is offloaded and one that is
 * discarded; a model knows what each must hold.
 */
#include "drv.h"
#include "own_socket.h"
#include "sim.h"

#include <dirent.h>
#include <stdbool.h>

#define SLOTS 24
#define EVERY 25		/* cycles from one sample to the next */
#define LARGE (17 * MIB)
#define SLACK_KIB 8192		/* of resident memory */

static struct block {
	CUdeviceptr p;
	size_t size;
	uint32_t seed;
	bool discard;
} blocks[SLOTS];

static unsigned char out[LARGE];
static uint64_t seed = 20240917;
static int control;

struct sample {
	long rss_kib, files, maps, threads;
};

static void drop(struct block *b)
{
	if (b->p)
		CK(cuMemFree(b->p));
	b->p = 0;
}

static void fill(struct block *b)
{
	b->seed = (uint32_t)prog_random(&seed);
	drv_pattern(NULL, b->p, b->size / 4, b->seed);
}

static void renew(bool discard)
{
	struct block *b = &blocks[prog_random(&seed) % SLOTS];

	drop(b);
	/* now and then one that is not packed with others */
	b->size = prog_random(&seed) % 200 ? prog_size(&seed, MIB / 4) : LARGE;
	b->discard = discard;
	CK(cuMemAlloc(&b->p, b->size));
	fill(b);
}

static void churn(void)
{
	int i, n = 1 + (int)(prog_random(&seed) % 4);

	own_ask(control, "tag\nname=d");
	for (i = 0; i < n; i++)
		renew(true);
	own_ask(control, "tag\nclear=yes");
	for (i = 0; i < n; i++)
		renew(false);
	drop(&blocks[prog_random(&seed) % SLOTS]);
	CK(cuCtxSynchronize());
}

static void must(bool good, int cycle, const char *what)
{
	if (good)
		return;
	printf("cycle %d: %s\n%s", cycle, what, own_answer);
	exit(1);
}

static bool all_zero(const struct block *b)
{
	size_t i;

	CK(cuMemcpyDtoH(out, b->p, b->size));
	for (i = 0; i < b->size && !out[i]; i++)
		;
	return i == b->size;
}

static void cycle(int n)
{
	struct block *b;

	churn();
	own_ask(control, "sleep");
	must(!strcmp(own_value("status"), "ok"), n, "sleep");
	must(sim_used(0) == 0, n, "bytes are left on the device");
	if (n % 3 == 0)
		drop(&blocks[prog_random(&seed) % SLOTS]);
	own_ask(control, "wake");
	must(!strcmp(own_value("status"), "ok"), n, "wake");
	for (b = blocks; b < blocks + SLOTS; b++) {
		if (b->p && !b->discard)
			drv_compare(NULL, b->p, b->size / 4, b->seed);
		else if (b->p)
			must(all_zero(b), n, "a discarded block is not zero");
	}
	must(drv_bad() == 0, n, "a block is not what it was");
}

static long count_lines(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[512];
	long n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!key)
			n++;
		else if (!strncmp(line, key, strlen(key)))
			n = strtol(line + strlen(key), NULL, 10);
	}
	if (f)
		fclose(f);
	return n;
}

/* The least of some: a thread of the library's may just have a file open that
 * tells how scarce host memory is, and be kept from closing it for a while. */
static long count_files(void)
{
	long n, least = 0;
	int i;

	for (i = 0; i < 20; i++) {
		DIR *dir = opendir("/proc/self/fd");

		for (n = 0; dir && readdir(dir); n++)
			;
		if (dir)
			closedir(dir);
		least = !i || n < least ? n : least;
		usleep(5000);
	}
	return least;
}

/* With all memory free, and after what the last operation left to be done. */
static struct sample take_sample(int n)
{
	struct sample s;
	int i;

	for (i = 0; i < SLOTS; i++)
		drop(&blocks[i]);
	own_ask(control, "sleep");
	own_ask(control, "wake");
	own_ask(control, "wake");
	must(own_number("live-bytes") == sizeof(uint64_t), n, "live bytes");
	must(own_number("backed-up-bytes") == 0, n, "backed-up bytes");
	s.rss_kib = count_lines("/proc/self/status", "VmRSS:");
	s.threads = count_lines("/proc/self/status", "Threads:");
	s.maps = count_lines("/proc/self/maps", NULL);
	s.files = count_files();
	printf("cycle %d: rss %ld KiB, %ld files, %ld mappings, %ld threads\n",
	       n, s.rss_kib, s.files, s.maps, s.threads);
	return s;
}

/* The thread that gives back what was freed begins with the first of it. */
static void begin_watch(void)
{
	CUdeviceptr large;

	CK(cuMemAlloc(&large, 17 << 20));
	CK(cuMemFree(large));
}

int main(int argc, char **argv)
{
	int n, cycles = argc == 2 ? atoi(argv[1]) : 300;
	struct sample first = { 0 }, now;

	setvbuf(stdout, NULL, _IOLBF, 0);
	memset(out, 1, sizeof(out));	/* resident from the start */
	drv_open();
	control = own_connect();
	begin_watch();
	for (n = 1; n <= cycles; n++) {
		cycle(n);
		if (n % EVERY)
			continue;
		now = take_sample(n);
		if (n <= 2 * EVERY)
			first = now;
		must(now.files <= first.files, n, "descriptors");
		must(now.threads <= first.threads, n, "threads");
		must(now.maps <= first.maps + 8, n, "mappings");
		must(now.rss_kib <= first.rss_kib + SLACK_KIB, n, "memory");
	}
	CK(cuMemFree(drv.bad));
	own_ask(control, "sleep");
	own_ask(control, "wake");
	return 0;
}
