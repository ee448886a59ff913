/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/ipc_export.h"
#include "memory/ipc_import.h"

VS_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	if (!vs_gate_mine())
		return VS_REAL(cuIpcGetMemHandle, (handle, dptr));
	return vs_ipc_get(handle, dptr);
}

/* While the owner sleeps nothing is waited for inside the gate. */
static CUresult open_ours(CUdeviceptr *dptr, const CUipcMemHandle *handle,
			  unsigned int flags)
{
	unsigned tries = 0;
	CUresult rc;

	for (;;) {
		if (!vs_gate_enter("cuIpcOpenMemHandle"))
			return CUDA_ERROR_DEINITIALIZED;
		rc = vs_ipc_open(dptr, handle, flags);
		vs_gate_leave();
		if (rc != CUDA_ERROR_NOT_READY)
			return rc;
		vs_ipc_pause(tries++);
	}
}

static CUresult note_native(CUresult rc)
{
	if (!rc && vs_gate_mine())
		vs_ipc_note_native();
	return rc;
}

VS_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle,
				      unsigned int flags)
{
	if (vs_gate_mine() && vs_ipc_is_ours(&handle))
		return open_ours(dptr, &handle, flags);
	return note_native(VS_REAL(cuIpcOpenMemHandle, (dptr, handle, flags)));
}

VS_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr,
					 CUipcMemHandle handle,
					 unsigned int flags)
{
	if (vs_gate_mine() && vs_ipc_is_ours(&handle))
		return open_ours(dptr, &handle, flags);
	return note_native(VS_REAL(cuIpcOpenMemHandle_v2,
				   (dptr, handle, flags)));
}

VS_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	CUresult rc;

	if (vs_gate_mine() && vs_ipc_close(dptr, &rc))
		return rc;
	return VS_REAL(cuIpcCloseMemHandle, (dptr));
}
