/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/managed.h"
#include "memory/unmanaged.h"

static CUresult given(CUresult rc, const CUdeviceptr *address, size_t size)
{
	if (rc || !vs_gate_mine())
		return rc;
	vs_unmanaged_add(VS_UNMANAGED_MANAGED, *address, size);
	vs_managed_add(*address, size);
	return rc;
}

VS_INSIDE(cuMemAllocManaged,
	  (CUdeviceptr *dptr, size_t bytesize, unsigned int flags),
	  given(VS_REAL(cuMemAllocManaged, (dptr, bytesize, flags)), dptr,
		bytesize))

static CUresult advised(CUresult rc, CUdeviceptr address, size_t size,
			CUmem_advise advice)
{
	if (!rc && advice == CU_MEM_ADVISE_SET_READ_MOSTLY && vs_gate_mine())
		vs_managed_read_mostly(address, size);
	return rc;
}

VS_INSIDE(cuMemAdvise,
	  (CUdeviceptr devPtr, size_t count, CUmem_advise advice,
	   CUdevice device),
	  advised(VS_REAL(cuMemAdvise, (devPtr, count, advice, device)),
		  devPtr, count, advice))

VS_INSIDE(cuMemAdvise_v2,
	  (CUdeviceptr devPtr, size_t count, CUmem_advise advice,
	   CUmemLocation location),
	  advised(VS_REAL(cuMemAdvise_v2, (devPtr, count, advice, location)),
		  devPtr, count, advice))
