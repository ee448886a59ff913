/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/unmanaged.h"

static CUresult given(CUresult rc, const CUdeviceptr *address, size_t size)
{
	if (!rc && vs_gate_mine())
		vs_unmanaged_add(VS_UNMANAGED_MANAGED, *address, size);
	return rc;
}

VS_INSIDE(cuMemAllocManaged,
	  (CUdeviceptr *dptr, size_t bytesize, unsigned int flags),
	  given(VS_REAL(cuMemAllocManaged, (dptr, bytesize, flags)), dptr,
		bytesize))
