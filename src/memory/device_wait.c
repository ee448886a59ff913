/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/device_wait.h"
#include "memory/capture.h"
#include "base/context.h"
#include "base/driver.h"

static bool is_current(CUcontext context)
{
	CUcontext current;

	return !vs_real.cuCtxGetCurrent(&current) && current == context;
}

static CUresult synchronize(struct vs_context *context)
{
	struct vs_context_scope scope;
	CUresult rc;

	if (is_current(context->handle))
		return vs_real.cuCtxSynchronize();
	if (vs_context_enter(context, &scope, NULL))
		return CUDA_ERROR_INVALID_CONTEXT;
	rc = vs_real.cuCtxSynchronize();
	vs_context_leave(&scope);
	return rc;
}

/*
 * To synchronise an idle context takes a tenth of the time that an event of it
 * takes, and no room in a launch queue.  It looks for captures when it begins,
 * so those that come later need not wait for its end.
 */
static CUresult wait_context(struct vs_context *context, bool *captured)
{
	struct vs_capture_call call;
	char text[96];
	CUresult rc;

	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_ENTRY, text,
			     sizeof(text))) {
		*captured = true;
		return CUDA_SUCCESS;
	}
	rc = synchronize(context);
	vs_capture_called(&call);
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
