/* SPDX-License-Identifier: Apache-2.0 */
/* questions_blocks - a set of blocks, one of each kind of memory there is. */
#ifndef TESTS_QUESTIONS_BLOCKS_H
#define TESTS_QUESTIONS_BLOCKS_H

#include "drv.h"

#define BLOCK_SETS 2
#define IDS 2			/* kinds of them */
#define OK(call) do { CUresult rc_ = (call); if (rc_) return rc_; } while (0)

struct block {
	const char *name;
	CUdeviceptr base;
	size_t size;
	uint64_t first[IDS];	/* when first asked for */
};

enum {
	BYTE, SMALL, PLAIN, ODD, LARGE, PITCHED, POOLED, POOLED_SMALL,
	OWN_POOL, SHARED_POOL, MANAGED, MAPPED, ALIAS, READABLE, NO_ACCESS,
	FIRST_PIECE, GAP, SECOND_PIECE, IMPORTED, ON_HOST, PINNED, REGISTERED,
	FREED_SMALL, FREED_LARGE, FREED_POOLED, UNMAPPED, BLOCKS
};

static const struct block kinds[BLOCKS] = {
	[BYTE] = { "1B", 0, 1, { 0 } },
	[SMALL] = { "5000B", 0, 5000, { 0 } },
	[PLAIN] = { "4MiB", 0, 4 * MIB, { 0 } },
	[ODD] = { "3MiB+3", 0, 3 * MIB + 3, { 0 } },
	[LARGE] = { "40MiB+3", 0, 40 * MIB + 3, { 0 } },
	[PITCHED] = { "pitched", 0, 0, { 0 } },
	[POOLED] = { "pool", 0, 3 * MIB, { 0 } },
	[POOLED_SMALL] = { "pool-small", 0, 700, { 0 } },
	[OWN_POOL] = { "own-pool", 0, 20 * MIB, { 0 } },
	[SHARED_POOL] = { "shared-pool", 0, 3 * MIB, { 0 } },
	[MANAGED] = { "managed", 0, 6 * MIB, { 0 } },
	[MAPPED] = { "mapped", 0, 8 * MIB, { 0 } },
	[ALIAS] = { "alias", 0, 8 * MIB, { 0 } },
	[READABLE] = { "readable", 0, 2 * MIB, { 0 } },
	[NO_ACCESS] = { "no-access", 0, 2 * MIB, { 0 } },
	[FIRST_PIECE] = { "first-piece", 0, 4 * MIB, { 0 } },
	[GAP] = { "gap", 0, 4 * MIB, { 0 } },
	[SECOND_PIECE] = { "second-piece", 0, 2 * MIB, { 0 } },
	[IMPORTED] = { "imported", 0, 2 * MIB, { 0 } },
	[ON_HOST] = { "mapped-on-host", 0, 2 * MIB, { 0 } },
	[PINNED] = { "pinned", 0, 5 * MIB, { 0 } },
	[REGISTERED] = { "registered", 0, 3 * MIB, { 0 } },
	[FREED_SMALL] = { "freed-small", 0, 4096, { 0 } },
	[FREED_LARGE] = { "freed-large", 0, 24 * MIB, { 0 } },
	[FREED_POOLED] = { "freed-pool", 0, 3 * MIB, { 0 } },
	[UNMAPPED] = { "unmapped", 0, 2 * MIB, { 0 } },
};

static char stack_like[65536];
static struct block strangers[] = {
	{ "foreign", 0, sizeof(stack_like), { 0 } },
	{ "null", 0, 4096, { 0 } },
	{ "nonsense", 0x1234, 4096, { 0 } },
};
static struct block opened = { "opened", 0, 4 * MIB, { 0 } };

static struct block sets[BLOCK_SETS][BLOCKS];
static int set_count;
static CUmemoryPool pools[3];	/* the device's, our own, one to be shared */
static const int posix_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       int types, int location)
{
	CUmemAllocationProp props = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };

	props.location.type = (CUmemLocationType)location;
	props.requestedHandleTypes = (CUmemAllocationHandleType)types;
	return cuMemCreate(handle, size, &props, 0);
}

static CUresult allow(CUdeviceptr at, size_t size, int flags, int location)
{
	CUmemAccessDesc access = { .flags = (CUmemAccess_flags)flags };

	access.location.type = (CUmemLocationType)location;
	return cuMemSetAccess(at, size, &access, 1);
}

