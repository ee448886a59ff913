/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed - four threads on two devices, each at work on the other's memory.
 *
 * Thread t has device t % 2 current, set once.  It changes a block of its own
 * device, copies between two blocks of the other one, frees and allocates, and
 * a kernel of its device reads the other device's memory.  Its current device
 * and context must be the same before and after every step.
 */
#include "rt.cuh"

#include <atomic>
#include <cuda.h>
#include <pthread.h>
#include <thread>

#define THREADS 4
#define SIZE ((size_t)48 * MIB)
#define WORDS (SIZE / sizeof(unsigned))

static unsigned *own[THREADS], *spare[THREADS];
static unsigned long long *sums[THREADS];
static std::atomic<unsigned> wrong;
static pthread_barrier_t barrier;
static long steps, ns;

/* to += what lies on another device */
static __global__ void take(unsigned *to, const unsigned *from, size_t words)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < words; i += step)
		to[i] += from[i];
}

static void meet(void)
{
	CK(cudaDeviceSynchronize());
	pthread_barrier_wait(&barrier);
}

static void step(int t, unsigned n)
{
	int other = (t + 1) % THREADS, third = (t + 3) % THREADS;

	rt_spin<<<1, 1>>>((unsigned long long)ns);
	rt_mix<<<256, 256>>>(own[t], WORDS, n * THREADS + (unsigned)t);
	CK(cudaFree(spare[t]));
	CK(cudaMalloc((void **)&spare[t], SIZE));
	meet();
	/* both are on the device that is not current here */
	CK(cudaMemcpyAsync(spare[third], own[other], SIZE, cudaMemcpyDefault,
			   0));
	meet();
	take<<<256, 256>>>(own[t], spare[other], WORDS);
	meet();
	CK(cudaMemcpyPeer(spare[t], t % 2, own[other], other % 2, SIZE));
	rt_sum<<<256, 256>>>(spare[t], WORDS, sums[t]);
	meet();
}

static void work(int t)
{
	CUcontext context, now;
	int device = -1;

	CK(cudaSetDevice(t % 2));
	if (t < 2)
		CK(cudaDeviceEnablePeerAccess(!t, 0));
	CK(cudaMalloc((void **)&own[t], SIZE));
	CK(cudaMalloc((void **)&spare[t], SIZE));
	CK(cudaMalloc((void **)&sums[t], sizeof(*sums[t])));
	CK(cudaMemset(sums[t], 0, sizeof(*sums[t])));
	rt_fill<<<256, 256>>>(own[t], WORDS, (unsigned)t);
	cuCtxGetCurrent(&context);
	meet();
	for (long n = 1; n <= steps; n++) {
		step(t, (unsigned)n);
		CK(cudaGetDevice(&device));
		cuCtxGetCurrent(&now);
		wrong += device != t % 2 || now != context;
		if (!t)
			prog_step(n);
	}
}

int main(void)
{
	std::thread threads[THREADS];
	unsigned long long value;
	int devices = 0;

	steps = prog_env("STEPS", 300);
	ns = prog_env("SPIN_NS", 15000000);
	CK(cudaGetDeviceCount(&devices));
	if (devices < 2) {
		fprintf(stderr, "no second device\n");
		return 77;
	}
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int t = 0; t < THREADS; t++)
		threads[t] = std::thread(work, t);
	for (std::thread &thread : threads)
		thread.join();
	for (int t = 0; t < THREADS; t++) {
		CK(cudaMemcpy(&value, sums[t], sizeof(value),
			      cudaMemcpyDefault));
		printf("thread %d sum %016llx\n", t, value);
	}
	printf("done, another device was current: %u\n", wrong.load());
	return wrong != 0;
}
