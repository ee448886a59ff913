/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_graph.h"

#include <stdlib.h>

struct record {
	struct sim_op op;
	struct sim_stamp *stamp;
};

static struct sim_stamp *stamp_new(void)
{
	struct sim_stamp *s = calloc(1, sizeof(*s));

	if (s)
		s->refs = 1;
	return s;
}

void sim_stamp_put(struct sim_stamp *s)
{
	if (s && --s->refs == 0)
		free(s);
}

static void drop_stamp(struct sim_op *op)
{
	sim_stamp_put(((struct record *)op)->stamp);
}

static void stamp_done(struct sim_op *op, struct sim_line *line)
{
	struct sim_stamp *s = ((struct record *)op)->stamp;

	(void)line;
	if (s->pending && --s->pending == 0)
		s->ns = sim_now();
}

static bool stamp_ready(struct sim_op *op)
{
	return ((struct record *)op)->stamp->pending == 0;
}

static struct sim_op *stamp_op(struct sim_stamp *s, CUgraphNodeType type)
{
	struct record *r = sim_op_new(sizeof(*r), type);

	if (!r)
		return NULL;
	s->refs++;
	r->stamp = s;
	r->op.drop = drop_stamp;
	return &r->op;
}

static struct sim_op *op_record(struct sim_stamp *s)
{
	struct sim_op *op = stamp_op(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD);

	if (op)
		op->done = stamp_done;
	return op;
}

static struct sim_op *op_wait(struct sim_stamp *s)
{
	struct sim_op *op = stamp_op(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT);

	if (op)
		op->ready = stamp_ready;
	return op;
}

