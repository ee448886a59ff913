/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers - two devices that copy to each other and read each other's memory.
 *
 * The first block of each device is there before the other device is used.
 * Copies are made with and without peer access enabled, with each device
 * current; kernels of one device read the memory of the other.
 */
#include "rt.cuh"

#define SIZE ((size_t)96 * MIB + 4096)
#define SMALL ((size_t)300000)
#define WORDS(n) ((n) / sizeof(unsigned))

static unsigned *large[2], *small[2], *spare[2];
static unsigned long long *sums[2];

static void make(int device, unsigned seed)
{
	CK(cudaSetDevice(device));
	CK(cudaMalloc((void **)&large[device], SIZE));
	CK(cudaMalloc((void **)&small[device], SMALL));
	CK(cudaMalloc((void **)&spare[device], SIZE));
	CK(cudaMalloc((void **)&sums[device], sizeof(*sums[device])));
	rt_fill<<<512, 256>>>(large[device], WORDS(SIZE), seed);
	rt_fill<<<512, 256>>>(small[device], WORDS(SMALL), seed + 1);
	CK(cudaDeviceSynchronize());
}

static unsigned long long total(int device, const unsigned *p, size_t size)
{
	unsigned long long sum = 0;

	CK(cudaSetDevice(device));
	CK(cudaMemset(sums[device], 0, sizeof(sum)));
	rt_sum<<<512, 256>>>(p, WORDS(size), sums[device]);
	CK(cudaMemcpy(&sum, sums[device], sizeof(sum),
		      cudaMemcpyDeviceToHost));
	return sum;
}

/* Over to the other device and mixed there, with `current` in charge. */
static void exchange(int current, unsigned value)
{
	int other = !current;

	CK(cudaSetDevice(current));
	CK(cudaMemcpy(spare[other], large[current], SIZE, cudaMemcpyDefault));
	CK(cudaMemcpyPeerAsync(small[other], other, small[current], current,
			       SMALL, 0));
	CK(cudaMemcpyAsync(spare[current], large[other], SIZE,
			   cudaMemcpyDefault, 0));
	CK(cudaDeviceSynchronize());
	CK(cudaSetDevice(other));
	rt_mix<<<512, 256>>>(spare[other], WORDS(SIZE), value);
	CK(cudaDeviceSynchronize());
	CK(cudaMemcpy(large[current], spare[other], SIZE, cudaMemcpyDefault));
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 10000000);
	int devices = 0;

	CK(cudaGetDeviceCount(&devices));
	if (devices < 2) {
		fprintf(stderr, "no second device\n");
		return 77;
	}
	make(0, 1);
	make(1, 2);
	for (long n = 1; n <= steps; n++) {
		CK(cudaSetDevice((int)(n & 1)));
		rt_spin<<<1, 1>>>((unsigned long long)ns);
		exchange((int)(n & 1), (unsigned)n);
		if (n == 20)
			for (int i = 0; i < 2; i++) {
				CK(cudaSetDevice(i));
				CK(cudaDeviceEnablePeerAccess(!i, 0));
			}
		if (n > 20 && n % 10 == 0)
			printf("step %ld: %016llx %016llx\n", n,
			       total(0, large[1], SIZE),
			       total(1, small[0], SMALL));
		prog_step(n);
	}
	printf("done %016llx %016llx %016llx\n", total(0, large[0], SIZE),
	       total(1, large[1], SIZE), total(0, small[0], SMALL));
	return 0;
}
