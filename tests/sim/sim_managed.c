/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory, which here never moves, and the profiler's switches. */
#include "sim_internal.h"

#include <string.h>

static CUresult managed(CUdeviceptr p, size_t n)
{
	struct sim_range *r = sim_range_at(p);

	if (!n || !r || r->kind != SIM_MANAGED || r->freeing ||
	    n > r->span.base + r->span.len - p)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_SAME(cuMemAdvise, (CUdeviceptr p, size_t n, CUmem_advise a SIM_UNUSED,
		       CUdevice dev SIM_UNUSED), managed(p, n))
SIM_SAME(cuMemAdvise_v2, (CUdeviceptr p, size_t n, CUmem_advise a SIM_UNUSED,
			  CUmemLocation where SIM_UNUSED), managed(p, n))

static CUresult prefetch(bool pt, CUstream stream, CUdeviceptr p, size_t n)
{
	struct sim_line *line;
	struct sim_op *op;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(managed(p, n));
	op = sim_op_new(sizeof(*op), CU_GRAPH_NODE_TYPE_EMPTY);
	return op ? sim_submit(line, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_TWINS(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
	  (CUdeviceptr p, size_t n, CUdevice dev SIM_UNUSED, CUstream stream),
	  prefetch(pt, stream, p, n))
SIM_TWINS(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
	  (CUdeviceptr p, size_t n, CUmemLocation where SIM_UNUSED,
	   unsigned int flags SIM_UNUSED, CUstream stream),
	  prefetch(pt, stream, p, n))

SIM_API(cuMemRangeGetAttribute, (void *data, size_t size,
				 CUmem_range_attribute a SIM_UNUSED,
				 CUdeviceptr p, size_t n))
{
	SIM_ENTER(cuMemRangeGetAttribute);
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(managed(p, n));
	memset(data, 0, size);
	return CUDA_SUCCESS;
}

SIM_SAME(cuProfilerStart, (void), CUDA_SUCCESS)
SIM_SAME(cuProfilerStop, (void), CUDA_SUCCESS)
