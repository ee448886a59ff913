/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo - the program of the demo, and two questions that its script asks.
 *
 *   probe       the first GPU, as key=value lines; fails where there is none
 *   memory      device memory in use, as another process sees it
 *   work MIB    compute on so much device memory until SIGTERM, then verify
 *
 * It finds the driver by dlopen, so it runs on a GPU and on the simulated
 * driver alike, and knows nothing of vsleep.
 */
#define DRV_DLOPEN
#include "gpu/programs/drv.h"

#include <signal.h>

#define BLOCKS 512
#define SAMPLE (64 * 1024)	/* words that the host checks of a block */

struct block {
	CUdeviceptr p;
	uint64_t words;
};

static struct block blocks[BLOCKS];
static int count;
static volatile sig_atomic_t stop;

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

static void *find(const char *name)
{
	return drv_symbol(dlopen("libcuda.so.1", RTLD_NOW), name);
}

#define FIND(fn) ((__typeof__(&fn))find(DRV_TEXT(fn)))

static int probe(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(&cuInit) init;
	char name[128], bus[32] = "";
	int version = 0, devices = 0;
	CUresult rc;

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	init = (__typeof__(init))drv_symbol(lib, "cuInit");
	rc = init(0);
	if (!rc)
		rc = FIND(cuDeviceGetCount)(&devices);
	if (rc || !devices) {
		fprintf(stderr, "the driver gives error %d and %d devices\n",
			rc, devices);
		return 1;
	}
	CK(FIND(cuDriverGetVersion)(&version));
	CK(FIND(cuDeviceGetName)(name, sizeof(name), 0));
	CK(FIND(cuDeviceGetPCIBusId)(bus, sizeof(bus), 0));
	printf("name=%s\nbus=%s\nversion=%d\n", name, bus, version);
	return 0;
}

static int memory(void)
{
	size_t left, all;

	drv_open();
	CK(CU(cuMemGetInfo)(&left, &all));
	printf("%zu MiB of %zu MiB in use\n", (all - left) / MIB, all / MIB);
	return 0;
}

static void take(size_t bytes)
{
	struct block *b = &blocks[count];

	if (count == BLOCKS) {
		fprintf(stderr, "more than %d blocks\n", BLOCKS);
		exit(2);
	}
	CK(CU(cuMemAlloc)(&b->p, bytes));
	b->words = bytes / 4;
	drv_pattern(NULL, b->p, b->words, (uint32_t)count);
	count++;
}

/* Blocks as programs have them: large, middling and small. */
static void take_all(size_t mib)
{
	static const size_t sizes[] = { 64, 32, 16, 8, 8 };
	size_t unit = mib >= 2048 ? 8 : 1, left = mib, n;
	int i;

	for (i = 0; i < 64; i++)
		take(4096);
	for (i = 0; left; i++) {
		n = sizes[i % 5] * unit;
		n = n < left ? n : left;
		take(n * MIB);
		left -= n;
	}
	CK(CU(cuCtxSynchronize)());
}

static void add_all(uint32_t value)
{
	int i;

	for (i = 0; i < count; i++)
		drv_add(NULL, blocks[i].p, blocks[i].words, value);
	CK(CU(cuCtxSynchronize)());
}

/* The start of a block once more, by the host's own arithmetic. */
static uint64_t check_sample(const struct block *b, uint32_t seed)
{
	static uint32_t words[SAMPLE];
	uint64_t i, n = b->words < SAMPLE ? b->words : SAMPLE, bad = 0;

	CK(CU(cuMemcpyDtoH)(words, b->p, n * 4));
	for (i = 0; i < n; i++)
		bad += words[i] != kernels_word(seed, i);
	return bad;
}

static int verify(long steps)
{
	uint64_t bad, words = 0;
	int i;

	for (i = 0; i < count; i++) {
		drv_compare(NULL, blocks[i].p, blocks[i].words, (uint32_t)i);
		words += blocks[i].words;
	}
	bad = drv_bad();
	for (i = 0; i < count; i++)
		bad += check_sample(&blocks[i], (uint32_t)i);
	printf("result: %lu words in %d blocks after %ld steps, %lu wrong\n",
	       (unsigned long)words, count, steps, (unsigned long)bad);
	return bad != 0;
}

/* Each step changes every word; all of them together are taken back. */
static int work(size_t mib)
{
	uint32_t sum = 0;
	long step;

	signal(SIGTERM, on_term);
	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	take_all(mib);
	for (step = 1; !stop; step++) {
		add_all((uint32_t)step);
		sum += (uint32_t)step;
		printf("step %ld\n", step);
		usleep(20000);
	}
	add_all(0u - sum);
	return verify(step - 1);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (argc == 2 && !strcmp(argv[1], "probe"))
		return probe();
	if (argc == 2 && !strcmp(argv[1], "memory"))
		return memory();
	if (argc == 3 && !strcmp(argv[1], "work") && mib)
		return work(mib);
	fprintf(stderr, "usage: demo probe | memory | work MIB\n");
	return 2;
}
