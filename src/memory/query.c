/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/query.h"
#include "memory/ipc_import.h"
#include "memory/pool.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#define NOBODYS ((CUdeviceptr)8)

/* What the driver maps plain allocations in, bytes, and up to which size they
 * share such a page; and what it maps its pools in. */
#define MAPPING_PAGE ((CUdeviceptr)2 << 20)
#define MAPPING_SHARED ((size_t)1 << 20)
#define MAPPING_POOL ((CUdeviceptr)32 << 20)

/* What the program may know of the allocation around an address. */
struct view {
	CUdeviceptr base;
	size_t size;
	uint64_t id;
	CUdevice device;
	CUcontext context;
	CUmemoryPool pool;
	bool pool_lives;
	bool sync_memops;
	bool opened;		/* it is another process's */
	bool resident;		/* and no operation works on it */
};

/*
 * False: not an allocation of ours, and the driver is to be asked; not about
 * free space of ours, though, of which it knows and the program does not, but
 * about an address that nobody can have.
 */
static bool look(CUdeviceptr *address, struct view *out)
{
	struct vs_ipc_view opened;
	struct vs_block *block;
	bool found;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside(*address);
	found = block || vs_ipc_look(*address, &opened);
	if (!found &&
	    (vs_segment_covers(*address) || vs_ipc_covers(*address)))
		*address = NOBODYS;
	if (found && !block)
		*out = (struct view){
			.base = opened.base, .size = opened.size,
			.id = opened.id, .device = opened.device,
			.context = opened.context, .opened = true,
			.sync_memops = opened.sync_memops,
			.resident = opened.mapped,
		};
	if (block) {
		out->base = block->base;
		out->size = block->size;
		out->id = block->id;
		out->device = block->segment->device;
		out->context = block->segment->context;
		out->pool = block->pool ? block->pool->handle : NULL;
		out->pool_lives = block->pool && !block->pool->destroyed;
		out->resident = !block->segment->level &&
				!block->segment->pins;
		out->sync_memops = block->sync_memops;
		out->opened = false;
	}
	vs_lock_drop(&vs_segment_lock);
	return found;
}

bool vs_query_ours(CUdeviceptr address)
{
	struct view view;

	return look(&address, &view);
}

bool vs_query_covers(CUdeviceptr address)
{
	bool yes;

	vs_lock_take(&vs_segment_lock);
	yes = vs_segment_covers(address) || vs_ipc_covers(address);
	vs_lock_drop(&vs_segment_lock);
	return yes;
}

CUresult vs_query_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct view view;

	if (!look(&address, &view))
		return vs_real.cuMemGetAddressRange_v2(base, size, address);
	if (base)
		*base = view.base;
	if (size)
		*size = view.size;
	return CUDA_SUCCESS;
}

/*
 * What we do not know, as whether hardware decompresses into it.  The driver
 * is asked about mapped memory, for which it answers as for plain memory; but
 * it may have gone to sleep since @view, for no question waits at the gate.
 * Asleep it is the value that an attribute has where it does not apply, if the
 * driver knows it.
 */
static CUresult ask(void *data, CUpointer_attribute attribute,
		    CUdeviceptr address, const struct view *view)
{
	struct view now;
	CUresult rc;

	if (view->resident) {
		rc = vs_real.cuPointerGetAttribute(data, attribute, address);
		if (!look(&address, &now) || now.resident)
			return rc;
	}
	return vs_real.cuPointerGetAttributes(1, &attribute, &data, NOBODYS);
}

/* As of the driver's own memory of that kind, as far as is known. */
static bool ipc_capable(const struct view *view)
{
	return view->opened ||
	       (!view->pool && vs_vmm_shareable(view->device));
}

static bool rdma_capable(const struct view *view)
{
	return !view->opened && !view->pool && vs_vmm_rdma(view->device);
}

/* Those of the device whose context is current. */
static CUmemAccess_flags access_flags(const struct view *view)
{
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

	if (view->pool_lives && !vs_real.cuCtxGetDevice(&here.id) &&
	    here.id != view->device)
		vs_real.cuMemPoolGetAccess(&flags, view->pool, &here);
	return flags;
}

/* As of the driver's own memory: a large allocation has pages to itself, one
 * from a pool lies across mappings of one size. */
static CUdeviceptr mapping_base(const struct view *view, CUdeviceptr address)
{
	if (view->pool)
		return address & ~(MAPPING_POOL - 1);
	return view->size > MAPPING_SHARED ? view->base :
	       view->base & ~(MAPPING_PAGE - 1);
}

static size_t mapping_size(const struct view *view, CUdeviceptr address)
{
	CUdeviceptr low = mapping_base(view, address);

	if (view->pool)
		return MAPPING_POOL;
	return (view->base + view->size - low + MAPPING_PAGE - 1) &
	       ~(MAPPING_PAGE - 1);
}

/* What is said in 32 bits; false: it is not. */
static bool narrow(CUpointer_attribute attribute, const struct view *view,
		   unsigned int *out)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*out = view->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*out = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*out = (unsigned int)view->device;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*out = ipc_capable(view);
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = 1;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*out = rdma_capable(view);
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*out = access_flags(view);
		return true;
	default:
		return false;
	}
}

