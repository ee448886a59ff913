/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zerocopy - host memory that kernels read and write at its own address.
 *
 * One block from cudaHostAlloc, one that is registered and unregistered again
 * and again, one that is written only by the host, and device memory between
 * them.  The host checks and changes its side in each of STEPS steps.
 */
#include "rt.cuh"

#include <sys/mman.h>

#define SIZE ((size_t)8 * MIB)
#define WORDS (SIZE / sizeof(unsigned))

static unsigned *mapped, *registered, *combined, *device;
static unsigned long long *sum;

/* to = from and what is on the device, which changes too */
static __global__ void pass(unsigned *to, const unsigned *from,
			    const unsigned *other, unsigned *own, size_t words,
			    unsigned value)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < words; i += step) {
		own[i] = own[i] * 2654435761u + from[i] + other[i];
		to[i] = own[i] ^ value;
	}
}

static unsigned *on_device(unsigned *host)
{
	unsigned *p;

	CK(cudaHostGetDevicePointer((void **)&p, host, 0));
	return p;
}

static void renew_registration(void)
{
	CK(cudaHostUnregister(registered));
	CK(cudaHostRegister(registered, SIZE, cudaHostRegisterMapped));
}

static void prepare(void)
{
	CK(cudaHostAlloc((void **)&mapped, SIZE, cudaHostAllocMapped));
	CK(cudaHostAlloc((void **)&combined, SIZE, cudaHostAllocMapped |
			 cudaHostAllocWriteCombined));
	registered = (unsigned *)mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (registered == MAP_FAILED)
		exit(3);
	CK(cudaHostRegister(registered, SIZE, cudaHostRegisterMapped));
	CK(cudaMalloc((void **)&device, SIZE));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_fill<<<512, 256>>>(device, WORDS, 31);
	for (size_t i = 0; i < WORDS; i++)
		mapped[i] = registered[i] = combined[i] = (unsigned)i;
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	unsigned long long value = 0;
	uint64_t hash = 0;

	prepare();
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1>>>((unsigned long long)ns);
		pass<<<256, 256>>>(on_device(registered), on_device(mapped),
				   on_device(combined), device, WORDS,
				   (unsigned)n);
		pass<<<256, 256>>>(on_device(mapped), on_device(registered),
				   on_device(combined), device, WORDS,
				   (unsigned)n + 1);
		rt_sum<<<256, 256>>>(device, WORDS, sum);
		CK(cudaDeviceSynchronize());
		hash = prog_hash(mapped, 65536, hash);
		hash = prog_hash(registered + WORDS / 2, 65536, hash);
		for (size_t i = 0; i < WORDS; i += 97) {
			mapped[i] += (unsigned)n;
			combined[i] = (unsigned)(i * (size_t)n);
		}
		if (n % 20 == 0)
			renew_registration();
		CK(cudaMemcpy(&value, sum, sizeof(value),
			      cudaMemcpyDeviceToHost));
		if (n % 25 == 0)
			printf("step %ld hash %016lx sum %016llx\n", n,
			       (unsigned long)hash, value);
		prog_step(n);
	}
	printf("done hash %016lx sum %016llx\n",
	       (unsigned long)prog_hash(registered, SIZE, hash), value);
	return 0;
}
