/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/mark.h"
#include "memory/capture.h"
#include "base/driver.h"

static enum vs_status failed(struct vs_why *why, CUresult rc, CUdevice device)
{
	char error[96];

	vs_driver_error(rc, error, sizeof(error));
	if (vs_driver_sticky(rc))
		return vs_why_set(why, VS_FAILED, "a context on device %d is "
				  "lost: %s", device, error);
	return vs_why_set(why, VS_CUDA, "device %d does not come to rest: %s",
			  device, error);
}

static enum vs_status make_event(struct vs_context *context, CUevent *event,
				 struct vs_why *why)
{
	struct vs_context_scope scope;
	enum vs_status st;
	CUresult rc;

	st = vs_context_enter(context, &scope, why);
	if (st)
		return st;
	rc = vs_real.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
	vs_context_leave(&scope);
	if (!rc)
		return VS_OK;
	*event = NULL;
	return failed(why, rc, context->device);
}

enum vs_status vs_mark_record(struct vs_context *context, CUevent *event,
			      struct vs_why *why)
{
	struct vs_capture_call call;
	enum vs_status st;
	char text[96];
	CUresult rc;

	st = make_event(context, event, why);
	if (st)
		return st;
	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_PATIENCE,
			     text, sizeof(text)))
		return vs_why_set(why, VS_BUSY, "%s", text);
	rc = vs_real.cuCtxRecordEvent(context->handle, *event);
	vs_capture_called(&call);
	return rc ? failed(why, rc, context->device) : VS_OK;
}

static enum vs_status synchronize(struct vs_context *context,
				  struct vs_why *why)
{
	struct vs_capture_call call;
	char text[96];
	CUresult rc;

	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_ENTRY, text,
			     sizeof(text)))
		return vs_why_set(why, VS_BUSY, "%s", text);
	rc = vs_real.cuCtxSynchronize();
	vs_capture_called(&call);
	return rc ? failed(why, rc, context->device) : VS_OK;
}

enum vs_status vs_mark_synchronize(struct vs_context *context,
				   struct vs_why *why)
{
	struct vs_context_scope scope;
	enum vs_status st;

	st = vs_context_enter(context, &scope, why);
	if (st)
		return st;
	st = synchronize(context, why);
	vs_context_leave(&scope);
	return st;
}

bool vs_mark_ready(const struct vs_context *context, CUevent event,
		   struct vs_why *why)
{
	CUresult rc = vs_real.cuEventQuery(event);

	if (rc == CUDA_ERROR_NOT_READY)
		return false;
	if (rc)
		failed(why, rc, context->device);
	return true;
}
