/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: reserve, create, map, set access, and back. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_HANDLE	UINT64_C(0x51a000000000)

static uint64_t last_handle;

static bool multiple(uint64_t n)
{
	return n && n % sim_config.granularity == 0;
}

static CUresult prop_ok(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes &
	    ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	switch ((int)prop->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return sim_dev_ok(prop->location.id) ? CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_DEVICE;
	case 2:		/* host, host NUMA node, the current one */
	case 3:
	case 4:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemGetAllocationGranularity,
	(size_t *out, const CUmemAllocationProp *prop,
	 CUmemAllocationGranularity_flags option))
{
	SIM_ENTER(cuMemGetAllocationGranularity);
	if (!out || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(prop_ok(prop));
	*out = sim_config.granularity;
	return CUDA_SUCCESS;
}

SIM_API(cuMemAddressReserve, (CUdeviceptr *out, size_t size, size_t align,
			      CUdeviceptr hint, unsigned long long flags))
{
	struct sim_reserve *r;

	SIM_ENTER(cuMemAddressReserve);
	if (!out || !multiple(size) || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (align < sim_config.granularity)
		align = sim_config.granularity;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->span.base = sim_space_new(size, align, hint % align ? 0 : hint);
	r->span.len = size;
	if (!r->span.base) {
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_reserve_add(r);
	*out = r->span.base;
	return CUDA_SUCCESS;
}

SIM_API(cuMemAddressFree, (CUdeviceptr p, size_t size))
{
	struct sim_reserve *r;

	SIM_ENTER(cuMemAddressFree);
	r = sim_reserve_at(p, 1);
	if (!r || r->span.base != p || r->span.len != size) {
		sim_bad("cuMemAddressFree of %#llx, %zu bytes: not reserved",
			p, size);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (r->maps) {
		sim_bad("cuMemAddressFree of %#llx, %zu bytes: still mapped",
			p, size);
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_space_free(p, size);
	sim_reserve_drop(r);
	return CUDA_SUCCESS;
}

/* Memory with one reference and no bytes yet. */
struct sim_phys *sim_phys_create(int dev, size_t size,
				 const CUmemAllocationProp *prop)
{
	struct sim_phys *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->handle = FIRST_HANDLE + ++last_handle * 16;
	p->dev = dev;
	p->size = size;
	p->fd = -1;
	p->refs = 1;
	p->prop = *prop;
	sim_handle_add(p->handle, SIM_PHYS, p);
	return p;
}

SIM_API(cuMemCreate, (CUmemGenericAllocationHandle *out, size_t size,
		      const CUmemAllocationProp *prop,
		      unsigned long long flags))
{
	struct sim_phys *p;
	off_t off;
	int dev;

	SIM_ENTER(cuMemCreate);
	if (!out || !multiple(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(prop_ok(prop));
	SIM_TRY(sim_unsafe());
	dev = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
	      prop->location.id : -1;
	if (dev >= 0 && (size_t)dev == sim_config.no_vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	SIM_TRY(sim_take(dev, size));
	off = sim_phys_new(size);
	sim_phys_dirty(off, size);
	p = sim_phys_create(dev, size, prop);
	if (!p) {
		sim_phys_punch(off, size);
		sim_give(dev, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->off = off;
	*out = p->handle;
	return CUDA_SUCCESS;
}

/* The memory goes back once nothing names it any more. */
void sim_phys_settle(struct sim_phys *p)
{
	if (p->refs == 0)
		sim_handle_drop(p->handle);
	if (p->refs || p->maps || sim_shared_busy(p))
		return;
	if (p->shared)
		sim_shared_drop(p);
	if (p->imported) {
		close(p->fd);
	} else {
		sim_phys_punch(p->off, p->size);
		sim_give(p->dev, p->size);
	}
	free(p);
}

static CUresult phys_get(CUmemGenericAllocationHandle handle, const char *who,
			 struct sim_phys **out)
{
	*out = sim_handle_get(handle, SIM_PHYS);
	if (*out)
		return CUDA_SUCCESS;
	sim_bad("%s of handle %#llx that is not alive", who, handle);
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemRelease, (CUmemGenericAllocationHandle handle))
{
	struct sim_phys *p;

	SIM_ENTER(cuMemRelease);
	SIM_TRY(phys_get(handle, "cuMemRelease", &p));
	p->refs--;
	sim_phys_settle(p);
	return CUDA_SUCCESS;
}

SIM_API(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *out,
				      void *addr))
{
	struct sim_range *r;

	SIM_ENTER(cuMemRetainAllocationHandle);
	r = sim_range_at((uintptr_t)addr);
	if (!out || !r || r->kind != SIM_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->phys->refs++ == 0)
		sim_handle_add(r->phys->handle, SIM_PHYS, r->phys);
	*out = r->phys->handle;
	return CUDA_SUCCESS;
}

SIM_API(cuMemGetAllocationPropertiesFromHandle,
	(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle))
{
	struct sim_phys *p;

	SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(phys_get(handle, "properties", &p));
	*prop = p->prop;
	return CUDA_SUCCESS;
}

SIM_API(cuMemMap, (CUdeviceptr at, size_t size, size_t offset,
		   CUmemGenericAllocationHandle handle,
		   unsigned long long flags))
{
	struct sim_reserve *res;
	struct sim_range *r;
	struct sim_phys *p;

	SIM_ENTER(cuMemMap);
	SIM_TRY(phys_get(handle, "cuMemMap", &p));
	res = sim_reserve_at(at, 1);
	if (flags || offset || !multiple(size) || size > p->size ||
	    at % sim_config.granularity || !res ||
	    size > res->span.base + res->span.len - at)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_range_over(at, size)) {
		sim_bad("cuMemMap at %#llx, %zu bytes: already mapped", at,
			size);
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = sim_range_new(at, size, SIM_MAPPED);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->phys = p;
	r->dev = p->dev;
	p->maps++;
	res->maps++;
	return CUDA_SUCCESS;
}

/* The range is made of whole mappings, without a gap. */
static bool whole(CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size;

	if (!size || end < at)
		return false;
	while (at < end) {
		struct sim_range *r = sim_range_at(at);

		if (!r || r->kind != SIM_MAPPED || r->span.base != at)
			return false;
		at += r->span.len;
	}
	return at == end;
}

SIM_API(cuMemUnmap, (CUdeviceptr at, size_t size))
{
	CUdeviceptr end = at + size;

	SIM_ENTER(cuMemUnmap);
	if (!whole(at, size)) {
		sim_bad("cuMemUnmap of %#llx, %zu bytes: not whole mappings",
			at, size);
		return CUDA_ERROR_INVALID_VALUE;
	}
	while (at < end) {
		struct sim_range *r = sim_range_at(at);
		struct sim_phys *p = r->phys;

		sim_space_clear(at, r->span.len);
		sim_reserve_at(at, 1)->maps--;
		at += r->span.len;
		free(r->pieces);
		sim_range_drop(r);
		p->maps--;
		sim_phys_settle(p);
	}
	return CUDA_SUCCESS;
}

static CUresult desc_ok(const CUmemAccessDesc *d, size_t n)
{
	size_t i;

	if (!d || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		unsigned flags = (unsigned)d[i].flags;

		if (flags != 0 && flags != 1 && flags != 3)
			return CUDA_ERROR_INVALID_VALUE;
		if (d[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    !sim_dev_ok(d[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		if ((int)d[i].location.type < 1 || (int)d[i].location.type > 4)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static size_t access_slot(const CUmemLocation *where)
{
	return where->type == CU_MEM_LOCATION_TYPE_DEVICE ?
	       (size_t)where->id : SIM_DEVICES;
}

#define SLOTS (SIM_DEVICES + 1)

static unsigned char *piece(const struct sim_range *r, uintptr_t at)
{
	return r->pieces + (at - r->span.base) / sim_config.granularity *
	       SLOTS;
}

unsigned sim_vmm_access(const struct sim_range *r, size_t slot, uintptr_t at)
{
	return r->pieces ? piece(r, at)[slot] : r->access[slot];
}

/* Pages get what the most favoured of all has. */
static bool apply(struct sim_range *r, uintptr_t at, size_t size)
{
	unsigned access = 0;
	int prot = PROT_NONE;
	size_t i;

	for (i = 0; i < SLOTS; i++)
		access |= sim_vmm_access(r, i, at);
	if (access)
		prot = access & 2 ? PROT_READ | PROT_WRITE : PROT_READ;
	return sim_space_map(at, size, r->phys->fd >= 0 ? r->phys->fd :
			     sim_phys_fd(), r->phys->off +
			     (off_t)(at - r->span.base), prot);
}

/* From now on each granule has rights of its own. */
static bool cut(struct sim_range *r)
{
	size_t count = r->span.len / sim_config.granularity, i;

	if (r->pieces)
		return true;
	r->pieces = malloc(count * SLOTS);
	for (i = 0; r->pieces && i < count; i++)
		memcpy(r->pieces + i * SLOTS, r->access, SLOTS);
	return r->pieces != NULL;
}

static void allow(unsigned char *access, const CUmemAccessDesc *desc,
		  size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		access[access_slot(&desc[i].location)] =
			(unsigned char)desc[i].flags;
}

/* A part of a mapping, or all of it. */
static bool set_part(struct sim_range *r, uintptr_t at, uintptr_t end,
		     const CUmemAccessDesc *desc, size_t count)
{
	size_t step = sim_config.granularity;

	if (!r->pieces && at == r->span.base &&
	    end == at + r->span.len) {
		allow(r->access, desc, count);
		return apply(r, at, r->span.len);
	}
	if (!cut(r))
		return false;
	for (; at < end; at += step) {
		allow(piece(r, at), desc, count);
		if (!apply(r, at, step))
			return false;
	}
	return true;
}

/* The range is mapped without a gap. */
static bool covered(CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size;

	if (!size || end < at || at % sim_config.granularity ||
	    size % sim_config.granularity)
		return false;
	while (at < end) {
		struct sim_range *r = sim_range_at(at);

		if (!r || r->kind != SIM_MAPPED)
			return false;
		at = r->span.base + r->span.len;
	}
	return true;
}

SIM_API(cuMemSetAccess, (CUdeviceptr at, size_t size,
			 const CUmemAccessDesc *desc, size_t count))
{
	CUdeviceptr end = at + size, stop;

	SIM_ENTER(cuMemSetAccess);
	SIM_TRY(desc_ok(desc, count));
	if (!covered(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	while (at < end) {
		struct sim_range *r = sim_range_at(at);

		stop = r->span.base + r->span.len;
		if (!set_part(r, at, stop < end ? stop : end, desc, count))
			return CUDA_ERROR_OUT_OF_MEMORY;
		at = stop;
	}
	return CUDA_SUCCESS;
}

SIM_API(cuMemGetAccess, (unsigned long long *flags,
			 const CUmemLocation *where, CUdeviceptr at))
{
	struct sim_range *r;

	SIM_ENTER(cuMemGetAccess);
	r = sim_range_at(at);
	if (!flags || !where || !r || r->kind != SIM_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    !sim_dev_ok(where->id))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = sim_vmm_access(r, access_slot(where), at);
	return CUDA_SUCCESS;
}

static void drop_phys(void *obj, void *arg)
{
	struct sim_phys *p = obj;

	(void)arg;
	p->refs = 0;
	sim_phys_settle(p);
}

void sim_vmm_reset(void)
{
	struct sim_range *r, *next;

	for (r = sim_ranges; r; r = next) {
		struct sim_phys *p = r->phys;

		next = r->next;
		if (r->kind != SIM_MAPPED)
			continue;
		sim_space_clear(r->span.base, r->span.len);
		free(r->pieces);
		sim_range_drop(r);
		p->maps--;
		sim_phys_settle(p);
	}
	sim_handle_each(SIM_PHYS, drop_phys, NULL);
	sim_reserve_reset();
}