/* The driver may hold a context while a call waits for room in a queue. */
static CUresult event_find(CUevent handle, struct sim_event **out)
{
	if (!handle)
		return CUDA_ERROR_INVALID_HANDLE;
	*out = sim_handle_get(SIM_KEY(handle), SIM_EVENT);
	if (!*out) {
		sim_bad("use of event %p that is not alive", (void *)handle);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return CUDA_SUCCESS;
}

static CUresult event_get(CUevent handle, struct sim_event **out)
{
	for (;;) {
		SIM_TRY(event_find(handle, out));
		if (!(*out)->ctx->crowded)
			return CUDA_SUCCESS;
		sim_wait();
	}
}

SIM_API(cuEventCreate, (CUevent *out, unsigned int flags))
{
	const unsigned known = CU_EVENT_BLOCKING_SYNC |
		CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct sim_ctx *ctx;
	struct sim_event *e;

	SIM_ENTER(cuEventCreate);
	SIM_TRY(sim_ctx_current(&ctx));
	while (ctx->crowded) {
		sim_wait();
		SIM_TRY(sim_ctx_current(&ctx));
	}
	if (!out || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->ctx = ctx;
	e->flags = flags;
	sim_handle_add(SIM_KEY(e), SIM_EVENT, e);
	*out = (CUevent)e;
	return CUDA_SUCCESS;
}

static void free_event(struct sim_event *e)
{
	sim_handle_drop(SIM_KEY(e));
	sim_stamp_put(e->stamp);
	free(e->ends);
	free(e);
}

static CUresult event_destroy(CUevent handle)
{
	struct sim_event *e;

	SIM_TRY(event_get(handle, &e));
	free_event(e);
	return CUDA_SUCCESS;
}

SIM_SAME(cuEventDestroy, (CUevent event), event_destroy(event))
SIM_SAME(cuEventDestroy_v2, (CUevent event), event_destroy(event))

static void forget_one(void *obj, void *ctx)
{
	struct sim_event *e = obj;

	if (e->ctx == ctx)
		free_event(e);
}

void sim_event_forget(struct sim_ctx *ctx)
{
	sim_handle_each(SIM_EVENT, forget_one, ctx);
}

static void capture_ended(void *obj, void *cap)
{
	struct sim_event *e = obj;

	if (e->capture != cap)
		return;
	e->capture = NULL;
	free(e->ends);
	e->ends = NULL;
	e->n_ends = 0;
}

void sim_capture_event_drop(struct sim_capture *cap)
{
	sim_handle_each(SIM_EVENT, capture_ended, cap);
}

/* The event is about something new from here on. */
static CUresult restart(struct sim_event *e)
{
	struct sim_stamp *s = stamp_new();

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_stamp_put(e->stamp);
	e->stamp = s;
	e->captured = false;
	capture_ended(e, e->capture);
	return CUDA_SUCCESS;
}

static CUresult event_record(bool pt, CUevent handle, CUstream stream,
			     unsigned flags)
{
	struct sim_event *e;
	struct sim_line *line;
	struct sim_op *op;

	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(event_get(handle, &e));
	SIM_TRY(sim_line_get(stream, pt, &line));
	if (e->ctx != line->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (line->capture)
		return sim_capture_record(line, e);
	if (!sim_line_room(line))
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(event_find(handle, &e));
	SIM_TRY(sim_capture_implicit(line));
	SIM_TRY(restart(e));
	op = op_record(e->stamp);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->stamp->pending = 1;
	sim_queue(line, op);
	return CUDA_SUCCESS;
}

SIM_TWINS(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream),
	  event_record(pt, event, stream, 0))
SIM_TWINS(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
	  (CUevent event, CUstream stream, unsigned int flags),
	  event_record(pt, event, stream, flags))

/* A capture that begins while it waits for room is broken as any other. */
static CUresult record_busy(struct sim_ctx *ctx, struct sim_stamp *stamp)
{
	unsigned long long round = sim_line_mark_busy(ctx);
	struct sim_line *l;
	struct sim_op *op;

	while ((l = sim_line_busy(ctx, round))) {
		if (!sim_line_room(l))
			continue;
		SIM_TRY(sim_capture_ctx(ctx));
		op = l->head ? op_record(stamp) : NULL;
		if (!op)
			continue;
		stamp->pending++;
		sim_queue(l, op);
	}
	return CUDA_SUCCESS;
}

SIM_API(cuCtxRecordEvent, (CUcontext handle, CUevent event))
{
	struct sim_stamp *stamp;
	struct sim_ctx *ctx;
	struct sim_event *e;
	CUresult rc;

	SIM_ENTER(cuCtxRecordEvent);
	SIM_TRY(sim_ctx_get(handle, &ctx));
	SIM_TRY(ctx->sticky);
	SIM_TRY(event_get(event, &e));
	if (e->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(sim_capture_ctx(ctx));
	SIM_TRY(restart(e));
	stamp = e->stamp;
	stamp->refs++;
	stamp->pending = 1;	/* this call */
	rc = record_busy(ctx, stamp);
	if (--stamp->pending == 0) {
		stamp->ns = sim_now();
		sim_wake();
	}
	sim_stamp_put(stamp);
	return rc;
}

static CUresult wait_for(struct sim_line *line, struct sim_event *e)
{
	struct sim_op *op;

	if (line->capture)
		return sim_capture_wait(line, e);
	if (e->captured) {
		if (e->capture)
			return sim_capture_wait(line, e);
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	SIM_TRY(sim_capture_implicit(line));
	if (!e->stamp || e->stamp->pending == 0)
		return CUDA_SUCCESS;
	op = op_wait(e->stamp);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!sim_line_room(line)) {
		sim_op_put(op);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	sim_queue(line, op);
	return CUDA_SUCCESS;
}

static CUresult stream_wait_event(bool pt, CUstream stream, CUevent event,
				  unsigned flags)
{
	struct sim_line *line;
	struct sim_event *e;

	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(event_get(event, &e));
	SIM_TRY(sim_line_get(stream, pt, &line));
	return wait_for(line, e);
}

SIM_TWINS(cuStreamWaitEvent, cuStreamWaitEvent_ptsz,
	  (CUstream stream, CUevent event, unsigned int flags),
	  stream_wait_event(pt, stream, event, flags))

SIM_API(cuCtxWaitEvent, (CUcontext handle, CUevent event))
{
	struct sim_ctx *ctx;
	struct sim_line *l;
	struct sim_event *e;

	SIM_ENTER(cuCtxWaitEvent);
	SIM_TRY(sim_ctx_get(handle, &ctx));
	SIM_TRY(event_get(event, &e));
	SIM_TRY(sim_capture_ctx(ctx));
	if (!sim_line_legacy(ctx))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (l = ctx->lines; l; l = l->next)
		if (!l->destroyed)
			SIM_TRY(wait_for(l, e));
	return CUDA_SUCCESS;
}

SIM_API(cuEventQuery, (CUevent event))
{
	struct sim_event *e;

	SIM_ENTER(cuEventQuery);
	SIM_TRY(event_get(event, &e));
	SIM_TRY(e->ctx->sticky);
	SIM_TRY(sim_unsafe());
	if (e->captured)
		return CUDA_ERROR_CAPTURED_EVENT;
	return e->stamp && e->stamp->pending ? CUDA_ERROR_NOT_READY :
	       CUDA_SUCCESS;
}

SIM_API(cuEventSynchronize, (CUevent event))
{
	struct sim_stamp *s;
	struct sim_event *e;
	struct sim_ctx *ctx;
	CUresult rc;

	SIM_ENTER(cuEventSynchronize);
	SIM_TRY(event_get(event, &e));
	ctx = e->ctx;
	SIM_TRY(ctx->sticky);
	SIM_TRY(sim_unsafe());
	if (e->captured)
		return CUDA_ERROR_CAPTURED_EVENT;
	s = e->stamp;
	if (!s)
		return CUDA_SUCCESS;
	s->refs++;
	ctx->pins++;
	while (s->pending)
		sim_wait();
	rc = ctx->sticky;
	ctx->pins--;
	sim_wake();
	sim_stamp_put(s);
	return rc;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
	struct sim_event *a, *b;

	SIM_TRY(event_get(from, &a));
	SIM_TRY(event_get(to, &b));
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!a->stamp || !b->stamp || a->captured || b->captured ||
	    ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->stamp->pending || b->stamp->pending)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(int64_t)(b->stamp->ns - a->stamp->ns) / 1e6);
	return CUDA_SUCCESS;
}

SIM_SAME(cuEventElapsedTime, (float *ms, CUevent from, CUevent to),
	 elapsed(ms, from, to))
SIM_SAME(cuEventElapsedTime_v2, (float *ms, CUevent from, CUevent to),
	 elapsed(ms, from, to))
