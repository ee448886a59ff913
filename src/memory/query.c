/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/query.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdatomic.h>

#define NOBODYS ((CUdeviceptr)8)

/* What the driver maps plain allocations in, bytes. */
#define MAPPING_PAGE ((CUdeviceptr)2 << 20)

/* What the program may know of the allocation around an address. */
struct view {
	CUdeviceptr base;
	size_t size;
	uint64_t id;
	CUdevice device;
	CUcontext context;
	bool sync_memops;
	bool resident;		/* and no operation works on it */
};

static atomic_bool ipc_refused;

/*
 * False: not an allocation of ours, and the driver is to be asked; not about
 * free space of ours, though, of which it knows and the program does not, but
 * about an address that nobody can have.
 */
static bool look(CUdeviceptr *address, struct view *out)
{
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside(*address);
	if (!block && vs_segment_covers(*address))
		*address = NOBODYS;
	if (block) {
		out->base = block->base;
		out->size = block->size;
		out->id = block->id;
		out->device = block->segment->device;
		out->context = block->segment->context;
		out->resident = !block->segment->level &&
				!block->segment->pins;
		out->sync_memops = block->sync_memops;
	}
	vs_lock_drop(&vs_segment_lock);
	return block != NULL;
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
	yes = vs_segment_covers(address);
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

/* What is the same for all plain allocations of a device.  Awake the driver
 * is asked, whose mapped memory answers alike; asleep it knows of none, and it
 * may have gone to sleep since @view: no question waits at the gate. */
static CUresult common(void *data, CUpointer_attribute attribute,
		       CUdeviceptr address, const struct view *view)
{
	struct view now;
	CUresult rc;

	if (view->resident) {
		rc = vs_real.cuPointerGetAttribute(data, attribute, address);
		if (!rc || !look(&address, &now) || now.resident)
			return rc;
	}
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned int *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned int *)data = vs_vmm_rdma(view->device);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult answer(void *data, CUpointer_attribute attribute,
		       CUdeviceptr address, const struct view *view)
{
	CUdeviceptr page = MAPPING_PAGE - 1, low = view->base & ~page;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = view->context;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned int *)data = view->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = view->id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = view->device;
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
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned int *)data =
			CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = low;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = (view->base + view->size - low + page) &
				  ~page;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return common(data, attribute, address, view);
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
	return changed;
}

static void let_go(CUdeviceptr address)
{
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside(address);
	if (block)
		block->segment->kept_why = NULL;
	vs_lock_drop(&vs_segment_lock);
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

/* In this form what does not apply to the memory is NULL, not an error. */
CUresult vs_query_attributes(unsigned int count,
			     CUpointer_attribute *attributes, void **data,
			     CUdeviceptr address)
{
	struct view view;
	CUresult rc = CUDA_SUCCESS;
	unsigned int i;

	if (!count || !attributes || !data || !look(&address, &view))
		return vs_real.cuPointerGetAttributes(count, attributes, data,
						      address);
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
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

CUresult vs_query_ipc_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
	bool ours = vs_query_ours(address);
	CUresult rc = vs_real.cuIpcGetMemHandle(handle, address);

	if (rc && ours && !atomic_exchange(&ipc_refused, true))
		vs_log_warn("CUDA IPC handles of memory that can sleep are "
			    "not supported: start this process with "
			    "VSLEEP_TAG= (empty)");
	return rc;
}

bool vs_query_ipc_refused(void)
{
	return atomic_load(&ipc_refused);
}
