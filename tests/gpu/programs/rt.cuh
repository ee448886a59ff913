/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt - the runtime API for the test programs: checked calls, and the kernels
 * that fill memory and add it up.
 */
#ifndef VS_TEST_RT_CUH
#define VS_TEST_RT_CUH

#include "prog.h"

#include <cuda_runtime.h>

static inline void rt_check(cudaError_t rc, const char *what, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, what,
		cudaGetErrorString(rc));
	exit(3);
}

#define CK(call) rt_check((call), #call, __LINE__)

static __device__ __forceinline__ unsigned rt_word(unsigned seed, size_t i)
{
	unsigned x = seed ^ ((unsigned)i * 2654435761u);

	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	return x;
}

/* word i = f(seed, i) */
static __global__ void rt_fill(unsigned *p, size_t words, unsigned seed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < words; i += step)
		p[i] = rt_word(seed, i);
}

static __global__ void rt_mix(unsigned *p, size_t words, unsigned value)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < words; i += step)
		p[i] = p[i] * 2654435761u + value;
}

/* *sum += every word times an odd number that depends on its place */
static __global__ void rt_sum(const unsigned *p, size_t words,
			      unsigned long long *sum)
{
	size_t step = (size_t)gridDim.x * blockDim.x;
	unsigned long long own = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < words; i += step)
		own += p[i] * (2ull * i + 1);
	if (own)
		atomicAdd(sum, own);
}

/* Keep one multiprocessor busy for so long. */
static __global__ void rt_spin(unsigned long long ns)
{
	unsigned long long from, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
	do {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	} while (now - from < ns);
}

#endif
