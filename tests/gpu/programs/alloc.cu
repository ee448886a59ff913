/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc - what allocations and launches cost.
 *
 *   alloc small       device memory that 20 000 blocks of 4 KiB take
 *   alloc pairs       median time of cudaMalloc and cudaFree, three sizes
 *   alloc stream      the same of cudaMallocAsync and cudaFreeAsync, in one
 *                     stream and from one to another, from pools that keep
 *                     and that do not
 *   alloc usable      how much can be had in steps of 64 MiB
 *   alloc launches    time of one empty kernel's launch, over LAUNCHES
 */
#include "rt.cuh"

#include <algorithm>
#include <vector>

static size_t free_now(void)
{
	size_t left, all;

	CK(cudaMemGetInfo(&left, &all));
	return left;
}

static void small(void)
{
	std::vector<void *> blocks(20000);
	size_t before = free_now(), taken;
	double from = prog_now(), took;

	for (auto &p : blocks)
		CK(cudaMalloc(&p, 4096));
	took = prog_now() - from;
	taken = before - free_now();
	for (auto &p : blocks)
		CK(cudaFree(p));
	printf("taken=%zu\nallocate-us=%.2f\n", taken,
	       took * 1e6 / (double)blocks.size());
}

static double pair(size_t size, int times)
{
	std::vector<double> took;
	void *p;

	for (int i = 0; i < times + 10; i++) {
		double from = prog_now();

		CK(cudaMalloc(&p, size));
		CK(cudaFree(p));
		if (i >= 10)
			took.push_back(prog_now() - from);
	}
	std::sort(took.begin(), took.end());
	return took[took.size() / 2] * 1e6;
}

static void pairs(void)
{
	printf("4KiB-us=%.2f\n", pair(4096, 2000));
	printf("1MiB-us=%.2f\n", pair(MIB, 1000));
	printf("256MiB-us=%.2f\n", pair(256 * MIB, 200));
}

/* Hundreds at a time, as one is shorter than the clock is good for. */
static double stream_pair(size_t size, cudaStream_t from, cudaStream_t to)
{
	std::vector<double> took;
	void *p;

	for (int turn = -3; turn < 60; turn++) {
		double start = prog_now();

		for (int i = 0; i < 200; i++) {
			CK(cudaMallocAsync(&p, size, from));
			CK(cudaFreeAsync(p, to));
		}
		if (turn >= 0)
			took.push_back((prog_now() - start) / 200);
		CK(cudaDeviceSynchronize());
	}
	std::sort(took.begin(), took.end());
	return took[took.size() / 2] * 1e6;
}

static void stream_pairs(const char *pool, cudaStream_t a, cudaStream_t b)
{
	static const struct {
		const char *name;
		size_t size;
	} sizes[] = {
		{ "4KiB", 4096 }, { "1MiB", MIB }, { "64MiB", 64 * MIB },
	};

	for (const auto &s : sizes) {
		printf("%s-same-%s-us=%.3f\n", pool, s.name,
		       stream_pair(s.size, a, a));
		printf("%s-cross-%s-us=%.3f\n", pool, s.name,
		       stream_pair(s.size, a, b));
	}
}

static void stream(void)
{
	unsigned long long most = ~0ull;
	cudaStream_t a, b;
	cudaMemPool_t pool;

	CK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	CK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	CK(cudaDeviceGetDefaultMemPool(&pool, 0));
	stream_pairs("default", a, b);
	CK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
				   &most));
	stream_pairs("keeping", a, b);
}

static void usable(void)
{
	size_t steps = 0;
	void *p;

	while (cudaMalloc(&p, 64 * MIB) == cudaSuccess)
		steps++;
	printf("usable=%zu\n", steps * 64 * MIB);
}

static __global__ void nothing(void)
{
}

/* Thousands at a time; what disturbs the machine spoils some of them, so the
 * lower quartile is what one launch costs. */
static void launches(void)
{
	long turns = prog_env("LAUNCHES", 1000000) / 1000;
	std::vector<double> took((size_t)turns);
	cudaStream_t stream;

	CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (long turn = -20; turn < turns; turn++) {
		double from = prog_now();

		for (int i = 0; i < 1000; i++)
			nothing<<<1, 32, 0, stream>>>();
		CK(cudaStreamSynchronize(stream));
		if (turn >= 0)
			took[(size_t)turn] = prog_now() - from;
	}
	std::sort(took.begin(), took.end());
	printf("launch-ns=%.2f\n", took[(size_t)turns / 4] * 1e6);
	CK(cudaGetLastError());
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "small", small },
		{ "pairs", pairs },
		{ "stream", stream },
		{ "usable", usable },
		{ "launches", launches },
	};

	for (const auto &mode : modes) {
		void *p;

		if (argc != 2 || strcmp(argv[1], mode.name))
			continue;
		CK(cudaMalloc(&p, 4096));
		CK(cudaMemset(p, 0, 4096));
		CK(cudaDeviceSynchronize());
		mode.run();
		return 0;
	}
	fprintf(stderr, "usage: alloc small|pairs|stream|usable|launches\n");
	return 2;
}
