/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/unmanaged.h"

#include <stdint.h>

/* Bytes of one channel; block formats are taken as a byte, their most. */
static size_t channel_size(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
	case CU_AD_FORMAT_UNORM_INT16X1:
	case CU_AD_FORMAT_UNORM_INT16X2:
	case CU_AD_FORMAT_UNORM_INT16X4:
	case CU_AD_FORMAT_SNORM_INT16X1:
	case CU_AD_FORMAT_SNORM_INT16X2:
	case CU_AD_FORMAT_SNORM_INT16X4:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 1;
	}
}

static size_t at_least_one(size_t n)
{
	return n ? n : 1;
}

/* Of any of the descriptors; those of flat arrays have no depth. */
#define FLAT_SIZE(d)							\
	((size_t)(d)->Width * at_least_one((d)->Height) *		\
	 (d)->NumChannels * channel_size((d)->Format))
#define DEEP_SIZE(d)							\
	((d)->Flags & (CUDA_ARRAY3D_SPARSE |				\
		       CUDA_ARRAY3D_DEFERRED_MAPPING) ? 0 :		\
	 FLAT_SIZE(d) * at_least_one((d)->Depth))

static void add(const void *handle, size_t size)
{
	if (vs_gate_mine())
		vs_unmanaged_add(VS_UNMANAGED_ARRAY,
				 (uint64_t)(uintptr_t)handle, size);
}

#define CREATE(sym, descriptor, bytes)					\
static CUresult create_##sym(CUarray *handle, const descriptor *d)	\
{									\
	CUresult rc = VS_REAL(sym, (handle, d));			\
									\
	if (!rc)							\
		add(*handle, bytes(d));					\
	return rc;							\
}									\
VS_INSIDE(sym, (CUarray *handle, const descriptor *d),			\
	  create_##sym(handle, d))

CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, FLAT_SIZE)
CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, FLAT_SIZE)
CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, DEEP_SIZE)
CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, DEEP_SIZE)

/* The smaller levels add up to a third of the first one, at most. */
static CUresult create_mipmapped(CUmipmappedArray *handle,
				 const CUDA_ARRAY3D_DESCRIPTOR *d,
				 unsigned int levels)
{
	CUresult rc = VS_REAL(cuMipmappedArrayCreate, (handle, d, levels));

	if (!rc)
		add(*handle, levels > 1 ? DEEP_SIZE(d) / 3 * 4 : DEEP_SIZE(d));
	return rc;
}

VS_INSIDE(cuMipmappedArrayCreate,
	  (CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d,
	   unsigned int levels),
	  create_mipmapped(handle, d, levels))

#define DESTROY(sym, type)						\
VS_EXPORT CUresult sym(type handle)					\
{									\
	uint64_t key = (uint64_t)(uintptr_t)handle;			\
	size_t had;							\
	CUresult rc;							\
									\
	if (!vs_gate_mine())						\
		return VS_REAL(sym, (handle));				\
	had = vs_unmanaged_remove(VS_UNMANAGED_ARRAY, key);		\
	rc = VS_REAL(sym, (handle));					\
	if (rc && had)							\
		add(handle, had);					\
	return rc;							\
}
DESTROY(cuArrayDestroy, CUarray)
DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)
