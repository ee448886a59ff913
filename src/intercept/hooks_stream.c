/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/capture.h"
#include "memory/pool_stream.h"

/* A capture begins inside the gate: once the gate is shut and the set is found
 * empty, none can begin. */
#define BEGIN(sym, params, args, per_thread)				\
static CUresult begin_##sym params					\
{									\
	CUresult rc;							\
									\
	if (!vs_gate_mine())						\
		return VS_REAL(sym, args);				\
	vs_capture_begin_on(stream);					\
	rc = VS_REAL(sym, args);					\
	vs_capture_began(stream, per_thread, rc);			\
	return rc;							\
}									\
VS_INSIDE(sym, params, begin_##sym args)

BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), false)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), true)

BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
      (stream, mode), false)
BEGIN(cuStreamBeginCapture_v2_ptsz,
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode), true)

BEGIN(cuStreamBeginCaptureToGraph,
      (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
       const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
      (stream, graph, dependencies, edges, count, mode), false)
BEGIN(cuStreamBeginCaptureToGraph_ptsz,
      (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
       const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
      (stream, graph, dependencies, edges, count, mode), true)

/* Not gated: a running capture must be able to end. */
static CUresult ended(CUstream stream, bool per_thread, CUresult rc)
{
	if (vs_gate_mine())
		vs_capture_ended(stream, per_thread);
	return rc;
}

VS_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return ended(stream, false,
		     VS_REAL(cuStreamEndCapture, (stream, graph)));
}

VS_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return ended(stream, true,
		     VS_REAL(cuStreamEndCapture_ptsz, (stream, graph)));
}

#define DESTROY(sym)							\
VS_EXPORT CUresult sym(CUstream stream)					\
{									\
	struct vs_capture_entry *capture;				\
	struct vs_pool_stream *known;					\
	CUresult rc;							\
									\
	if (!vs_gate_mine())						\
		return VS_REAL(sym, (stream));				\
	known = vs_pool_stream_leave(stream);				\
	capture = vs_capture_stream_leave(stream);			\
	rc = VS_REAL(sym, (stream));					\
	vs_capture_stream_left(capture, rc);				\
	vs_pool_stream_left(known, rc);					\
	return rc;							\
}
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