static CUresult answer(void *data, CUpointer_attribute attribute,
		       CUdeviceptr address, const struct view *view)
{
	unsigned int value;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = view->context;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = view->id;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = view->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = view->size;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = view->pool;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = mapping_base(view, address);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = mapping_size(view, address);
		break;
	default:
		if (!narrow(attribute, view, &value))
			return ask(data, attribute, address, view);
		*(unsigned int *)data = value;
	}
	return CUDA_SUCCESS;
}

/*
 * From now on the memory stays: somebody may know its physical pages.  A
 * running operation is waited for; one that comes later sees the reason.
 * False when nothing changed.
 */
static bool keep(CUdeviceptr address, const char *reason)
{
	struct vs_block *block;
	bool changed = false;

	vs_lock_take(&vs_segment_lock);
	while ((block = vs_segment_find_inside(address)) &&
	       block->segment->pins)
		vs_segment_wait_change();
	if (block && !block->segment->kept_why) {
		block->segment->kept_why = reason;
		changed = true;
	}
	vs_lock_drop(&vs_segment_lock);
	return block ? changed : vs_ipc_keep(address, reason);
}

static void let_go(CUdeviceptr address)
{
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside(address);
	if (block)
		block->segment->kept_why = NULL;
	vs_lock_drop(&vs_segment_lock);
	if (!block)
		vs_ipc_let_go(address);
}

static CUresult p2p_tokens(void *data, CUdeviceptr address)
{
	bool changed = keep(address, "P2P tokens were asked for");
	CUresult rc;

	rc = vs_real.cuPointerGetAttribute(data,
					   CU_POINTER_ATTRIBUTE_P2P_TOKENS,
					   address);
	if (rc && changed)
		let_go(address);
	return rc;
}

CUresult vs_query_attribute(void *data, CUpointer_attribute attribute,
			    CUdeviceptr address)
{
	struct view view;

	if (!data || !look(&address, &view))
		return vs_real.cuPointerGetAttribute(data, attribute, address);
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return p2p_tokens(data, address);
	return answer(data, attribute, address, &view);
}

bool vs_query_has_tokens(unsigned int count,
			 const CUpointer_attribute *attributes)
{
	unsigned int i;

	for (i = 0; attributes && i < count; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			return true;
	return false;
}

/* The driver takes an address that it does not know for one of the host. */
static CUresult ask_all(unsigned int count, CUpointer_attribute *attributes,
			void **data, CUdeviceptr address, CUdeviceptr asked)
{
	CUresult rc = vs_real.cuPointerGetAttributes(count, attributes, data,
						     asked);
	unsigned int i;

	for (i = 0; !rc && asked != address && i < count; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			*(CUdeviceptr *)data[i] = address;
	return rc;
}

/* In this form what does not apply to the memory is NULL, not an error. */
CUresult vs_query_attributes(unsigned int count,
			     CUpointer_attribute *attributes, void **data,
			     CUdeviceptr address)
{
	CUdeviceptr asked = address;
	struct view view;
	CUresult rc = CUDA_SUCCESS;
	unsigned int i;

	if (!count || !attributes || !data || !look(&asked, &view))
		return ask_all(count, attributes, data, address, asked);
	for (i = 0; !rc && i < count; i++)
		if (!data[i])
			rc = CUDA_ERROR_INVALID_VALUE;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			rc = p2p_tokens(data[i], address);
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			*(void **)data[i] = NULL;
		else
			rc = answer(data[i], attributes[i], address, &view);
	return rc;
}

/* The driver refuses this on mapped memory; synchronous copies are had by
 * the context's flag instead. */
static CUresult set_sync_memops(CUdeviceptr address, bool on)
{
	struct vs_block *block;
	CUresult rc = CUDA_SUCCESS;

	if (on && vs_real.cuCtxSetFlags)
		rc = vs_real.cuCtxSetFlags(CU_CTX_SYNC_MEMOPS);
	if (rc)
		return rc;
	if (on)
		keep(address, "SYNC_MEMOPS was set");
	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside(address);
	if (block)
		block->sync_memops = on;
	vs_lock_drop(&vs_segment_lock);
	return block || vs_ipc_set_sync(address, on) ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult vs_query_set_attribute(const void *value,
				CUpointer_attribute attribute,
				CUdeviceptr address)
{
	if (value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
	    vs_query_ours(address))
		return set_sync_memops(address, *(const unsigned int *)value);
	return vs_real.cuPointerSetAttribute(value, attribute, address);
}

CUresult vs_query_handle_for_range(void *handle, CUdeviceptr address,
				   size_t size, CUmemRangeHandleType type,
				   unsigned long long flags)
{
	bool changed = keep(address, "a dma-buf was made of it");
	CUresult rc;

	rc = vs_real.cuMemGetHandleForAddressRange(handle, address, size, type,
						   flags);
	if (rc && changed)
		let_go(address);
	return rc;
}
