/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks - "ranks 0" and "ranks 1" are the halves of a job that compute in
 * step: in each step a kernel of either one waits for the other to have come
 * as far, so neither can come to rest while the other is held before it.
 *
 * $RING is a file that both map.  $COUNT shows the steps that are done; word
 * by word a block of device memory counts them as well, and a rank whose block
 * is wrong ends with 4.  With $DEEP a rank submits so many steps before it
 * waits for them, and is as far ahead of the other one.
 */
#include "drv.h"

#include <sys/mman.h>

#define RING 1024		/* steps; the flags of older ones are cleared */
#define WORDS ((size_t)1 << 20)

static uint32_t (*flags)[RING];

static void map_flags(void)
{
	const char *path = getenv("RING");
	size_t size = 2 * sizeof(*flags);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, (off_t)size))
		exit(3);
	flags = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (flags == MAP_FAILED)
		exit(3);
	CK(cuMemHostRegister(flags, size, 0));
}

static void meet(CUstream s, int rank, uint32_t step)
{
	uint32_t *other = &flags[!rank][step % RING];
	CUdeviceptr out = 0;
	void *args[] = { &other, &out };

	__atomic_store_n(&flags[rank][(step + RING / 2) % RING], 0,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&flags[rank][step % RING], 1, __ATOMIC_RELEASE);
	CK(cuLaunchKernel(drv.wait_flag, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

static void compute(CUstream s, CUdeviceptr block)
{
	drv_add(s, block, WORDS, 1);
	drv_spin(s, 2000000);
}

static void verify(CUstream s, CUdeviceptr block, uint32_t step)
{
	uint32_t word = 0;

	CK(cuMemcpyDtoHAsync(&word, block + (WORDS - 1) * 4, 4, s));
	CK(cuStreamSynchronize(s));
	if (word == step)
		return;
	fprintf(stderr, "step %u: the block says %u\n", step, word);
	exit(4);
}

int main(int argc, char **argv)
{
	int rank = argc > 1 && !strcmp(argv[1], "1");
	const char *path = getenv("COUNT"), *text = getenv("DEEP");
	uint32_t deep = text ? (uint32_t)atoi(text) : 1;
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	CUdeviceptr block;
	CUstream s;

	drv_open();
	map_flags();
	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&block, WORDS * 4));
	CK(cuMemsetD8(block, 0, WORDS * 4));
	CK(cuCtxSynchronize());
	for (uint32_t step = 1; ; step++) {
		/* Host work, while which the other one waits in its kernel. */
		usleep(rank ? 8000 : 500);
		compute(s, block);
		meet(s, rank, step);
		if (step % deep)
			continue;
		verify(s, block, step);
		dprintf(fd, "%010u\n", step);
		lseek(fd, 0, SEEK_SET);
	}
}
