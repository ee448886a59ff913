/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow MIB - the way that vLLM's sleep mode takes, timed.
 *
 * The driver calls of its sleep and wake, block by block: to sleep, pinned host
 * memory, a synchronous copy, unmap, release; to wake, create, map, access, a
 * synchronous copy.  Blocks are those of `hold mix`.  Two wakes: one straight
 * after the release, one half a second after another release.  Giving back the
 * host memory is timed apart.
 */
#include "drv.h"

#define SEED 99

struct block {
	CUdeviceptr p;
	size_t size;
	CUmemGenericAllocationHandle handle;
	void *host;
};

static CUmemAllocationProp prop;
static CUmemAccessDesc access_all;

static void map(struct block *b)
{
	CK(cuMemCreate(&b->handle, b->size, &prop, 0));
	CK(cuMemMap(b->p, b->size, 0, b->handle, 0));
	CK(cuMemSetAccess(b->p, b->size, &access_all, 1));
}

static void unmap(struct block *b)
{
	CK(cuMemUnmap(b->p, b->size));
	CK(cuMemRelease(b->handle));
}

static double put_to_sleep(struct block *b, size_t n)
{
	double from = prog_now();

	for (size_t i = 0; i < n; i++) {
		CK(cuMemHostAlloc(&b[i].host, b[i].size, 0));
		CK(cuMemcpyDtoH(b[i].host, b[i].p, b[i].size));
		unmap(&b[i]);
	}
	return prog_now() - from;
}

static double wake(struct block *b, size_t n)
{
	double from = prog_now();

	for (size_t i = 0; i < n; i++) {
		map(&b[i]);
		CK(cuMemcpyHtoD(b[i].p, b[i].host, b[i].size));
	}
	return prog_now() - from;
}

static double release_host(struct block *b, size_t n)
{
	double from = prog_now();

	for (size_t i = 0; i < n; i++)
		CK(cuMemFreeHost(b[i].host));
	return prog_now() - from;
}

static unsigned long compare(struct block *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		drv_compare(NULL, b[i].p, b[i].size / 4, SEED + (uint32_t)i);
	return (unsigned long)drv_bad();
}

int main(int argc, char **argv)
{
	static const size_t group[] = { 256, 64, 64, 32, 32, 32, 32 };
	size_t n = argc == 2 ? strtoull(argv[1], NULL, 0) / 512 * 7 : 0;
	struct block *b = (struct block *)calloc(n + 1, sizeof(*b));
	double slept, woke, rested;
	unsigned long bad;

	if (!n || !b) {
		fprintf(stderr, "usage: flow MIB\n");
		return 2;
	}
	drv_open();
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = drv.device;
	access_all.location = prop.location;
	access_all.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (size_t i = 0; i < n; i++) {
		b[i].size = group[i % 7] * MIB;
		CK(cuMemAddressReserve(&b[i].p, b[i].size, 0, 0, 0));
		map(&b[i]);
		drv_pattern(NULL, b[i].p, b[i].size / 4, SEED + (uint32_t)i);
	}
	CK(cuCtxSynchronize());
	slept = put_to_sleep(b, n);
	woke = wake(b, n);
	bad = compare(b, n);
	for (size_t i = 0; i < n; i++)
		unmap(&b[i]);
	usleep(500000);
	rested = wake(b, n);
	bad += compare(b, n);
	printf("sleep=%.4f\nwake=%.4f\nrested=%.4f\nrelease=%.4f\nbad=%lu\n",
	       slept, woke, rested, release_host(b, n), bad);
	return bad != 0;
}
