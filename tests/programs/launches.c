/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launches - "launches launch|copy NUMBER" makes that many calls of
 * cuLaunchKernel or cuMemcpyHtoDAsync, in a function that can be measured
 * alone: no stream starts work meanwhile.
 */
#include "drv.h"
#include "sim.h"

#define BATCH 64

static CUdeviceptr block;
static uint32_t word = 1;

static CUresult one_launch(void)
{
	uint64_t words = 1;
	uint32_t value = 1;
	void *args[] = { &block, &words, &value };

	return cuLaunchKernel(drv.fill, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

static CUresult one_copy(void)
{
	return cuMemcpyHtoDAsync(block, &word, sizeof(word), NULL);
}

__attribute__((noinline)) static void measured(CUresult (*call)(void), long n)
{
	while (n--)
		CK(call());
}

int main(int argc, char **argv)
{
	CUresult (*call)(void) = one_launch;
	long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

	if (n <= 0)
		return 2;
	if (!strcmp(argv[1], "copy"))
		call = one_copy;
	drv_open();
	CK(cuMemAlloc(&block, MIB));
	/* What only the first call of a thread does is not measured. */
	CK(call());
	CK(cuCtxSynchronize());
	for (; n > 0; n -= BATCH) {
		sim_hold(1);
		measured(call, n < BATCH ? n : BATCH);
		sim_hold(0);
		CK(cuCtxSynchronize());
	}
	CK(cuMemFree(block));
	CK(cuMemFree(drv.bad));
	return 0;
}
