/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that build, change and launch graphs. */
#include "sim_copy.h"
#include "sim_graph.h"
#include "sim_module.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_graph_get(CUgraph handle, struct sim_graph **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_GRAPH);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_node_get(CUgraphNode handle, struct sim_node **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_NODE);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_exec_get(CUgraphExec handle, struct sim_exec **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_EXEC);
	if (*out)
		return CUDA_SUCCESS;
	sim_bad("use of executable graph %p that is not alive",
		(void *)handle);
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGraphCreate, (CUgraph *out, unsigned int flags))
{
	SIM_ENTER(cuGraphCreate);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)sim_graph_new();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuGraphDestroy, (CUgraph handle))
{
	struct sim_graph *g;

	SIM_ENTER(cuGraphDestroy);
	SIM_TRY(sim_graph_get(handle, &g));
	sim_graph_free(g);
	return CUDA_SUCCESS;
}

/* Where a new node goes. */
struct spot {
	CUgraphNode *out;
	CUgraph graph;
	const CUgraphNode *deps;
	size_t n;
};

static CUresult spot_ok(const struct spot *s)
{
	struct sim_graph *g;
	struct sim_node *node;
	size_t i;

	SIM_TRY(sim_graph_get(s->graph, &g));
	if (!s->out || (s->n && !s->deps))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < s->n; i++) {
		SIM_TRY(sim_node_get(s->deps[i], &node));
		if (node->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Takes op. */
static CUresult add(const struct spot *s, CUgraphNodeType type,
		    struct sim_op *op)
{
	struct sim_node *n;

	n = sim_graph_add((struct sim_graph *)s->graph, type, op,
			  (struct sim_node *const *)s->deps, s->n);
	if (!n) {
		if (op)
			sim_op_put(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*s->out = (CUgraphNode)n;
	return CUDA_SUCCESS;
}

#define SPOT	CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, \
		size_t n
#define AT	(&(struct spot){ out, graph, deps, n })

static CUresult add_empty(const struct spot *s)
{
	SIM_TRY(spot_ok(s));
	return add(s, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
}

SIM_SAME(cuGraphAddEmptyNode, (SPOT), add_empty(AT))

/* All versions of the structure begin alike; the kernel may come later. */
CUresult sim_graph_kernel_op(const CUDA_KERNEL_NODE_PARAMS_v1 *p,
			     CUkernel kernel, struct sim_op **op)
{
	struct sim_launch l;
	struct sim_func *f;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	l.dims = &p->gridDimX;
	l.params = p->kernelParams;
	l.extra = p->extra;
	SIM_TRY(sim_func_get(p->func ? p->func : (CUfunction)kernel, &f));
	return sim_op_kernel(f, &l, op);
}

static CUresult add_kernel(const struct spot *s,
			   const CUDA_KERNEL_NODE_PARAMS_v1 *p,
			   CUkernel kernel)
{
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	SIM_TRY(sim_graph_kernel_op(p, kernel, &op));
	return add(s, CU_GRAPH_NODE_TYPE_KERNEL, op);
}

SIM_SAME(cuGraphAddKernelNode, (SPOT, const CUDA_KERNEL_NODE_PARAMS_v1 *p),
	 add_kernel(AT, p, NULL))
SIM_SAME(cuGraphAddKernelNode_v2, (SPOT, const CUDA_KERNEL_NODE_PARAMS *p),
	 add_kernel(AT, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p,
		    p ? p->kern : NULL))

static CUresult add_copy(const struct spot *s, const CUDA_MEMCPY3D *p,
			 CUcontext handle)
{
	struct sim_ctx *ctx;
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(sim_ctx_current(&ctx));
	SIM_TRY(sim_copy_from_3d(ctx, p, &op));
	return add(s, CU_GRAPH_NODE_TYPE_MEMCPY, op);
}

SIM_SAME(cuGraphAddMemcpyNode, (SPOT, const CUDA_MEMCPY3D *p, CUcontext ctx),
	 add_copy(AT, p, ctx))

CUresult sim_graph_set_op(struct sim_ctx *ctx,
			  const CUDA_MEMSET_NODE_PARAMS *p, struct sim_op **op)
{
	if (!p || !p->width || !p->height ||
	    (p->elementSize != 1 && p->elementSize != 2 &&
	     p->elementSize != 4) || p->dst % p->elementSize)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_check_device(ctx, p->dst, (p->height - 1) * p->pitch +
				 p->width * p->elementSize, true));
	*op = sim_op_set(p->dst, p->pitch, p->elementSize, p->value, p->width,
			 p->height);
	return *op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult add_set(const struct spot *s, const CUDA_MEMSET_NODE_PARAMS *p,
			CUcontext handle)
{
	struct sim_ctx *ctx;
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(sim_ctx_current(&ctx));
	SIM_TRY(sim_graph_set_op(ctx, p, &op));
	return add(s, CU_GRAPH_NODE_TYPE_MEMSET, op);
}

SIM_SAME(cuGraphAddMemsetNode, (SPOT, const CUDA_MEMSET_NODE_PARAMS *p,
				CUcontext ctx),
	 add_set(AT, p, ctx))

static CUresult add_host(const struct spot *s, CUhostFn fn, void *data)
{
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	op = sim_op_host(fn, data);
	return op ? add(s, CU_GRAPH_NODE_TYPE_HOST, op) :
	       CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_SAME(cuGraphAddHostNode, (SPOT, const CUDA_HOST_NODE_PARAMS *p),
	 p ? add_host(AT, p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE)

static CUresult add_child(const struct spot *s, CUgraph child)
{
	struct sim_graph *g;
	struct sim_exec *x;
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	SIM_TRY(sim_graph_get(child, &g));
	x = sim_exec_new(g, 0);
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op = sim_op_graph(x);
	sim_exec_put(x);
	return op ? add(s, CU_GRAPH_NODE_TYPE_GRAPH, op) :
	       CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_SAME(cuGraphAddChildGraphNode, (SPOT, CUgraph child),
	 add_child(AT, child))

static CUresult add_alloc(const struct spot *s, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	SIM_TRY(sim_graphmem_alloc(p, &op));
	return add(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, op);
}

SIM_SAME(cuGraphAddMemAllocNode, (SPOT, CUDA_MEM_ALLOC_NODE_PARAMS *p),
	 add_alloc(AT, p))

static CUresult add_free(const struct spot *s, CUdeviceptr at)
{
	struct sim_op *op;

	SIM_TRY(spot_ok(s));
	SIM_TRY(sim_graphmem_free(at, &op));
	return add(s, CU_GRAPH_NODE_TYPE_MEM_FREE, op);
}

SIM_SAME(cuGraphAddMemFreeNode, (SPOT, CUdeviceptr at), add_free(AT, at))

static CUresult add_any(const struct spot *s, CUgraphNodeParams *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return add_kernel(s, (const CUDA_KERNEL_NODE_PARAMS_v1 *)
				  &p->kernel, p->kernel.kern);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return add_copy(s, &p->memcpy.copyParams, p->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return add_set(s, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset,
			       p->memset.ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return add_host(s, p->host.fn, p->host.userData);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return add_child(s, p->graph.graph);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_alloc(s, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return add_free(s, p->free.dptr);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return add_empty(s);
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_SAME(cuGraphAddNode, (SPOT, CUgraphNodeParams *p), add_any(AT, p))
SIM_SAME(cuGraphAddNode_v2, (CUgraphNode *out, CUgraph graph,
			     const CUgraphNode *deps,
			     const CUgraphEdgeData *edges SIM_UNUSED,
			     size_t n, CUgraphNodeParams *p),
	 add_any(AT, p))

static CUresult instantiate(CUgraphExec *out, CUgraph handle,
			    unsigned long long flags)
{
	struct sim_graph *g;
	struct sim_exec *x;

	SIM_TRY(sim_graph_get(handle, &g));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	x = sim_exec_new(g, flags);
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_handle_add(SIM_KEY(x), SIM_EXEC, x);
	*out = (CUgraphExec)x;
	return CUDA_SUCCESS;
}

static CUresult instantiate_old(CUgraphExec *out, CUgraph graph,
				CUgraphNode *error, char *log, size_t size)
{
	if (error)
		*error = NULL;
	if (log && size)
		*log = '\0';
	return instantiate(out, graph, 0);
}

SIM_SAME(cuGraphInstantiate, (CUgraphExec *out, CUgraph graph,
			      CUgraphNode *error, char *log, size_t size),
	 instantiate_old(out, graph, error, log, size))
SIM_SAME(cuGraphInstantiate_v2, (CUgraphExec *out, CUgraph graph,
				 CUgraphNode *error, char *log, size_t size),
	 instantiate_old(out, graph, error, log, size))
SIM_SAME(cuGraphInstantiateWithFlags, (CUgraphExec *out, CUgraph graph,
				       unsigned long long flags),
	 instantiate(out, graph, flags))

static CUresult instantiate_params(CUgraphExec *out, CUgraph graph,
				   CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	p->hErrNode_out = NULL;
	p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return instantiate(out, graph, p->flags);
}

SIM_SAME(cuGraphInstantiateWithParams,
	 (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
	 instantiate_params(out, graph, p))
SIM_SAME(cuGraphInstantiateWithParams_ptsz,
	 (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
	 instantiate_params(out, graph, p))

SIM_API(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t *flags))
{
	struct sim_exec *x;

	SIM_ENTER(cuGraphExecGetFlags);
	SIM_TRY(sim_exec_get(handle, &x));
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = x->flags;
	return CUDA_SUCCESS;
}

SIM_API(cuGraphExecDestroy, (CUgraphExec handle))
{
	struct sim_exec *x;

	SIM_ENTER(cuGraphExecDestroy);
	SIM_TRY(sim_exec_get(handle, &x));
	sim_handle_drop(SIM_KEY(x));
	sim_exec_put(x);
	return CUDA_SUCCESS;
}

static CUresult graph_launch(bool pt, CUgraphExec handle, CUstream stream)
{
	struct sim_line *line;
	struct sim_exec *x;
	struct sim_op *op;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(sim_exec_get(handle, &x));
	op = sim_op_graph(x);
	return op ? sim_submit(line, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_TWINS(cuGraphLaunch, cuGraphLaunch_ptsz,
	  (CUgraphExec exec, CUstream stream), graph_launch(pt, exec, stream))

static CUresult graph_upload(bool pt, CUgraphExec handle, CUstream stream)
{
	struct sim_line *line;
	struct sim_exec *x;

	SIM_TRY(sim_line_get(stream, pt, &line));
	return sim_exec_get(handle, &x);
}

SIM_TWINS(cuGraphUpload, cuGraphUpload_ptsz,
	  (CUgraphExec exec, CUstream stream), graph_upload(pt, exec, stream))
