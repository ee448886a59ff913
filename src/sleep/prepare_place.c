/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/prepare_place.h"
#include "backup/slice.h"
#include "memory/capture.h"
#include "base/driver.h"

static struct vs_prepare_place places[VS_CONTEXT_MAX];

/* Of a context that is gone nothing is left to give back. */
static void close_place(struct vs_prepare_place *place)
{
	struct vs_context *context = vs_context_pin_serial(place->serial);
	struct vs_context_scope scope;

	if (context && !vs_context_enter(context, &scope, NULL)) {
		vs_page_hash_close(place->hash);
		vs_real.cuStreamDestroy_v2(place->stream);
		vs_context_leave(&scope);
	} else {
		vs_page_hash_forget(place->hash);
	}
	if (context)
		vs_context_unpin(context);
	place->serial = 0;
}

static struct vs_prepare_place *free_place(void)
{
	struct vs_context *context;
	struct vs_prepare_place *p, *found = NULL;

	for (p = places; p < places + VS_CONTEXT_MAX; p++) {
		context = p->serial ? vs_context_pin_serial(p->serial) : NULL;
		if (context)
			vs_context_unpin(context);
		else if (p->serial)
			close_place(p);
		if (!p->serial)
			found = p;
	}
	return found;
}

/* With the context current, and no capture. */
static enum vs_status open_place(struct vs_prepare_place *place,
				 struct vs_context *context,
				 struct vs_why *why)
{
	enum vs_status st;
	char error[96];
	CUresult rc;

	rc = vs_real.cuStreamCreate(&place->stream, CU_STREAM_NON_BLOCKING);
	if (rc)
		return vs_why_set(why, VS_CUDA, "stream on device %d: %s",
				  context->device,
				  vs_driver_error(rc, error, sizeof(error)));
	st = vs_page_hash_open(context, VS_SLICE_PAGES, &place->hash, why);
	if (st)
		vs_real.cuStreamDestroy_v2(place->stream);
	else
		place->serial = context->serial;
	return st;
}

enum vs_status vs_prepare_place_find(struct vs_context *context,
				struct vs_prepare_place **out,
				struct vs_why *why)
{
	struct vs_capture_call call;
	enum vs_status st;
	struct vs_prepare_place *p;
	char text[96];

	for (p = places; p < places + VS_CONTEXT_MAX; p++)
		if (p->serial == context->serial)
			break;
	*out = p;
	if (p < places + VS_CONTEXT_MAX)
		return VS_OK;
	*out = p = free_place();
	if (!p)
		return vs_why_set(why, VS_REFUSED, "more than %d contexts",
				  VS_CONTEXT_MAX);
	if (!vs_capture_call(&call, context->handle, VS_CAPTURE_ENTRY, text,
			     sizeof(text)))
		return vs_why_set(why, VS_BUSY, "%s", text);
	st = open_place(p, context, why);
	vs_capture_called(&call);
	return st;
}

void vs_prepare_place_close(void)
{
	struct vs_prepare_place *p;

	for (p = places; p < places + VS_CONTEXT_MAX; p++)
		if (p->serial)
			close_place(p);
}
