/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/foreign.h"
#include "memory/foreign_query.h"
#include "memory/foreign_share.h"
#include "memory/query.h"

/*
 * The program does not know that its plain memory is mapped in pieces: what
 * works on pieces is refused as it is on plain allocations.
 */
static bool plain(CUdeviceptr address)
{
	return vs_gate_mine() && vs_query_covers(address);
}

#define VS_OURS(ours, sym, args)					\
	(vs_gate_mine() ? (ours) : VS_REAL(sym, args))

VS_INSIDE(cuMemAddressReserve,
	  (CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
	   unsigned long long flags),
	  VS_OURS(vs_foreign_reserve(ptr, size, alignment, addr, flags),
		  cuMemAddressReserve, (ptr, size, alignment, addr, flags)))

VS_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_unreserve(ptr, size), cuMemAddressFree,
		       (ptr, size));
}

VS_INSIDE(cuMemCreate,
	  (CUmemGenericAllocationHandle *handle, size_t size,
	   const CUmemAllocationProp *prop, unsigned long long flags),
	  VS_OURS(vs_foreign_create(handle, size, prop, flags), cuMemCreate,
		  (handle, size, prop, flags)))

VS_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return VS_OURS(vs_foreign_release(handle), cuMemRelease, (handle));
}

VS_EXPORT CUresult cuMemRetainAllocationHandle(
	CUmemGenericAllocationHandle *handle, void *addr)
{
	if (plain((CUdeviceptr)addr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_retain(handle, (CUdeviceptr)addr),
		       cuMemRetainAllocationHandle, (handle, addr));
}

VS_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	return VS_OURS(vs_foreign_properties(prop, handle),
		       cuMemGetAllocationPropertiesFromHandle, (prop, handle));
}

static CUresult map(CUdeviceptr ptr, size_t size, size_t offset,
		    CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_map(ptr, size, offset, handle, flags),
		       cuMemMap, (ptr, size, offset, handle, flags));
}

VS_INSIDE(cuMemMap,
	  (CUdeviceptr ptr, size_t size, size_t offset,
	   CUmemGenericAllocationHandle handle, unsigned long long flags),
	  map(ptr, size, offset, handle, flags))

VS_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_unmap(ptr, size), cuMemUnmap, (ptr, size));
}

static CUresult set_access(CUdeviceptr ptr, size_t size,
			   const CUmemAccessDesc *desc, size_t count)
{
	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_set_access(ptr, size, desc, count),
		       cuMemSetAccess, (ptr, size, desc, count));
}

VS_INSIDE(cuMemSetAccess,
	  (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
	   size_t count),
	  set_access(ptr, size, desc, count))

VS_EXPORT CUresult cuMemGetAccess(unsigned long long *flags,
				  const CUmemLocation *location,
				  CUdeviceptr ptr)
{
	CUresult rc;

	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	if (vs_gate_mine() &&
	    vs_foreign_get_access(flags, location, ptr, &rc))
		return rc;
	return VS_REAL(cuMemGetAccess, (flags, location, ptr));
}

VS_INSIDE(cuMemExportToShareableHandle,
	  (void *out, CUmemGenericAllocationHandle handle,
	   CUmemAllocationHandleType type, unsigned long long flags),
	  VS_OURS(vs_foreign_export(out, handle, type, flags),
		  cuMemExportToShareableHandle, (out, handle, type, flags)))

VS_INSIDE(cuMemImportFromShareableHandle,
	  (CUmemGenericAllocationHandle *handle, void *from,
	   CUmemAllocationHandleType type),
	  VS_OURS(vs_foreign_import(handle, from, type),
		  cuMemImportFromShareableHandle, (handle, from, type)))

VS_INSIDE(cuMulticastBindMem,
	  (CUmemGenericAllocationHandle multicast, size_t multicast_offset,
	   CUmemGenericAllocationHandle handle, size_t offset, size_t size,
	   unsigned long long flags),
	  VS_OURS(vs_foreign_bind(multicast, multicast_offset, handle, offset,
				  size, flags),
		  cuMulticastBindMem,
		  (multicast, multicast_offset, handle, offset, size, flags)))

static CUresult bind_address(CUmemGenericAllocationHandle multicast,
			     size_t offset, CUdeviceptr ptr, size_t size,
			     unsigned long long flags)
{
	if (plain(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return VS_OURS(vs_foreign_bind_address(multicast, offset, ptr, size,
					       flags),
		       cuMulticastBindAddr,
		       (multicast, offset, ptr, size, flags));
}

VS_INSIDE(cuMulticastBindAddr,
	  (CUmemGenericAllocationHandle multicast, size_t offset,
	   CUdeviceptr ptr, size_t size, unsigned long long flags),
	  bind_address(multicast, offset, ptr, size, flags))

#define MAP_ARRAYS(sym)							\
VS_INSIDE(sym,								\
	  (CUarrayMapInfo *list, unsigned int count, CUstream stream),	\
	  VS_OURS(vs_foreign_map_arrays(sym##_real, list, count,	\
					stream),			\
		  sym, (list, count, stream)))

static CUresult cuMemMapArrayAsync_real(CUarrayMapInfo *list,
					unsigned int count, CUstream stream)
{
	return VS_REAL(cuMemMapArrayAsync, (list, count, stream));
}

static CUresult cuMemMapArrayAsync_ptsz_real(CUarrayMapInfo *list,
					     unsigned int count,
					     CUstream stream)
{
	return VS_REAL(cuMemMapArrayAsync_ptsz, (list, count, stream));
}
MAP_ARRAYS(cuMemMapArrayAsync)
MAP_ARRAYS(cuMemMapArrayAsync_ptsz)
