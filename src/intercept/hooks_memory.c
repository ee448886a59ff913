/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/allocator.h"
#include "memory/query.h"

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
