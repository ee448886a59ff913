/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thrust - sorting, sums and running sums by Thrust and CUB.
 *
 * Thrust gets and frees temporary memory in every call, CUB works in memory
 * that is sized by asking it.  Whole numbers, so every order of adding gives
 * the same; what was sorted is checked in each of STEPS steps.
 */
#include "rt.cuh"

#include <cub/cub.cuh>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#define COUNT ((size_t)8 << 20)

/* Keys sorted by CUB, into memory of their own; a hash of what moved. */
static unsigned long long sort_pairs(unsigned *keys, unsigned *sorted,
				     unsigned *values, unsigned *moved)
{
	size_t for_sort = 0, for_sum = 0;
	unsigned long long sum;
	unsigned plain, *out;
	void *temp;

	CK(cub::DeviceRadixSort::SortPairs(NULL, for_sort, keys, sorted, values,
					   moved, (int)COUNT));
	CK(cub::DeviceReduce::Sum(NULL, for_sum, moved, (unsigned *)NULL,
				  (int)COUNT));
	CK(cudaMalloc((void **)&out, sizeof(sum)));
	CK(cudaMalloc(&temp, for_sort));
	CK(cub::DeviceRadixSort::SortPairs(temp, for_sort, keys, sorted, values,
					   moved, (int)COUNT));
	CK(cudaFree(temp));
	CK(cudaMalloc(&temp, for_sum));
	CK(cub::DeviceReduce::Sum(temp, for_sum, moved, out, (int)COUNT));
	CK(cudaMemcpy(&plain, out, sizeof(plain), cudaMemcpyDeviceToHost));
	CK(cudaMemset(out, 0, sizeof(sum)));
	rt_sum<<<512, 256>>>(moved, COUNT, (unsigned long long *)out);
	CK(cudaMemcpy(&sum, out, sizeof(sum), cudaMemcpyDeviceToHost));
	CK(cudaFree(temp));
	CK(cudaFree(out));
	return sum * 31 + plain;
}

int main(void)
{
	long steps = prog_env("STEPS", 200), ns = prog_env("SPIN_NS", 15000000);
	thrust::device_vector<unsigned> keys(COUNT), sorted(COUNT);
	thrust::device_vector<unsigned> values(COUNT), moved(COUNT);
	unsigned *k = thrust::raw_pointer_cast(keys.data());
	unsigned *v = thrust::raw_pointer_cast(values.data());
	unsigned long long hash = 0, bad = 0;

	rt_fill<<<512, 256>>>(v, COUNT, 5);
	for (long n = 1; n <= steps; n++) {
		unsigned last;

		rt_spin<<<1, 1>>>((unsigned long long)ns);
		rt_fill<<<512, 256>>>(k, COUNT, (unsigned)n);
		hash = hash * 31 +
			sort_pairs(k, thrust::raw_pointer_cast(sorted.data()),
				   v, thrust::raw_pointer_cast(moved.data()));
		thrust::sort(keys.begin(), keys.end());
		bad += !thrust::equal(keys.begin(), keys.end(),
				      sorted.begin());
		bad += !thrust::is_sorted(keys.begin(), keys.end());
		thrust::inclusive_scan(keys.begin(), keys.end(),
				       sorted.begin());
		last = sorted.back();
		bad += last != thrust::reduce(keys.begin(), keys.end(), 0u);
		hash = hash * 31 + last;
		values.swap(moved);
		v = thrust::raw_pointer_cast(values.data());
		if (n % 25 == 0)
			printf("step %ld hash %016llx bad %llu\n", n, hash,
			       bad);
		prog_step(n);
	}
	printf("done hash %016llx bad %llu\n", hash, bad);
	return bad != 0;
}
