/* SPDX-License-Identifier: Apache-2.0 */
/* Stream captures, and what breaks them. */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;

bool sim_ends_set(struct sim_node ***ends, size_t *n,
		  struct sim_node *const *from, size_t n_from)
{
	struct sim_node **copy = calloc(n_from + 1, sizeof(*copy));

	if (!copy)
		return false;
	if (n_from)
		memcpy(copy, from, n_from * sizeof(*copy));
	free(*ends);
	*ends = copy;
	*n = n_from;
	return true;
}

static bool ends_merge(struct sim_line *line, struct sim_node *const *from,
		       size_t n)
{
	struct sim_node **all = calloc(line->n_ends + n + 1, sizeof(*all));
	size_t i, j, n_all = line->n_ends;

	if (!all)
		return false;
	if (n_all)
		memcpy(all, line->ends, n_all * sizeof(*all));
	for (i = 0; i < n; i++) {
		for (j = 0; j < n_all && all[j] != from[i]; j++)
			;
		if (j == n_all)
			all[n_all++] = from[i];
	}
	free(line->ends);
	line->ends = all;
	line->n_ends = n_all;
	return true;
}

/* A potentially unsafe call of this thread, as the toolkit defines it. */
CUresult sim_unsafe(void)
{
	CUstreamCaptureMode mode = sim_tls.mode;
	CUresult rc = CUDA_SUCCESS;
	struct sim_capture *cap;

	if (!captures || mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	for (cap = captures; cap; cap = cap->next) {
		bool mine = cap->owner == sim_tid() &&
			    cap->mode != CU_STREAM_CAPTURE_MODE_RELAXED;

		if (!mine && (mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
			      cap->mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
			continue;
		cap->broken = true;
		rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return rc;
}

/* A call about the whole context: no capture survives it. */
CUresult sim_capture_ctx(struct sim_ctx *ctx)
{
	CUresult rc = CUDA_SUCCESS;
	struct sim_line *l;

	if (!captures)
		return CUDA_SUCCESS;
	for (l = ctx->lines; l; l = l->next)
		if (l->capture) {
			l->capture->broken = true;
			rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return rc;
}

/* A query of or wait for the stream. */
CUresult sim_capture_line(struct sim_line *line)
{
	if (!line->capture)
		return CUDA_SUCCESS;
	if (line->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	line->capture->broken = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Use of the legacy stream, which blocking streams would have to join. */
CUresult sim_capture_implicit(struct sim_line *line)
{
	CUresult rc = CUDA_SUCCESS;
	struct sim_line *l;

	if (!captures || line != line->ctx->legacy)
		return CUDA_SUCCESS;
	for (l = line->ctx->lines; l; l = l->next)
		if (l->capture && l->blocking) {
			l->capture->broken = true;
			rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	return rc;
}

/* Record the operation; its reference goes to the node on success. */
CUresult sim_capture_add(struct sim_line *line, struct sim_op *op)
{
	struct sim_node *node;

	if (line->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	node = sim_graph_add(line->capture->graph, op->type, op, line->ends,
			     line->n_ends);
	if (!node) {
		line->capture->broken = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!sim_ends_set(&line->ends, &line->n_ends, &node, 1))
		line->capture->broken = true;
	return CUDA_SUCCESS;
}

CUresult sim_capture_record(struct sim_line *line, struct sim_event *e)
{
	if (line->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!sim_ends_set(&e->ends, &e->n_ends, line->ends, line->n_ends))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_stamp_put(e->stamp);
	e->stamp = NULL;
	e->captured = true;
	e->capture = line->capture;
	return CUDA_SUCCESS;
}

/* The stream captures, or the event does. */
CUresult sim_capture_wait(struct sim_line *line, struct sim_event *e)
{
	struct sim_capture *cap = line->capture;

	if ((cap && cap->broken) || (e->capture && e->capture->broken))
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!cap) {
		SIM_TRY(sim_capture_implicit(line));
		if (line == line->ctx->legacy) {
			e->capture->broken = true;
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
		if (!sim_ends_set(&line->ends, &line->n_ends, e->ends,
				  e->n_ends))
			return CUDA_ERROR_OUT_OF_MEMORY;
		line->capture = e->capture;
		return CUDA_SUCCESS;
	}
	if (!e->captured && !e->stamp)
		return CUDA_SUCCESS;
	if (e->capture == cap)
		return ends_merge(line, e->ends, e->n_ends) ? CUDA_SUCCESS :
		       CUDA_ERROR_OUT_OF_MEMORY;
	cap->broken = true;
	if (!e->capture)
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	e->capture->broken = true;
	return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

static void line_leaves(struct sim_line *line)
{
	line->capture = NULL;
	line->n_ends = 0;
}

/* Every stream leaves; the graph is the caller's to keep. */
static void finish(struct sim_capture *cap)
{
	struct sim_capture **p = &captures;
	struct sim_ctx *ctx;
	struct sim_line *l;

	for (ctx = sim_ctx_list(); ctx; ctx = ctx->next)
		for (l = ctx->lines; l; l = l->next)
			if (l->capture == cap)
				line_leaves(l);
	sim_capture_event_drop(cap);
	while (*p != cap)
		p = &(*p)->next;
	*p = cap->next;
	free(cap);
}

static void abandon(struct sim_capture *cap)
{
	if (!cap->borrowed)
		sim_graph_free(cap->graph);
	finish(cap);
}

/* The stream goes away. */
void sim_capture_leave(struct sim_line *line)
{
	struct sim_capture *cap = line->capture;

	if (!cap)
		return;
	cap->broken = true;
	line_leaves(line);
	if (cap->origin == line)
		abandon(cap);
}

void sim_capture_forget(struct sim_ctx *ctx)
{
	struct sim_line *l;

	for (l = ctx->lines; l; l = l->next)
		sim_capture_leave(l);
}

static CUresult begin(bool pt, CUstream stream, CUstreamCaptureMode mode,
		      struct sim_graph *into, struct sim_node *const *deps,
		      size_t n)
{
	static unsigned long long last_id;
	struct sim_capture *cap;
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (line == line->ctx->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (line->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	cap = calloc(1, sizeof(*cap));
	if (!cap || !sim_ends_set(&line->ends, &line->n_ends, deps, n))
		goto no_memory;
	cap->graph = into ? into : sim_graph_new();
	if (!cap->graph)
		goto no_memory;
	cap->borrowed = into != NULL;
	cap->id = ++last_id;
	cap->mode = mode;
	cap->owner = sim_tid();
	cap->origin = line;
	cap->next = captures;
	captures = cap;
	line->capture = cap;
	return CUDA_SUCCESS;

no_memory:
	free(cap);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_TWINS(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream),
	  begin(pt, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0))
SIM_TWINS(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz,
	  (CUstream stream, CUstreamCaptureMode mode),
	  begin(pt, stream, mode, NULL, NULL, 0))

static CUresult begin_to_graph(bool pt, CUstream stream, CUgraph graph,
			       const CUgraphNode *deps, size_t n,
			       CUstreamCaptureMode mode)
{
	struct sim_graph *g = sim_handle_get(SIM_KEY(graph), SIM_GRAPH);

	if (!g || (n && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	return begin(pt, stream, mode, g, (struct sim_node *const *)deps, n);
}

SIM_TWINS(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
	  (CUstream stream, CUgraph graph, const CUgraphNode *deps,
	   const CUgraphEdgeData *edges SIM_UNUSED, size_t n,
	   CUstreamCaptureMode mode),
	  begin_to_graph(pt, stream, graph, deps, n, mode))

static void mark(struct sim_node *const *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!from[i]->placed) {
			from[i]->placed = true;
			mark(from[i]->deps, from[i]->n_deps);
		}
}

/* All that any stream did is behind what the first one would do next. */
static bool all_joined(struct sim_capture *cap)
{
	struct sim_graph *g = cap->graph;
	struct sim_ctx *ctx;
	struct sim_line *l;
	size_t i;

	for (i = 0; i < g->n_nodes; i++)
		g->nodes[i]->placed = false;
	mark(cap->origin->ends, cap->origin->n_ends);
	for (ctx = sim_ctx_list(); ctx; ctx = ctx->next)
		for (l = ctx->lines; l; l = l->next)
			for (i = 0; l->capture == cap && i < l->n_ends; i++)
				if (!l->ends[i]->placed)
					return false;
	return true;
}

static CUresult end(bool pt, CUstream stream, CUgraph *out)
{
	struct sim_capture *cap;
	struct sim_line *line;
	CUresult rc = CUDA_SUCCESS;

	SIM_TRY(sim_line_get(stream, pt, &line));
	cap = line->capture;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	if (!cap)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (cap->origin != line) {
		cap->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (cap->owner != sim_tid() &&
	    cap->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (cap->broken)
		rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(cap))
		rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (rc != CUDA_SUCCESS) {
		abandon(cap);
		return rc;
	}
	*out = (CUgraph)cap->graph;
	finish(cap);
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamEndCapture, cuStreamEndCapture_ptsz,
	  (CUstream stream, CUgraph *out), end(pt, stream, out))

struct info {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *n_deps;
};

/* Asks only; unlike a query of the stream it breaks nothing. */
static CUresult info(bool pt, CUstream stream, const struct info *i)
{
	struct sim_line *line, *l;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!i->status)
		return CUDA_ERROR_INVALID_VALUE;
	if (line == line->ctx->legacy)
		for (l = line->ctx->lines; l; l = l->next)
			if (l->capture && l->blocking)
				return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*i->status = !line->capture ? CU_STREAM_CAPTURE_STATUS_NONE :
		     line->capture->broken ?
		     CU_STREAM_CAPTURE_STATUS_INVALIDATED :
		     CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (*i->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (i->id)
		*i->id = line->capture->id;
	if (i->graph)
		*i->graph = (CUgraph)line->capture->graph;
	if (i->deps)
		*i->deps = (const CUgraphNode *)line->ends;
	if (i->edges)
		*i->edges = NULL;
	if (i->n_deps)
		*i->n_deps = line->n_ends;
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamIsCapturing, cuStreamIsCapturing_ptsz,
	  (CUstream stream, CUstreamCaptureStatus *status),
	  info(pt, stream, &(struct info){ .status = status }))
SIM_TWINS(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
	  (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
	  info(pt, stream, &(struct info){ .status = status, .id = id }))
SIM_TWINS(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
	  (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	   CUgraph *graph, const CUgraphNode **deps, size_t *n),
	  info(pt, stream, &(struct info){ status, id, graph, deps, NULL, n }))
SIM_TWINS(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
	  (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	   CUgraph *graph, const CUgraphNode **deps,
	   const CUgraphEdgeData **edges, size_t *n),
	  info(pt, stream, &(struct info){ status, id, graph, deps, edges, n }))

static CUresult update(bool pt, CUstream stream, CUgraphNode *deps, size_t n,
		       unsigned flags)
{
	struct sim_node *const *nodes = (struct sim_node *const *)deps;
	struct sim_line *line;
	bool ok;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!line->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (line->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	ok = flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ?
	     sim_ends_set(&line->ends, &line->n_ends, nodes, n) :
	     ends_merge(line, nodes, n);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_TWINS(cuStreamUpdateCaptureDependencies,
	  cuStreamUpdateCaptureDependencies_ptsz,
	  (CUstream stream, CUgraphNode *deps, size_t n, unsigned int flags),
	  update(pt, stream, deps, n, flags))
SIM_TWINS(cuStreamUpdateCaptureDependencies_v2,
	  cuStreamUpdateCaptureDependencies_v2_ptsz,
	  (CUstream stream, CUgraphNode *deps,
	   const CUgraphEdgeData *edges SIM_UNUSED, size_t n,
	   unsigned int flags),
	  update(pt, stream, deps, n, flags))

SIM_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))
{
	CUstreamCaptureMode old = sim_tls.mode;

	SIM_ENTER(cuThreadExchangeStreamCaptureMode);
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_tls.mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
