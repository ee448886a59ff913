/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/pipeline.h"
#include "base/driver.h"

#include <stdatomic.h>

/*
 * An event follows every WINDOW bytes, and the one before it is waited for
 * then, so that the meter tells the truth and the link never idles.  Without
 * spinning: those who pin memory meanwhile would wait for it.
 */
#define WINDOW ((size_t)256 << 20)

static enum vs_status failed(const struct vs_pipeline *p, CUresult rc,
			     struct vs_why *why)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "copies on device %d: %s",
			  p->context->device,
			  vs_driver_error(rc, error, sizeof(error)));
}

enum vs_status vs_pipeline_leave(struct vs_pipeline *p, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	CUresult rc;

	if (!p->context)
		return VS_OK;
	rc = vs_real.cuStreamSynchronize(p->stream);
	if (rc) {
		st = failed(p, rc, why);
		vs_driver_settle(p->stream);
	}
	atomic_fetch_add(p->done, p->window + p->queued);
	p->window = p->queued = 0;
	if (p->event)
		vs_real.cuEventDestroy_v2(p->event);
	p->event = NULL;
	vs_context_leave(&p->scope);
	p->context = NULL;
	return st;
}

enum vs_status vs_pipeline_enter(struct vs_pipeline *p,
				 struct vs_context *context,
				 struct vs_why *why)
{
	enum vs_status st;

	if (p->context == context)
		return VS_OK;
	st = vs_pipeline_leave(p, why);
	if (!st)
		st = vs_context_enter(context, &p->scope, why);
	if (st)
		return st;
	st = vs_context_stream(context, &p->stream, why);
	if (st)
		vs_context_leave(&p->scope);
	else
		p->context = context;
	return st;
}

/* The window that is full goes in front of the event. */
static CUresult turn(struct vs_pipeline *p)
{
	CUresult rc = CUDA_SUCCESS;

	if (!p->event)
		rc = vs_real.cuEventCreate(&p->event,
					   CU_EVENT_DISABLE_TIMING |
					   CU_EVENT_BLOCKING_SYNC);
	else
		rc = vs_real.cuEventSynchronize(p->event);
	if (rc)
		return rc;
	atomic_fetch_add(p->done, p->window);
	p->window = p->queued;
	p->queued = 0;
	return vs_real.cuEventRecord(p->event, p->stream);
}

enum vs_status vs_pipeline_queued(struct vs_pipeline *p, size_t size,
				  struct vs_why *why)
{
	CUresult rc;

	p->queued += size;
	if (p->queued < WINDOW)
		return VS_OK;
	rc = turn(p);
	return rc ? failed(p, rc, why) : VS_OK;
}