/* Into a range of its own, which is twice as large. */
static CUresult map(CUmemGenericAllocationHandle handle, struct block *b,
		    int flags)
{
	OK(cuMemAddressReserve(&b->base, 2 * b->size, 0, 0, 0));
	OK(cuMemMap(b->base, b->size, 0, handle, 0));
	return flags < 0 ? CUDA_SUCCESS :
	       allow(b->base, b->size, flags, CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUresult create_and_map(struct block *b, int flags)
{
	CUmemGenericAllocationHandle handle;

	OK(create(&handle, b->size, 0, CU_MEM_LOCATION_TYPE_DEVICE));
	OK(map(handle, b, flags));
	return cuMemRelease(handle);
}

/* One range, with a hole between two mappings. */
static CUresult make_pieces(struct block *b)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int i;

	OK(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
	for (i = FIRST_PIECE; i <= SECOND_PIECE; i++) {
		b[i].base = at;
		at += b[i].size;
		if (i == GAP)
			continue;
		OK(create(&handle, b[i].size, 0, CU_MEM_LOCATION_TYPE_DEVICE));
		OK(cuMemMap(b[i].base, b[i].size, 0, handle, 0));
		OK(allow(b[i].base, b[i].size, 3,
			 CU_MEM_LOCATION_TYPE_DEVICE));
	}
	return CUDA_SUCCESS;
}

static CUresult make_imported(struct block *b)
{
	CUmemGenericAllocationHandle handle, other;
	int fd;

	OK(create(&handle, b->size, posix_fd, CU_MEM_LOCATION_TYPE_DEVICE));
	OK(cuMemExportToShareableHandle(&fd, handle,
			(CUmemAllocationHandleType)posix_fd, 0));
	OK(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd,
			(CUmemAllocationHandleType)posix_fd));
	close(fd);
	return map(other, b, 3);
}

static CUresult make_mapped(struct block *b)
{
	CUmemGenericAllocationHandle handle;

	OK(create(&handle, b[MAPPED].size, posix_fd,
		  CU_MEM_LOCATION_TYPE_DEVICE));
	OK(map(handle, &b[MAPPED], 3));
	OK(map(handle, &b[ALIAS], 3));
	OK(create_and_map(&b[READABLE], 1));
	OK(create_and_map(&b[NO_ACCESS], -1));
	OK(make_pieces(b));
	OK(make_imported(&b[IMPORTED]));
	OK(create(&handle, b[ON_HOST].size, 0,
		  CU_MEM_LOCATION_TYPE_HOST_NUMA));
	OK(map(handle, &b[ON_HOST], 3));
	return create_and_map(&b[UNMAPPED], 3);
}

static CUresult make_pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };

	if (pools[0])
		return CUDA_SUCCESS;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	OK(cuDeviceGetDefaultMemPool(&pools[0], 0));
	OK(cuMemPoolCreate(&pools[1], &props));
	props.handleTypes = (CUmemAllocationHandleType)posix_fd;
	return cuMemPoolCreate(&pools[2], &props);
}

static CUresult make_pooled(struct block *b)
{
	OK(make_pools());
	OK(cuMemAllocAsync(&b[POOLED].base, b[POOLED].size, NULL));
	OK(cuMemAllocAsync(&b[POOLED_SMALL].base, b[POOLED_SMALL].size, NULL));
	OK(cuMemAllocFromPoolAsync(&b[OWN_POOL].base, b[OWN_POOL].size,
				   pools[1], NULL));
	OK(cuMemAllocFromPoolAsync(&b[SHARED_POOL].base, b[SHARED_POOL].size,
				   pools[2], NULL));
	OK(cuMemAllocAsync(&b[FREED_POOLED].base, b[FREED_POOLED].size, NULL));
	return cuStreamSynchronize(NULL);
}

static CUresult make_host(struct block *pinned, struct block *registered)
{
	void *p;

	OK(cuMemHostAlloc(&p, pinned->size, 0));
	pinned->base = (CUdeviceptr)(uintptr_t)p;
	if (posix_memalign(&p, 4096, registered->size))
		return CUDA_ERROR_OPERATING_SYSTEM;
	registered->base = (CUdeviceptr)(uintptr_t)p;
	return cuMemHostRegister(p, registered->size, 0);
}

static CUresult do_make(void)
{
	struct block *b = sets[set_count];
	size_t pitch;
	int i;

	if (set_count == BLOCK_SETS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(b, kinds, sizeof(kinds));
	for (i = BYTE; i <= LARGE; i++)
		OK(cuMemAlloc(&b[i].base, b[i].size));
	for (i = FREED_SMALL; i <= FREED_LARGE; i++)
		OK(cuMemAlloc(&b[i].base, b[i].size));
	OK(cuMemAllocPitch(&b[PITCHED].base, &pitch, 1000, 3000, 4));
	b[PITCHED].size = pitch * 3000;
	OK(make_pooled(b));
	OK(cuMemAllocManaged(&b[MANAGED].base, b[MANAGED].size,
			     CU_MEM_ATTACH_GLOBAL));
	OK(make_mapped(b));
	set_count++;
	return make_host(&b[PINNED], &b[REGISTERED]);
}

/* Last, so that nobody gets their addresses. */
static CUresult do_drop(void)
{
	struct block *b;

	for (b = sets[0]; b < sets[set_count]; b += BLOCKS) {
		OK(cuMemFree(b[FREED_SMALL].base));
		OK(cuMemFree(b[FREED_LARGE].base));
		OK(cuMemFreeAsync(b[FREED_POOLED].base, NULL));
		OK(cuMemUnmap(b[UNMAPPED].base, b[UNMAPPED].size));
	}
	return cuCtxSynchronize();
}

#endif
