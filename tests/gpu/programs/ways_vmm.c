/* SPDX-License-Identifier: Apache-2.0 */
/* ways_vmm - memory that the program maps itself. */
#include "ways.h"

#define GROW 16			/* maps of the growing pool */
#define SPACE (32 * GIB)

static CUmemGenericAllocationHandle handles[MAX_BLOCKS];
static CUdeviceptr space, next;

CUmemAllocationProp ways_props(int handle_types)
{
	CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = ways_device },
	};
	int have = 0;

	CK(cuDeviceGetAttribute(&have,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		ways_device));
	if (!have)
		ways_leave("no virtual memory management");
	props.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
	return props;
}

size_t ways_round(size_t size)
{
	CUmemAllocationProp props = ways_props(0);
	size_t unit;

	CK(cuMemGetAllocationGranularity(&unit, &props,
		CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	return (size + unit - 1) / unit * unit;
}

static void allow(CUdeviceptr at, size_t size, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = ways_device },
		.flags = flags,
	};

	CK(cuMemSetAccess(at, size, &access, 1));
}

CUdeviceptr ways_map(CUdeviceptr at, size_t size,
		     CUmemGenericAllocationHandle handle,
		     CUmemAccess_flags flags)
{
	if (!at)
		CK(cuMemAddressReserve(&at, size, 0, 0, 0));
	CK(cuMemMap(at, size, 0, handle, 0));
	allow(at, size, flags);
	return at;
}

static CUmemGenericAllocationHandle create(size_t size)
{
	CUmemAllocationProp props = ways_props(0);
	CUmemGenericAllocationHandle handle;

	CK(cuMemCreate(&handle, size, &props, 0));
	return handle;
}

/* As PyTorch's expandable segments: one large reservation, handles of 20 MiB
 * and of 2 MiB side by side, each kept until it is unmapped. */
static void make_segments(void)
{
	size_t large = ways_round(20 * MIB), small = ways_round(2 * MIB);
	size_t size, at;

	CK(cuMemAddressReserve(&space, SPACE, 0, 0, 0));
	for (at = 0; at < ways_bytes; at += size) {
		size = ways_count % 3 ? large : small;
		handles[ways_count] = create(size);
		ways_hold(ways_map(space + at, size, handles[ways_count],
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE), size);
	}
	next = space + at;
}

/* One goes, and one as large comes where the segment ends. */
static void churn_segments(uint32_t step)
{
	size_t i = step % ways_count;
	struct block *b = &ways_blocks[i];

	CK(cuMemUnmap(b->p, b->size));
	CK(cuMemRelease(handles[i]));
	handles[i] = create(b->size);
	b->p = b->read = ways_map(next, b->size, handles[i],
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	next += b->size;
}

/* As the pool of llama.cpp: the handle is released as soon as it is mapped, and
 * the pool is used across the maps; it never shrinks. */
static void grow(size_t size)
{
	CUmemGenericAllocationHandle handle = create(size);

	ways_map(next, size, handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CK(cuMemRelease(handle));
	next += size;
}

static void make_growing(void)
{
	size_t size = ways_round(ways_bytes / GROW);

	CK(cuMemAddressReserve(&space, SPACE, 0, 0, 0));
	next = space;
	for (int i = 0; i < GROW; i++)
		grow(size);
	ways_hold(space, next - space);
}

static void churn_growing(uint32_t step)
{
	(void)step;
	grow(ways_round(2 * MIB));
	ways_blocks[0].size = next - space;
}

/* One handle at two places, read where it cannot be written; another place
 * where it cannot even be read. */
static void make_aliases(void)
{
	size_t size = ways_round(ways_bytes / 2);

	for (int i = 0; i < 2; i++) {
		CUmemGenericAllocationHandle handle = create(size);
		struct block *b = ways_hold(ways_map(0, size, handle,
			CU_MEM_ACCESS_FLAGS_PROT_READWRITE), size);

		b->read = ways_map(0, size, handle,
				   CU_MEM_ACCESS_FLAGS_PROT_READ);
		ways_map(0, size, handle, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		if (i)
			CK(cuMemRelease(handle));
	}
}

/* Host memory that the device reaches: no byte of the device's. */
static void make_host(void)
{
	CUmemAllocationProp props = ways_props(0);
	CUmemGenericAllocationHandle handle;
	size_t size;
	CUdevice_attribute mapped =
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
	int have = 0;

	CK(cuDeviceGetAttribute(&have, mapped, ways_device));
	if (!have)
		ways_leave("no mapped memory of the host");
	props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	props.location.id = 0;
	CK(cuMemGetAllocationGranularity(&size, &props,
		CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	size = (64 * MIB + size - 1) / size * size;
	CK(cuMemCreate(&handle, size, &props, 0));
	ways_hold(ways_map(0, size, handle,
			   CU_MEM_ACCESS_FLAGS_PROT_READWRITE), size);
}

const struct way ways_vmm[] = {
	{ "vmm-segments", make_segments, churn_segments, NULL, false },
	{ "vmm-growing", make_growing, churn_growing, NULL, false },
	{ "vmm-aliases", make_aliases, NULL, NULL, false },
	{ "vmm-host", make_host, NULL, NULL, false },
	{ NULL, NULL, NULL, NULL, false }
};
