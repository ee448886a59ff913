/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_copy.h"

#include <string.h>
#include <time.h>

#define STAGED_MAX	((size_t)64 << 10)

struct copy {
	struct sim_op op;
	struct sim_copy c;
	unsigned char staged[];
};

static void throttle(size_t bytes, uint64_t since)
{
	uint64_t due = since + (uint64_t)((double)bytes * 1e9 /
		       ((double)sim_config.copy_mibps * (1 << 20)));
	struct timespec ts = { (time_t)(due / 1000000000),
			       (long)(due % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static size_t extent(const struct sim_copy *c, const struct sim_side *s)
{
	return (c->depth - 1) * s->slice + (c->height - 1) * s->pitch +
	       c->width;
}

static void run_copy(struct sim_op *op, struct sim_line *line)
{
	const struct sim_copy *c = &((struct copy *)op)->c;
	uint64_t start = sim_config.copy_mibps ? sim_now() : 0;
	size_t y, z;

	(void)line;
	for (z = 0; z < c->depth; z++)
		for (y = 0; y < c->height; y++)
			memmove((void *)(c->dst.at + z * c->dst.slice +
					 y * c->dst.pitch),
				(void *)(c->src.at + z * c->src.slice +
					 y * c->src.pitch), c->width);
	sim_managed_used(c->dst.at, extent(c, &c->dst));
	sim_managed_used(c->src.at, extent(c, &c->src));
	if (sim_config.copy_mibps)
		throttle(c->width * c->height * c->depth, start);
}

/* staged: the source's bytes are taken now, as of small pageable copies. */
struct sim_op *sim_op_copy(const struct sim_copy *c, bool staged)
{
	size_t n = staged ? c->width : 0;
	struct copy *op = sim_op_new(sizeof(*op) + n,
				     CU_GRAPH_NODE_TYPE_MEMCPY);

	if (!op)
		return NULL;
	op->c = *c;
	op->op.run = run_copy;
	if (staged) {
		memcpy(op->staged, (void *)c->src.at, n);
		op->c.src.at = (uintptr_t)op->staged;
	}
	return &op->op;
}

static CUresult check_side(struct sim_ctx *ctx, const struct sim_copy *c,
			   const struct sim_side *s, bool write,
			   bool *pageable)
{
	size_t n = extent(c, s);

	if (s->ctx)
		ctx = s->ctx;
	*pageable = false;
	if (s->device)
		return sim_check_device(ctx, s->at, n, write);
	return sim_check_any(ctx, s->at, n, write, pageable);
}

CUresult sim_copy_check(struct sim_ctx *ctx, const struct sim_copy *c,
			bool *dst_pageable, bool *src_pageable)
{
	SIM_TRY(check_side(ctx, c, &c->dst, true, dst_pageable));
	return check_side(ctx, c, &c->src, false, src_pageable);
}

CUresult sim_copy(struct sim_line *line, const struct sim_copy *c)
{
	bool dst_pageable, src_pageable, staged, wait;
	struct sim_op *op;

	if (c->sync)
		SIM_TRY(sim_unsafe());
	if (!c->width || !c->height || !c->depth)
		return CUDA_SUCCESS;
	SIM_TRY(sim_copy_check(line->ctx, c, &dst_pageable, &src_pageable));
	staged = src_pageable && !c->sync && c->width <= STAGED_MAX &&
		 c->height == 1 && c->depth == 1;
	wait = dst_pageable || (src_pageable && !staged);
	if (c->sync && (!sim_is_device(c->dst.at) || !sim_is_device(c->src.at)))
		wait = true;
	if (line->capture)
		wait = staged = false;
	op = sim_op_copy(c, staged);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(sim_submit(line, op));
	return wait ? sim_line_wait(line) : CUDA_SUCCESS;
}

enum { SYNC = 1, TO_DEVICE = 2, FROM_DEVICE = 4 };

static CUresult linear(bool pt, CUstream stream, uintptr_t dst, uintptr_t src,
		       size_t n, unsigned how)
{
	struct sim_copy c = {
		.dst = { .at = dst, .device = how & TO_DEVICE },
		.src = { .at = src, .device = how & FROM_DEVICE },
		.width = n, .height = 1, .depth = 1, .sync = how & SYNC,
	};
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	return sim_copy(line, &c);
}

SIM_TWINS(cuMemcpy, cuMemcpy_ptds,
	  (CUdeviceptr dst, CUdeviceptr src, size_t n),
	  linear(pt, NULL, dst, src, n, SYNC))
SIM_TWINS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds,
	  (CUdeviceptr dst, const void *src, size_t n),
	  linear(pt, NULL, dst, (uintptr_t)src, n, SYNC | TO_DEVICE))
SIM_TWINS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds,
	  (void *dst, CUdeviceptr src, size_t n),
	  linear(pt, NULL, (uintptr_t)dst, src, n, SYNC | FROM_DEVICE))
SIM_TWINS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,
	  (CUdeviceptr dst, CUdeviceptr src, size_t n),
	  linear(pt, NULL, dst, src, n, SYNC | TO_DEVICE | FROM_DEVICE))
