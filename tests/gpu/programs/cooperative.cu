/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cooperative - kernels whose blocks wait for each other.
 *
 * In each of STEPS steps a cooperative launch, whose whole grid synchronises
 * several times, and a launch in clusters of four blocks that read each other's
 * shared memory.  With blocks at different times the sums would be others.
 */
#include "rt.cuh"

#include <cooperative_groups.h>

#define SIZE ((size_t)128 * MIB)
#define WORDS (SIZE / sizeof(unsigned))
#define ROUNDS 6
#define CLUSTER 4
#define THREADS 256

namespace cg = cooperative_groups;

static unsigned *front, *back;
static unsigned long long *sum;

/* Each round reads what other blocks wrote in the one before. */
static __global__ void relay(unsigned *from, unsigned *to, size_t words,
			     unsigned value)
{
	cg::grid_group grid = cg::this_grid();

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned *swap = from;

		for (size_t i = grid.thread_rank(); i < words;
		     i += grid.size())
			to[i] = from[words - 1 - i] * 2654435761u + value +
				from[(i + words / 2 + round) % words];
		grid.sync();
		from = to;
		to = swap;
	}
}

/* Each block adds what its neighbours in the cluster hold. */
static __global__ void neighbours(unsigned *p, size_t words)
{
	cg::cluster_group cluster = cg::this_cluster();
	__shared__ unsigned own[THREADS];
	size_t tiles = words / THREADS;

	for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		size_t at = tile * THREADS + threadIdx.x;
		unsigned added = 0;

		own[threadIdx.x] = p[at];
		cluster.sync();
		for (unsigned rank = 0; rank < cluster.num_blocks(); rank++)
			added += cluster.map_shared_rank(own, rank)
				[threadIdx.x ^ rank] * (rank + 1);
		cluster.sync();
		p[at] = added;
	}
}

static int grid_size(void)
{
	struct cudaDeviceProp device;
	int blocks;

	CK(cudaGetDeviceProperties(&device, 0));
	CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, relay,
							 THREADS, 0));
	return (blocks > 2 ? 2 : blocks) * device.multiProcessorCount;
}

static void step(int blocks, unsigned value)
{
	size_t words = WORDS;
	void *args[] = { &front, &back, &words, &value };
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};

	CK(cudaLaunchCooperativeKernel((void *)relay, dim3(blocks),
				       dim3(THREADS), args, 0, 0));
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = CLUSTER;
	attribute.val.clusterDim.y = 1;
	attribute.val.clusterDim.z = 1;
	config.gridDim = dim3(128 * CLUSTER);
	config.blockDim = dim3(THREADS);
	config.attrs = &attribute;
	config.numAttrs = 1;
	CK(cudaLaunchKernelEx(&config, neighbours, front, words));
	rt_sum<<<512, 256>>>(front, WORDS, sum);
	CK(cudaGetLastError());
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	unsigned long long value = 0;
	int blocks = grid_size();

	CK(cudaMalloc((void **)&front, SIZE));
	CK(cudaMalloc((void **)&back, SIZE));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_fill<<<512, 256>>>(front, WORDS, 21);
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1>>>((unsigned long long)ns);
		step(blocks, (unsigned)n);
		CK(cudaMemcpy(&value, sum, sizeof(value),
			      cudaMemcpyDeviceToHost));
		if (n % 25 == 0)
			printf("step %ld sum %016llx\n", n, value);
		prog_step(n);
	}
	printf("done sum %016llx\n", value);
	return 0;
}
