/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver - a driver API program with allocations that come and go.
 *
 * Blocks of 512 B to MAX_BLOCK (256 MiB) in 24 slots, each filled with a
 * pattern of its own seed.  Each of STEPS steps frees and allocates, changes
 * blocks on two streams and changes them back, copies pieces out and in, keeps
 * the device busy for SPIN_NS, and prints now and then what it found.  Built
 * three times, see drv.h.
 */
#include "drv.h"

#define SLOTS 24
#define PIECE (256 * 1024)

struct block {
	CUdeviceptr p;
	size_t size;
	uint32_t seed;
};

static struct block blocks[SLOTS];
static CUstream streams[3];
static unsigned char *pinned;
static uint64_t random_state = 20240517;

static void renew(struct block *b, size_t max)
{
	if (b->p)
		CK(CU(cuMemFree)(b->p));
	b->size = prog_size(&random_state, max);
	b->seed = (uint32_t)prog_random(&random_state);
	CK(CU(cuMemAlloc)(&b->p, b->size));
	drv_pattern(streams[0], b->p, b->size / 4, b->seed);
}

/* Change the block on one stream and back on another; hash a piece of it. */
static uint64_t exercise(struct block *b, uint32_t value)
{
	size_t piece = b->size < PIECE ? b->size : PIECE;
	size_t at = (prog_random(&random_state) % (b->size - piece + 1)) & ~3ul;
	CUevent event;

	CK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	CK(CU(cuEventRecord)(event, streams[0]));
	CK(CU(cuStreamWaitEvent)(streams[1], event, 0));
	drv_add(streams[1], b->p, b->size / 4, value);
	CK(CU(cuMemcpyDtoHAsync)(pinned, b->p + at, piece, streams[1]));
	CK(CU(cuStreamSynchronize)(streams[1]));
	CK(CU(cuMemsetD32Async)(b->p + at, 0xdeadbeef, piece / 4, streams[0]));
	CK(CU(cuMemcpyHtoDAsync)(b->p + at, pinned, piece, streams[0]));
	drv_add(streams[0], b->p, b->size / 4, 0u - value);
	drv_compare(streams[0], b->p, b->size / 4, b->seed);
	CK(CU(cuEventDestroy)(event));
	return prog_hash(pinned, piece, 0);
}

int main(void)
{
	size_t max = (size_t)prog_env("MAX_BLOCK", 256l << 20);
	uint64_t ns = (uint64_t)prog_env("SPIN_NS", 15000000);
	long steps = prog_env("STEPS", 350);
	uint64_t hash = 0, bad = 0;

	drv_open();
	for (int i = 0; i < 3; i++)
		CK(CU(cuStreamCreate)(&streams[i], CU_STREAM_NON_BLOCKING));
	CK(CU(cuMemHostAlloc)((void **)&pinned, PIECE, 0));
	for (int i = 0; i < SLOTS; i++)
		renew(&blocks[i], max);
	for (long step = 1; step <= steps; step++) {
		drv_spin(streams[2], ns);
		for (int i = 0; i < 3; i++)
			renew(&blocks[prog_random(&random_state) % SLOTS], max);
		for (int i = 0; i < 2; i++)
			hash ^= exercise(&blocks[prog_random(&random_state) %
						 SLOTS], (uint32_t)step);
		hash *= 0x100000001b3u;
		for (int i = 0; i < 3; i++)
			CK(CU(cuStreamSynchronize)(streams[i]));
		if (step % 25 == 0) {
			bad += drv_bad();
			printf("step %ld hash %016lx bad %lu\n", step,
			       (unsigned long)hash, (unsigned long)bad);
		}
		prog_step(step);
	}
	for (int i = 0; i < SLOTS; i++) {
		drv_compare(streams[0], blocks[i].p, blocks[i].size / 4,
			    blocks[i].seed);
		CK(CU(cuStreamSynchronize)(streams[0]));
		CK(CU(cuMemFree)(blocks[i].p));
	}
	bad += drv_bad();
	CK(CU(cuMemFreeHost)(pinned));
	printf("done hash %016lx bad %lu\n", (unsigned long)hash,
	       (unsigned long)bad);
	return bad != 0;
}
