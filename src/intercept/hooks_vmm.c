/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/query.h"
#include "memory/unmanaged.h"

static bool ours(CUdeviceptr address)
{
	return vs_gate_mine() && vs_query_covers(address);
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
	if (!rc && vs_gate_mine())
		vs_unmanaged_add(VS_UNMANAGED_VMM, *handle, size);
	return rc;
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
