/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cufft - transforms forth and back, in one, two and many dimensions.
 *
 * Each of STEPS steps transforms whole numbers forth and back, rounds the
 * result and compares it with what went in; plans come and go.
 */
#include "rt.cuh"

#include <cufft.h>

#define SIDE 2048
#define POINTS ((size_t)SIDE * SIDE)

static float *real_data;
static cufftComplex *line, *plane;
static unsigned long long *counts;	/* bad points, sum of the spectra */
static cufftHandle plans[3];

static void fft(cufftResult rc, int at)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: cufft error %d\n", at, rc);
	exit(3);
}

#define FFT(call) fft((call), __LINE__)

static __device__ float small_number(unsigned seed, size_t i)
{
	return (float)((int)(rt_word(seed, i) % 201) - 100);
}

static __global__ void set_line(cufftComplex *p, unsigned seed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step)
		p[i] = { small_number(seed, i), small_number(seed + 1, i) };
}

static __global__ void set_real(float *p, unsigned seed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step)
		p[i] = small_number(seed, i);
}

static __global__ void check_line(const cufftComplex *p, unsigned seed,
				  float scale, unsigned long long *bad)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step)
		if (rintf(p[i].x * scale) != small_number(seed, i) ||
		    rintf(p[i].y * scale) != small_number(seed + 1, i))
			atomicAdd(bad, 1);
}

static __global__ void check_real(const float *p, unsigned seed, float scale,
				  unsigned long long *bad)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step)
		if (rintf(p[i] * scale) != small_number(seed, i))
			atomicAdd(bad, 1);
}

static void plan(void)
{
	int n[1] = { SIDE };

	FFT(cufftPlanMany(&plans[0], 1, n, NULL, 1, SIDE, NULL, 1, SIDE,
			  CUFFT_C2C, SIDE));
	FFT(cufftPlan2d(&plans[1], SIDE, SIDE, CUFFT_R2C));
	FFT(cufftPlan2d(&plans[2], SIDE, SIDE, CUFFT_C2R));
}

static void unplan(void)
{
	for (cufftHandle handle : plans)
		FFT(cufftDestroy(handle));
}

static void step(unsigned n)
{
	set_line<<<512, 256>>>(line, n);
	FFT(cufftExecC2C(plans[0], line, line, CUFFT_FORWARD));
	rt_sum<<<512, 256>>>((unsigned *)line, 2 * POINTS, &counts[1]);
	FFT(cufftExecC2C(plans[0], line, line, CUFFT_INVERSE));
	check_line<<<512, 256>>>(line, n, 1.0f / SIDE, &counts[0]);
	set_real<<<512, 256>>>(real_data, n);
	FFT(cufftExecR2C(plans[1], real_data, plane));
	rt_sum<<<512, 256>>>((unsigned *)plane, POINTS, &counts[1]);
	FFT(cufftExecC2R(plans[2], plane, real_data));
	check_real<<<512, 256>>>(real_data, n, 1.0f / POINTS, &counts[0]);
	CK(cudaGetLastError());
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	unsigned long long said[2] = {};
	cudaStream_t aside;

	CK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
	CK(cudaMalloc((void **)&real_data, POINTS * sizeof(float)));
	CK(cudaMalloc((void **)&line, POINTS * sizeof(cufftComplex)));
	CK(cudaMalloc((void **)&plane, SIDE * (SIDE / 2 + 1) *
		      sizeof(cufftComplex)));
	CK(cudaMalloc((void **)&counts, sizeof(said)));
	CK(cudaMemset(counts, 0, sizeof(said)));
	plan();
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1, 0, aside>>>((unsigned long long)ns);
		step((unsigned)n);
		CK(cudaStreamSynchronize(aside));
		CK(cudaMemcpy(said, counts, sizeof(said),
			      cudaMemcpyDeviceToHost));
		if (n % 25 == 0) {
			printf("step %ld bad %llu sum %016llx\n", n, said[0],
			       said[1]);
			unplan();
			plan();
		}
		prog_step(n);
	}
	unplan();
	printf("done bad %llu sum %016llx\n", said[0], said[1]);
	return said[0] != 0;
}
