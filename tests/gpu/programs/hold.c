/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold - a program that holds device memory and does what stdin says.
 *
 * One command a line, one answer a line ("ok ..." or "error ..."):
 *
 *   mix MIB          groups of 512 MiB: one block of 256, two of 64, four of 32
 *   alloc BYTES...   one block each
 *   hog MIB          all device memory but MIB, as few blocks as possible
 *   fill SEED        a pattern into every block, each with a seed of its own
 *   check            how many words of the blocks differ from their pattern
 *   byte VALUE       every byte of every block becomes VALUE
 *   checkbyte VALUE  how many bytes of the blocks, copied out, are not VALUE
 *   churn SEED N     N times: free a block, get one of the same size, fill it
 *   pointers         count, bytes, and a hash of the addresses
 *   info             device memory: free, total and used bytes
 *   free             every block
 *   quit
 *
 * With $TICK a thread that never calls CUDA counts up in that file.
 */
#include "drv.h"

#include <pthread.h>

#define MAX_BLOCKS 65536

struct block {
	CUdeviceptr p;
	size_t size;
	uint32_t seed;
};

static struct block blocks[MAX_BLOCKS];
static size_t count;

static void *tick(void *path)
{
	int fd = open((const char *)path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	char line[32];

	for (unsigned n = 1; fd >= 0; n++) {
		snprintf(line, sizeof(line), "%010u\n", n);
		if (pwrite(fd, line, strlen(line), 0) < 0)
			break;
		usleep(20000);
	}
	return NULL;
}

static CUresult take(size_t size)
{
	CUresult rc;

	if (count == MAX_BLOCKS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = CU(cuMemAlloc)(&blocks[count].p, size);
	if (!rc)
		blocks[count++].size = size;
	return rc;
}

static size_t total(void)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += blocks[i].size;
	return bytes;
}

static void say_taken(CUresult rc)
{
	if (rc)
		printf("error %d after %zu blocks\n", rc, count);
	else
		printf("ok blocks=%zu bytes=%zu\n", count, total());
}

static void mix(size_t mib)
{
	static const size_t group[] = { 256, 64, 64, 32, 32, 32, 32 };
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < mib / 512 * 7 && !rc; i++)
		rc = take(group[i % 7] * MIB);
	say_taken(rc);
}

static void alloc(const char *sizes)
{
	CUresult rc = CUDA_SUCCESS;
	char *end;

	for (;;) {
		size_t size = strtoull(sizes, &end, 0);

		if (end == sizes || rc)
			break;
		rc = take(size);
		sizes = end;
	}
	say_taken(rc);
}

static void hog(size_t leave)
{
	size_t size = 16 * GIB, left, all;

	while (size >= 2 * MIB) {
		CK(CU(cuMemGetInfo)(&left, &all));
		if (left < leave + size || take(size))
			size /= 2;
	}
	say_taken(CUDA_SUCCESS);
}

static void put_pattern(struct block *b, uint32_t seed)
{
	b->seed = seed;
	drv_pattern(NULL, b->p, b->size / 4, seed);
}

static void fill(uint32_t seed)
{
	for (size_t i = 0; i < count; i++)
		put_pattern(&blocks[i], seed + (uint32_t)i);
	CK(CU(cuCtxSynchronize)());
	printf("ok\n");
}

static void check(void)
{
	for (size_t i = 0; i < count; i++)
		drv_compare(NULL, blocks[i].p, blocks[i].size / 4,
			    blocks[i].seed);
	printf("ok bad=%lu\n", (unsigned long)drv_bad());
}

static void put_byte(unsigned char value)
{
	for (size_t i = 0; i < count; i++)
		CK(CU(cuMemsetD8)(blocks[i].p, value, blocks[i].size));
	CK(CU(cuCtxSynchronize)());
	printf("ok\n");
}

static void check_byte(unsigned char value)
{
	static unsigned char out[64 << 20];
	size_t bad = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t at = 0; at < blocks[i].size; at += sizeof(out)) {
			size_t n = blocks[i].size - at;

			n = n < sizeof(out) ? n : sizeof(out);
			CK(CU(cuMemcpyDtoH)(out, blocks[i].p + at, n));
			for (size_t k = 0; k < n; k++)
				bad += out[k] != value;
		}
	}
	printf("ok bad=%zu\n", bad);
}

static void churn(uint64_t seed, unsigned times)
{
	CUresult rc = CUDA_SUCCESS;

	while (times-- && count && !rc) {
		struct block *b = &blocks[prog_random(&seed) % count];

		CK(CU(cuMemFree)(b->p));
		rc = CU(cuMemAlloc)(&b->p, b->size);
		if (rc)
			*b = blocks[--count];
		else
			put_pattern(b, (uint32_t)prog_random(&seed));
	}
	CK(CU(cuCtxSynchronize)());
	say_taken(rc);
}

static void pointers(void)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++)
		hash = prog_hash(&blocks[i].p, sizeof(blocks[i].p), hash);
	printf("ok count=%zu bytes=%zu hash=%016lx\n", count, total(),
	       (unsigned long)hash);
}

static void info(void)
{
	size_t left, all;

	CK(CU(cuMemGetInfo)(&left, &all));
	printf("ok free=%zu total=%zu used=%zu\n", left, all, all - left);
}

static void drop(void)
{
	while (count)
		CK(CU(cuMemFree)(blocks[--count].p));
	printf("ok\n");
}

/* Returns 0 when it is time to leave. */
static int obey(char *line)
{
	const char *verb = strtok(line, " \n");
	char *rest = strtok(NULL, "\n");
	char *next = rest ? rest : line + strlen(line);
	uint64_t n = strtoull(next, &next, 0);

	if (!verb)
		printf("error no command\n");
	else if (!strcmp(verb, "mix"))
		mix(n);
	else if (!strcmp(verb, "alloc"))
		alloc(rest ? rest : "");
	else if (!strcmp(verb, "hog"))
		hog(n * MIB);
	else if (!strcmp(verb, "fill"))
		fill((uint32_t)n);
	else if (!strcmp(verb, "check"))
		check();
	else if (!strcmp(verb, "byte"))
		put_byte((unsigned char)n);
	else if (!strcmp(verb, "checkbyte"))
		check_byte((unsigned char)n);
	else if (!strcmp(verb, "churn"))
		churn(n, (unsigned)strtoul(next, NULL, 0));
	else if (!strcmp(verb, "pointers"))
		pointers();
	else if (!strcmp(verb, "info"))
		info();
	else if (!strcmp(verb, "free"))
		drop();
	else if (!strcmp(verb, "quit"))
		return 0;
	else
		printf("error unknown command %s\n", verb);
	return 1;
}

int main(void)
{
	char *ticks = getenv("TICK");
	char line[4096];
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (ticks && pthread_create(&thread, NULL, tick, ticks))
		return 3;
	drv_open();
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin) && obey(line))
		;
	printf("ok bye\n");
	return 0;
}
