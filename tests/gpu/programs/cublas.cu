/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas - matrix products of small whole numbers, so that every sum is exact.
 *
 * In each of STEPS steps: products in single, double and half precision, the
 * results brought back to small whole numbers and used as the next factors.
 */
#include "rt.cuh"

#include <cublas_v2.h>
#include <cuda_fp16.h>

#define N 3072
#define WORDS ((size_t)N * N)

static cublasHandle_t handle;

static void blas(cublasStatus_t rc, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: cublas error %d\n", line, rc);
	exit(3);
}

#define BLAS(call) blas((call), __LINE__)

template <typename T>
static __global__ void set_small(T *p, unsigned seed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < WORDS; i += step)
		p[i] = (T)((int)(rt_word(seed, i) % 9) - 4);
}

/* to = whole number in -4..4 that depends on from */
template <typename F, typename T>
static __global__ void to_small(T *to, const F *from)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < WORDS; i += step)
		to[i] = (T)(int)(((long long)from[i] + 3 * (long long)(i % 5)) %
				 5);
}

static unsigned long long total(const void *p, size_t bytes)
{
	unsigned long long *sum, value;

	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_sum<<<512, 256>>>((const unsigned *)p, bytes / 4, sum);
	CK(cudaMemcpy(&value, sum, sizeof(value), cudaMemcpyDeviceToHost));
	CK(cudaFree(sum));
	return value;
}

static float *s[3];
static double *d[3];
static __half *h[2];

static void step(void)
{
	float one = 1, none = 0;
	double done = 1, dnone = 0;

	BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, s[0],
			 N, s[1], N, &none, s[2], N));
	to_small<<<512, 256>>>(d[0], s[2]);
	BLAS(cublasDgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, N, N, &done, d[0],
			 N, d[1], N, &dnone, d[2], N));
	to_small<<<512, 256>>>(h[0], d[2]);
	BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, h[0],
			  CUDA_R_16F, N, h[1], CUDA_R_16F, N, &none, s[2],
			  CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
			  CUBLAS_GEMM_DEFAULT));
	to_small<<<512, 256>>>(s[0], s[2]);
	CK(cudaGetLastError());
}

int main(void)
{
	long steps = prog_env("STEPS", 300), ns = prog_env("SPIN_NS", 15000000);
	cudaStream_t aside;

	BLAS(cublasCreate(&handle));
	CK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
	for (unsigned i = 0; i < 3; i++) {
		CK(cudaMalloc((void **)&s[i], WORDS * sizeof(float)));
		CK(cudaMalloc((void **)&d[i], WORDS * sizeof(double)));
		set_small<<<512, 256>>>(s[i], i);
		set_small<<<512, 256>>>(d[i], i + 10);
	}
	for (unsigned i = 0; i < 2; i++) {
		CK(cudaMalloc((void **)&h[i], WORDS * sizeof(__half)));
		set_small<<<512, 256>>>(h[i], i + 20);
	}
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1, 0, aside>>>((unsigned long long)ns);
		step();
		CK(cudaStreamSynchronize(aside));
		if (n % 10 == 0)
			printf("step %ld sum %016llx\n", n,
			       total(s[2], WORDS * sizeof(float)));
		prog_step(n);
	}
	printf("done %016llx %016llx %016llx\n",
	       total(s[0], WORDS * sizeof(float)),
	       total(d[2], WORDS * sizeof(double)),
	       total(h[0], WORDS * sizeof(__half)));
	BLAS(cublasDestroy(handle));
	return 0;
}
