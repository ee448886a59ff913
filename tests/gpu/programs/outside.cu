// SPDX-License-Identifier: Apache-2.0
/*
 * outside - a program for a memory checker.
 *
 *   outside right    writes every word of its blocks and no other
 *   outside near     one word behind the end of a small block
 *   outside far      one word 64 MiB behind the end of a large one
 *   outside freed    one word of a block that it has freed
 */
#include "rt.cuh"

#define LARGE (64 * MIB)

static __global__ void write_one(unsigned *p, size_t word)
{
	p[word] = 42;
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "right";
	unsigned *small, *large, *freed;

	CK(cudaMalloc(&small, 1000));
	CK(cudaMalloc(&large, LARGE));
	CK(cudaMalloc(&freed, LARGE));
	rt_fill<<<1, 64>>>(small, 250, 1);
	rt_fill<<<512, 256>>>(large, LARGE / 4, 2);
	rt_fill<<<512, 256>>>(freed, LARGE / 4, 3);
	CK(cudaDeviceSynchronize());
	CK(cudaFree(freed));
	if (!strcmp(what, "near"))
		write_one<<<1, 1>>>(small, 250);
	else if (!strcmp(what, "far"))
		write_one<<<1, 1>>>(large, (LARGE + LARGE) / 4);
	else if (!strcmp(what, "freed"))
		write_one<<<1, 1>>>(freed, 100);
	printf("%s: %s\n", what, cudaGetErrorName(cudaDeviceSynchronize()));
	return 0;
}
