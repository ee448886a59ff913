/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/allocator.h"
#include "memory/foreign_query.h"
#include "memory/foreign_share.h"
#include "memory/query.h"
#include "memory/spare.h"
#include "sleep/watch.h"

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
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuMemFree_v2, (dptr));
	rc = vs_allocator_free(dptr);
	if (vs_spare_unwatched())
		vs_watch_begin();
	return rc;
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
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuMemGetAddressRange_v2, (base, size, dptr));
	if (vs_foreign_range(base, size, dptr, &rc))
		return rc;
	return vs_query_range(base, size, dptr);
}

static CUresult get_attribute(void *data, CUpointer_attribute attribute,
			      CUdeviceptr ptr)
{
	CUresult rc;

	if (vs_foreign_attribute(data, attribute, ptr, &rc))
		return rc;
	return vs_query_attribute(data, attribute, ptr);
}

static CUresult get_attributes(unsigned int count,
			       CUpointer_attribute *attributes, void **data,
			       CUdeviceptr ptr)
{
	CUresult rc;

	if (vs_foreign_attributes(count, attributes, data, ptr, &rc))
		return rc;
	return vs_query_attributes(count, attributes, data, ptr);
}

/* Tokens are of physical pages, so that question waits until there are some;
 * the others do not. */
VS_EXPORT CUresult cuPointerGetAttribute(void *data,
					 CUpointer_attribute attribute,
					 CUdeviceptr ptr)
{
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuPointerGetAttribute, (data, attribute, ptr));
	if (attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return get_attribute(data, attribute, ptr);
	if (!vs_gate_enter("cuPointerGetAttribute"))
		return CUDA_ERROR_DEINITIALIZED;
	rc = get_attribute(data, attribute, ptr);
	vs_gate_leave();
	return rc;
}

VS_EXPORT CUresult cuPointerGetAttributes(unsigned int count,
					  CUpointer_attribute *attributes,
					  void **data, CUdeviceptr ptr)
{
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuPointerGetAttributes,
			       (count, attributes, data, ptr));
	if (!vs_query_has_tokens(count, attributes))
		return get_attributes(count, attributes, data, ptr);
	if (!vs_gate_enter("cuPointerGetAttributes"))
		return CUDA_ERROR_DEINITIALIZED;
	rc = get_attributes(count, attributes, data, ptr);
	vs_gate_leave();
	return rc;
}

VS_EXPORT CUresult cuPointerSetAttribute(const void *value,
					 CUpointer_attribute attribute,
					 CUdeviceptr ptr)
{
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuPointerSetAttribute, (value, attribute, ptr));
	if (vs_foreign_set_attribute(value, attribute, ptr, &rc))
		return rc;
	return vs_query_set_attribute(value, attribute, ptr);
}

static CUresult handle_for_range(void *handle, CUdeviceptr dptr, size_t size,
				 CUmemRangeHandleType type,
				 unsigned long long flags)
{
	CUresult rc;

	if (!vs_gate_mine())
		return VS_REAL(cuMemGetHandleForAddressRange,
			       (handle, dptr, size, type, flags));
	if (vs_foreign_handle_for_range(handle, dptr, size, type, flags, &rc))
		return rc;
	return vs_query_handle_for_range(handle, dptr, size, type, flags);
}

VS_INSIDE(cuMemGetHandleForAddressRange,
	  (void *handle, CUdeviceptr dptr, size_t size,
	   CUmemRangeHandleType type, unsigned long long flags),
	  handle_for_range(handle, dptr, size, type, flags))