SIM_TWINS(cuMemcpyAsync, cuMemcpyAsync_ptsz,
	  (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
	  linear(pt, stream, dst, src, n, 0))
SIM_TWINS(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
	  (CUdeviceptr dst, const void *src, size_t n, CUstream stream),
	  linear(pt, stream, dst, (uintptr_t)src, n, TO_DEVICE))
SIM_TWINS(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
	  (void *dst, CUdeviceptr src, size_t n, CUstream stream),
	  linear(pt, stream, (uintptr_t)dst, src, n, FROM_DEVICE))
SIM_TWINS(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
	  (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
	  linear(pt, stream, dst, src, n, TO_DEVICE | FROM_DEVICE))

static CUresult across(bool pt, CUstream stream, CUdeviceptr dst,
		       CUcontext dctx, CUdeviceptr src, CUcontext sctx,
		       size_t n, bool sync)
{
	struct sim_copy c = {
		.dst = { .at = dst, .device = true },
		.src = { .at = src, .device = true },
		.width = n, .height = 1, .depth = 1, .sync = sync,
	};
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(sim_ctx_get(dctx, &c.dst.ctx));
	SIM_TRY(sim_ctx_get(sctx, &c.src.ctx));
	return sim_copy(line, &c);
}

SIM_TWINS(cuMemcpyPeer, cuMemcpyPeer_ptds,
	  (CUdeviceptr dst, CUcontext dctx, CUdeviceptr src, CUcontext sctx,
	   size_t n),
	  across(pt, NULL, dst, dctx, src, sctx, n, true))
SIM_TWINS(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
	  (CUdeviceptr dst, CUcontext dctx, CUdeviceptr src, CUcontext sctx,
	   size_t n, CUstream stream),
	  across(pt, stream, dst, dctx, src, sctx, n, false))

/* A batch goes to a real stream only. */
static CUresult batch(bool pt, CUdeviceptr *dst, CUdeviceptr *src,
		      size_t *n, size_t count, size_t attrs, CUstream stream)
{
	size_t i;

	if (!dst || !src || !n || !count || !attrs || !stream ||
	    stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		SIM_TRY(linear(pt, stream, dst[i], src[i], n[i], 0));
	return CUDA_SUCCESS;
}

SIM_TWINS(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
	  (CUdeviceptr *dst, CUdeviceptr *src, size_t *n, size_t count,
	   CUmemcpyAttributes *attrs SIM_UNUSED, size_t *which SIM_UNUSED,
	   size_t n_attrs, size_t *failed SIM_UNUSED, CUstream stream),
	  batch(pt, dst, src, n, count, n_attrs, stream))
SIM_TWINS(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
	  (CUdeviceptr *dst, CUdeviceptr *src, size_t *n, size_t count,
	   CUmemcpyAttributes *attrs SIM_UNUSED, size_t *which SIM_UNUSED,
	   size_t n_attrs, CUstream stream),
	  batch(pt, dst, src, n, count, n_attrs, stream))
