/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/device_wait.h"
#include "memory/capture.h"
#include "base/context.h"
#include "base/driver.h"

static CUresult wait_event(struct vs_context *context, CUevent event,
			   bool *captured)
{
	struct vs_capture_call call;
	char text[96];
	CUresult rc;

	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_PATIENCE,
			     text, sizeof(text))) {
		*captured = true;
		return CUDA_SUCCESS;
	}
	rc = vs_real.cuCtxRecordEvent(context->handle, event);
	vs_capture_called(&call);
	if (!rc)
		rc = vs_real.cuEventQuery(event);
	if (rc == CUDA_ERROR_NOT_READY)
		rc = vs_real.cuEventSynchronize(event);
	return rc;
}

/* Drivers before cuCtxRecordEvent. */
static CUresult synchronize(struct vs_context *context, bool *captured)
{
	struct vs_capture_call call;
	char text[96];
	CUresult rc;

	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_PATIENCE,
			     text, sizeof(text))) {
		*captured = true;
		return CUDA_SUCCESS;
	}
	rc = vs_real.cuCtxSynchronize();
	vs_capture_called(&call);
	return rc;
}

static CUresult wait_context(struct vs_context *context, bool *captured)
{
	struct vs_context_scope scope;
	CUevent event;
	CUresult rc;

	if (vs_context_enter(context, &scope, NULL))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (vs_real.cuCtxRecordEvent) {
		rc = vs_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
		if (!rc) {
			rc = wait_event(context, event, captured);
			vs_real.cuEventDestroy_v2(event);
		}
	} else {
		rc = synchronize(context, captured);
	}
	vs_context_leave(&scope);
	return rc;
}

CUresult vs_device_wait(CUdevice device, CUcontext context, bool *captured)
{
	struct vs_context *contexts[VS_CONTEXT_MAX];
	CUresult rc = CUDA_SUCCESS, one;
	int i, count;

	*captured = false;
	count = vs_context_pin_device(device, contexts, VS_CONTEXT_MAX);
	for (i = 0; i < count; i++) {
		if (!rc && !*captured) {
			one = wait_context(contexts[i], captured);
			if (contexts[i]->handle == context)
				rc = one;
		}
		vs_context_unpin(contexts[i]);
	}
	return rc;
}

CUresult vs_device_wait_context(CUcontext context, bool *captured)
{
	struct vs_context *known = vs_context_pin(context);
	CUresult rc;

	*captured = false;
	if (!known)
		return CUDA_ERROR_INVALID_CONTEXT;
	rc = wait_context(known, captured);
	vs_context_unpin(known);
	return rc;
}
