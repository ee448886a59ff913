/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/allocator.h"
#include "memory/query.h"
#include "memory/unmanaged.h"

/* Count what the driver has just given out. */
static CUresult given(CUresult rc, const CUdeviceptr *address, size_t size)
{
	if (!rc && vs_gate_mine())
		vs_unmanaged_add(VS_UNMANAGED_POOL, *address, size);
	return rc;
}

#define ALLOC_ASYNC(sym)						\
	VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize, CUstream hStream), \
		  given(VS_REAL(sym, (dptr, bytesize, hStream)), dptr,	\
			bytesize))
ALLOC_ASYNC(cuMemAllocAsync)
ALLOC_ASYNC(cuMemAllocAsync_ptsz)

#define ALLOC_FROM_POOL(sym)						\
	VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize,		\
			CUmemoryPool pool, CUstream hStream),		\
		  given(VS_REAL(sym, (dptr, bytesize, pool, hStream)),	\
			dptr, bytesize))
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
