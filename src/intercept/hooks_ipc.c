/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/query.h"

VS_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuIpcGetMemHandle, (handle, dptr));
	return vs_query_ipc_handle(handle, dptr);
}
