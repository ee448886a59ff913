/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_internal.h"

#include <stdlib.h>

static CUresult stream_create(CUstream *out, unsigned flags, int priority)
{
	struct sim_ctx *ctx;
	struct sim_line *line;

	SIM_TRY(sim_ctx_current(&ctx));
	if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	if (priority > 0)
		priority = 0;
	if (priority < -5)
		priority = -5;
	line = sim_line_new(ctx, flags, priority);
	if (!line)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_handle_add(SIM_KEY(line), SIM_STREAM, line);
	*out = (CUstream)line;
	return CUDA_SUCCESS;
}

SIM_SAME(cuStreamCreate, (CUstream *out, unsigned int flags),
	 stream_create(out, flags, 0))
SIM_SAME(cuStreamCreateWithPriority, (CUstream *out, unsigned int flags,
				      int priority),
	 stream_create(out, flags, priority))

static bool is_default(CUstream handle)
{
	return handle == NULL || handle == CU_STREAM_LEGACY ||
	       handle == CU_STREAM_PER_THREAD;
}

static CUresult stream_destroy(CUstream handle)
{
	struct sim_line *line;

	if (is_default(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	line = sim_handle_get(SIM_KEY(handle), SIM_STREAM);
	if (!line) {
		sim_bad("destroy of stream %p that is not alive",
			(void *)handle);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	sim_handle_drop(SIM_KEY(handle));
	sim_line_destroy(line);
	return CUDA_SUCCESS;
}

SIM_SAME(cuStreamDestroy, (CUstream stream), stream_destroy(stream))
SIM_SAME(cuStreamDestroy_v2, (CUstream stream), stream_destroy(stream))

static CUresult stream_query(bool pt, CUstream stream)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(sim_capture_line(line));
	SIM_TRY(sim_capture_implicit(line));
	return sim_line_idle(line) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_TWINS(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream),
	  stream_query(pt, stream))

static CUresult stream_sync(bool pt, CUstream stream)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(sim_capture_line(line));
	SIM_TRY(sim_capture_implicit(line));
	return sim_line_wait(line);
}

SIM_TWINS(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream),
	  stream_sync(pt, stream))

static CUresult stream_ctx(bool pt, CUstream stream, CUcontext *ctx,
			   CUgreenCtx *green)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = (CUcontext)line->ctx;
	if (green)
		return sim_green_stream(line, green);
	if (line->green && sim_green_of((CUcontext)line->green))
		*ctx = (CUcontext)line->green;
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamGetCtx, cuStreamGetCtx_ptsz,
	  (CUstream stream, CUcontext *ctx), stream_ctx(pt, stream, ctx, NULL))
SIM_TWINS(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz,
	  (CUstream stream, CUcontext *ctx, CUgreenCtx *green),
	  stream_ctx(pt, stream, ctx, green))

/* One body for the queries that only read the stream; that of its id breaks a
 * capture of it. */
enum what { ID, FLAGS, PRIORITY, DEVICE };

static CUresult stream_get(bool pt, CUstream stream, enum what what, void *out)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	switch (what) {
	case ID:
		SIM_TRY(sim_capture_line(line));
		*(unsigned long long *)out = line->id;
		break;
	case FLAGS:
		*(unsigned *)out = line->flags;
		break;
	case PRIORITY:
		*(int *)out = line->priority;
		break;
	case DEVICE:
		*(CUdevice *)out = line->ctx->dev;
		break;
	}
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamGetId, cuStreamGetId_ptsz,
	  (CUstream stream, unsigned long long *id),
	  stream_get(pt, stream, ID, id))
SIM_TWINS(cuStreamGetFlags, cuStreamGetFlags_ptsz,
	  (CUstream stream, unsigned int *flags),
	  stream_get(pt, stream, FLAGS, flags))
SIM_TWINS(cuStreamGetPriority, cuStreamGetPriority_ptsz,
	  (CUstream stream, int *priority),
	  stream_get(pt, stream, PRIORITY, priority))
SIM_TWINS(cuStreamGetDevice, cuStreamGetDevice_ptsz,
	  (CUstream stream, CUdevice *dev),
	  stream_get(pt, stream, DEVICE, dev))

struct call {
	struct sim_op op;
	CUhostFn fn;
	CUstreamCallback callback;
	CUstream stream;
	void *data;
};

static void run_host(struct sim_op *op, struct sim_line *line)
{
	struct call *c = (struct call *)op;

	sim_tls.in_callback = true;
	if (c->fn)
		c->fn(c->data);
	else
		c->callback(c->stream, line->ctx->sticky, c->data);
	sim_tls.in_callback = false;
}

struct sim_op *sim_op_host(CUhostFn fn, void *data)
{
	struct call *c = sim_op_new(sizeof(*c), CU_GRAPH_NODE_TYPE_HOST);

	if (!c)
		return NULL;
	c->fn = fn;
	c->data = data;
	c->op.run = run_host;
	return &c->op;
}

static CUresult host_func(bool pt, CUstream stream, CUhostFn fn, void *data)
{
	struct sim_line *line;
	struct sim_op *op;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	op = sim_op_host(fn, data);
	return op ? sim_submit(line, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_TWINS(cuLaunchHostFunc, cuLaunchHostFunc_ptsz,
	  (CUstream stream, CUhostFn fn, void *data),
	  host_func(pt, stream, fn, data))

static CUresult add_callback(bool pt, CUstream stream, CUstreamCallback fn,
			     void *data, unsigned flags)
{
	struct sim_line *line;
	struct call *c;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!fn || flags)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_line(line));
	c = (struct call *)sim_op_host(NULL, data);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->callback = fn;
	c->stream = stream;
	c->op.host = true;
	return sim_submit(line, &c->op);
}

SIM_TWINS(cuStreamAddCallback, cuStreamAddCallback_ptsz,
	  (CUstream stream, CUstreamCallback fn, void *data,
	   unsigned int flags),
	  add_callback(pt, stream, fn, data, flags))

static CUresult attach(bool pt, CUstream stream, CUdeviceptr p)
{
	struct sim_range *r = sim_range_at(p);
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	return r && r->kind == SIM_MANAGED ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
	  (CUstream stream, CUdeviceptr p,
	   size_t len __attribute__((unused)),
	   unsigned int flags __attribute__((unused))),
	  attach(pt, stream, p))
