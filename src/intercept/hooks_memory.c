/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/allocator.h"
#include "memory/query.h"
#include "memory/unmanaged.h"

static bool ours(CUdeviceptr address)
{
	return vs_gate_mine() && vs_query_covers(address);
}

/* Count what the driver has just given out. */
static CUresult given(CUresult rc, enum vs_unmanaged_kind kind,
		      const unsigned long long *key, size_t size)
{
	if (!rc && vs_gate_mine())
		vs_unmanaged_add(kind, *key, size);
	return rc;
}

VS_INSIDE(cuMemAlloc_v2, (CUdeviceptr *dptr, size_t bytesize),
	  vs_gate_mine() ? vs_allocator_alloc(dptr, bytesize) :
	  VS_REAL(cuMemAlloc_v2, (dptr, bytesize)))

VS_INSIDE(cuMemAllocPitch_v2,
	  (CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
	   unsigned int element),
	  vs_gate_mine() ?
	  vs_allocator_alloc_pitch(dptr, pitch, width, height, element) :
	  VS_REAL(cuMemAllocPitch_v2, (dptr, pitch, width, height, element)))

VS_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemFree_v2, (dptr));
	return vs_allocator_free(dptr);
}

VS_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemGetInfo_v2, (free, total));
	return vs_allocator_info(free, total);
}

VS_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size,
					   CUdeviceptr dptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemGetAddressRange_v2, (base, size, dptr));
	return vs_query_range(base, size, dptr);
}

VS_EXPORT CUresult cuPointerGetAttribute(void *data,
					 CUpointer_attribute attribute,
					 CUdeviceptr ptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuPointerGetAttribute, (data, attribute, ptr));
	return vs_query_attribute(data, attribute, ptr);
}

VS_EXPORT CUresult cuPointerGetAttributes(unsigned int count,
					  CUpointer_attribute *attributes,
					  void **data, CUdeviceptr ptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuPointerGetAttributes,
			       (count, attributes, data, ptr));
	return vs_query_attributes(count, attributes, data, ptr);
}

VS_EXPORT CUresult cuPointerSetAttribute(const void *value,
					 CUpointer_attribute attribute,
					 CUdeviceptr ptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuPointerSetAttribute, (value, attribute, ptr));
	return vs_query_set_attribute(value, attribute, ptr);
}

VS_INSIDE(cuMemGetHandleForAddressRange,
	  (void *handle, CUdeviceptr dptr, size_t size,
	   CUmemRangeHandleType type, unsigned long long flags),
	  vs_gate_mine() ?
	  vs_query_handle_for_range(handle, dptr, size, type, flags) :
	  VS_REAL(cuMemGetHandleForAddressRange,
		  (handle, dptr, size, type, flags)))

VS_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuIpcGetMemHandle, (handle, dptr));
	return vs_query_ipc_handle(handle, dptr);
}

/*
 * The program does not know that its memory is mapped in pieces: what works
 * on pieces is refused as it is on plain allocations.
 */
VS_EXPORT CUresult cuMemRetainAllocationHandle(
	CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult rc;

	if (ours((CUdeviceptr)addr))
		return CUDA_ERROR_INVALID_VALUE;
	rc = VS_REAL(cuMemRetainAllocationHandle, (handle, addr));
	if (!rc && vs_gate_mine())
		vs_unmanaged_retained(*handle);
	return rc;
}

VS_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult rc;

	if (ours(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	rc = VS_REAL(cuMemUnmap, (ptr, size));
	if (!rc && vs_gate_mine())
		vs_unmanaged_unmapped(ptr, size);
	return rc;
}

VS_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	if (ours(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_REAL(cuMemAddressFree, (ptr, size));
}

VS_EXPORT CUresult cuMemGetAccess(unsigned long long *flags,
				  const CUmemLocation *location,
				  CUdeviceptr ptr)
{
	if (ours(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_REAL(cuMemGetAccess, (flags, location, ptr));
}

VS_INSIDE(cuMemSetAccess,
	  (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
	   size_t count),
	  ours(ptr) ? CUDA_ERROR_INVALID_VALUE :
	  VS_REAL(cuMemSetAccess, (ptr, size, desc, count)))

static CUresult map(CUdeviceptr ptr, size_t size, size_t offset,
		    CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	CUresult rc;

	if (ours(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	rc = VS_REAL(cuMemMap, (ptr, size, offset, handle, flags));
	if (!rc && vs_gate_mine())
		vs_unmanaged_mapped(ptr, handle);
	return rc;
}

VS_INSIDE(cuMemMap,
	  (CUdeviceptr ptr, size_t size, size_t offset,
	   CUmemGenericAllocationHandle handle, unsigned long long flags),
	  map(ptr, size, offset, handle, flags))

VS_INSIDE(cuMulticastBindAddr,
	  (CUmemGenericAllocationHandle multicast, size_t offset,
	   CUdeviceptr ptr, size_t size, unsigned long long flags),
	  ours(ptr) ? CUDA_ERROR_INVALID_VALUE :
	  VS_REAL(cuMulticastBindAddr, (multicast, offset, ptr, size, flags)))

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop,
		       unsigned long long flags)
{
	CUresult rc = VS_REAL(cuMemCreate, (handle, size, prop, flags));

	if (!rc && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return rc;
	return given(rc, VS_UNMANAGED_VMM, handle, size);
}

VS_INSIDE(cuMemCreate,
	  (CUmemGenericAllocationHandle *handle, size_t size,
	   const CUmemAllocationProp *prop, unsigned long long flags),
	  create(handle, size, prop, flags))

VS_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	if (vs_gate_mine())
		vs_unmanaged_released(handle);
	return VS_REAL(cuMemRelease, (handle));
}

VS_INSIDE(cuMemAllocManaged,
	  (CUdeviceptr *dptr, size_t bytesize, unsigned int flags),
	  given(VS_REAL(cuMemAllocManaged, (dptr, bytesize, flags)),
		VS_UNMANAGED_MANAGED, dptr, bytesize))

#define ALLOC_ASYNC(sym)						\
	VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize, CUstream hStream), \
		  given(VS_REAL(sym, (dptr, bytesize, hStream)),	\
			VS_UNMANAGED_POOL, dptr, bytesize))
ALLOC_ASYNC(cuMemAllocAsync)
ALLOC_ASYNC(cuMemAllocAsync_ptsz)

#define ALLOC_FROM_POOL(sym)						\
	VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize,		\
			CUmemoryPool pool, CUstream hStream),		\
		  given(VS_REAL(sym, (dptr, bytesize, pool, hStream)),	\
			VS_UNMANAGED_POOL, dptr, bytesize))
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz)

/* Plain allocations may be freed in a stream's order too.  As all frees it
 * goes through while the program is held. */
#define FREE_ASYNC(sym)							\
VS_EXPORT CUresult sym(CUdeviceptr dptr, CUstream hStream)		\
{									\
	size_t had;							\
	CUresult rc;							\
									\
	if (!vs_gate_mine())						\
		return VS_REAL(sym, (dptr, hStream));			\
	if (vs_query_covers(dptr))					\
		return vs_allocator_free_later(dptr);			\
	had = vs_unmanaged_remove(VS_UNMANAGED_POOL, dptr);		\
	rc = VS_REAL(sym, (dptr, hStream));				\
	if (rc && had)							\
		vs_unmanaged_add(VS_UNMANAGED_POOL, dptr, had);		\
	return rc;							\
}
FREE_ASYNC(cuMemFreeAsync)
FREE_ASYNC(cuMemFreeAsync_ptsz)
