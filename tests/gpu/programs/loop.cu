/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop - a runtime API program with allocations that come and go.
 *
 * Blocks of 512 B to 256 MiB in 24 slots on four streams and the default one:
 * kernels, asynchronous copies both ways, 2D copies, memsets, events, frees and
 * new allocations of seeded random sizes in each of STEPS steps.  What is in
 * the blocks is the result of all steps so far and is summed on the device.
 * Built with static cudart, shared cudart and per-thread default streams; runs
 * on device DEVICE (0).
 */
#include "rt.cuh"

#define SLOTS 24
#define STREAMS 4
#define PIECE (256 * 1024)

struct block {
	unsigned *p;
	size_t size, pitch;	/* pitch: 0 unless from cudaMallocPitch */
};

static struct block blocks[SLOTS];
static cudaStream_t streams[STREAMS];
static unsigned long long *sum;
static unsigned char *pinned[STREAMS];
static uint64_t random_state = 20240518;

static unsigned pick(unsigned n)
{
	return (unsigned)(prog_random(&random_state) % n);
}

static void renew(struct block *b, size_t max)
{
	unsigned seed = pick(1u << 30);

	CK(cudaFree(b->p));
	b->pitch = 0;
	if (pick(8)) {
		b->size = prog_size(&random_state, max);
		CK(cudaMalloc((void **)&b->p, b->size));
	} else {
		size_t rows = 16 + pick(512);

		CK(cudaMallocPitch((void **)&b->p, &b->pitch,
				   4 * (1 + pick(2000)), rows));
		b->size = b->pitch * rows;
	}
	rt_fill<<<512, 256>>>(b->p, b->size / 4, seed);
	CK(cudaGetLastError());
}

/* Change the block on stream k and pass a piece of it over the host. */
static void exercise(struct block *b, unsigned k, unsigned value)
{
	size_t piece = b->size < PIECE ? b->size : PIECE;
	size_t last = b->size - piece;
	char *from = (char *)b->p + (last ? pick(last + 1) & ~3u : 0);
	char *to = (char *)b->p + (last ? pick(last + 1) & ~3u : 0);

	rt_mix<<<512, 256, 0, streams[k]>>>(b->p, b->size / 4, value);
	CK(cudaMemcpyAsync(pinned[k], from, piece, cudaMemcpyDeviceToHost,
			   streams[k]));
	CK(cudaMemsetAsync(from, (int)value & 255, piece / 2, streams[k]));
	CK(cudaMemcpyAsync(to, pinned[k], piece, cudaMemcpyHostToDevice,
			   streams[k]));
	if (b->pitch)
		CK(cudaMemcpy2DAsync(b->p, b->pitch,
				     (char *)b->p + 8 * b->pitch, b->pitch, 4,
				     8, cudaMemcpyDeviceToDevice, streams[k]));
	rt_sum<<<512, 256, 0, streams[k]>>>(b->p, b->size / 4, sum);
	CK(cudaGetLastError());
}

/* The default stream waits for all others. */
static void join(void)
{
	cudaEvent_t event;

	CK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (int i = 0; i < STREAMS; i++) {
		CK(cudaEventRecord(event, streams[i]));
		CK(cudaStreamWaitEvent(0, event, 0));
	}
	CK(cudaEventDestroy(event));
}

static void step(size_t max, long n)
{
	unsigned first = pick(SLOTS);

	for (int i = 0; i < 3; i++)
		renew(&blocks[pick(SLOTS)], max);
	CK(cudaStreamSynchronize(0));
	for (unsigned k = 0; k < STREAMS; k++)
		exercise(&blocks[(first + k) % SLOTS], k, (unsigned)n);
	join();
	CK(cudaStreamSynchronize(0));
}

static unsigned long long result(void)
{
	unsigned long long value;

	CK(cudaMemcpy(&value, sum, sizeof(value), cudaMemcpyDefault));
	return value;
}

int main(void)
{
	size_t max = (size_t)prog_env("MAX_BLOCK", 256l << 20);
	long steps = prog_env("STEPS", 350), ns = prog_env("SPIN_NS", 15000000);

	CK(cudaSetDevice((int)prog_env("DEVICE", 0)));
	for (int i = 0; i < STREAMS; i++) {
		CK(cudaStreamCreateWithFlags(&streams[i], i % 2
					     ? cudaStreamNonBlocking
					     : cudaStreamDefault));
		CK(cudaMallocHost((void **)&pinned[i], PIECE));
	}
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	for (int i = 0; i < SLOTS; i++)
		renew(&blocks[i], max);
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1, 0, streams[n % STREAMS]>>>(
			(unsigned long long)ns);
		step(max, n);
		if (n % 25 == 0)
			printf("step %ld sum %016llx\n", n, result());
		prog_step(n);
	}
	for (int i = 0; i < SLOTS; i++)
		rt_sum<<<512, 256>>>(blocks[i].p, blocks[i].size / 4, sum);
	CK(cudaDeviceSynchronize());
	printf("done sum %016llx\n", result());
	for (int i = 0; i < SLOTS; i++)
		CK(cudaFree(blocks[i].p));
	return 0;
}
