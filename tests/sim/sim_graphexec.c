/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that change an executable graph. */
#include "sim_copy.h"
#include "sim_graph.h"

#include <string.h>

/* The same shape with other parameters. */
static CUresult exec_update(struct sim_exec *x, struct sim_graph *g)
{
	struct sim_exec *fresh;
	struct sim_op **ops;
	size_t i;

	fresh = sim_exec_new(g, x->flags);
	if (!fresh)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; fresh->n_ops == x->n_ops && i < x->n_ops; i++)
		if (!fresh->ops[i] != !x->ops[i] ||
		    (x->ops[i] && x->ops[i]->type != fresh->ops[i]->type))
			break;
	if (fresh->n_ops != x->n_ops || i < x->n_ops) {
		sim_exec_put(fresh);
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	ops = x->ops;
	x->ops = fresh->ops;
	fresh->ops = ops;
	sim_exec_put(fresh);
	return CUDA_SUCCESS;
}

SIM_API(cuGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode *node,
			    CUgraphExecUpdateResult *result))
{
	struct sim_exec *x;
	struct sim_graph *g;
	CUresult rc;

	SIM_ENTER(cuGraphExecUpdate);
	SIM_TRY(sim_exec_get(exec, &x));
	SIM_TRY(sim_graph_get(graph, &g));
	rc = exec_update(x, g);
	if (node)
		*node = NULL;
	if (result)
		*result = rc ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED :
			  CU_GRAPH_EXEC_UPDATE_SUCCESS;
	return rc;
}

SIM_API(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph,
			       CUgraphExecUpdateResultInfo *info))
{
	struct sim_exec *x;
	struct sim_graph *g;
	CUresult rc;

	SIM_ENTER(cuGraphExecUpdate_v2);
	SIM_TRY(sim_exec_get(exec, &x));
	SIM_TRY(sim_graph_get(graph, &g));
	rc = exec_update(x, g);
	if (info) {
		memset(info, 0, sizeof(*info));
		info->result = rc ?
			CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED :
			CU_GRAPH_EXEC_UPDATE_SUCCESS;
	}
	return rc;
}

/* Where the executable graph has the operation of a node. */
static CUresult exec_slot(CUgraphExec exec, CUgraphNode node,
			  CUgraphNodeType type, struct sim_op ***out)
{
	struct sim_exec *x;
	size_t i;

	SIM_TRY(sim_exec_get(exec, &x));
	for (i = 0; i < x->n_ops; i++)
		if (x->nodes[i] == (struct sim_node *)node)
			break;
	if (i == x->n_ops || !x->ops[i] || x->ops[i]->type != type)
		return CUDA_ERROR_INVALID_VALUE;
	*out = &x->ops[i];
	return CUDA_SUCCESS;
}

static void replace(struct sim_op **slot, struct sim_op *op)
{
	sim_op_put(*slot);
	*slot = op;
}

static CUresult exec_kernel(CUgraphExec exec, CUgraphNode node,
			    const CUDA_KERNEL_NODE_PARAMS_v1 *p,
			    CUkernel kernel)
{
	struct sim_op **slot, *op;

	SIM_TRY(exec_slot(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &slot));
	SIM_TRY(sim_graph_kernel_op(p, kernel, &op));
	replace(slot, op);
	return CUDA_SUCCESS;
}

static CUresult exec_copy(CUgraphExec exec, CUgraphNode node,
			  const CUDA_MEMCPY3D *p, CUcontext handle)
{
	struct sim_op **slot, *op;
	struct sim_ctx *ctx;

	SIM_TRY(exec_slot(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &slot));
	SIM_TRY(sim_ctx_get(handle, &ctx));
	SIM_TRY(sim_copy_from_3d(ctx, p, &op));
	replace(slot, op);
	return CUDA_SUCCESS;
}

SIM_SAME(cuGraphExecMemcpyNodeSetParams,
	 (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p,
	  CUcontext ctx),
	 exec_copy(exec, node, p, ctx))

static CUresult exec_set(CUgraphExec exec, CUgraphNode node,
			 const CUDA_MEMSET_NODE_PARAMS *p, CUcontext handle)
{
	struct sim_op **slot, *op;
	struct sim_ctx *ctx;

	SIM_TRY(exec_slot(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &slot));
	SIM_TRY(sim_ctx_get(handle, &ctx));
	SIM_TRY(sim_graph_set_op(ctx, p, &op));
	replace(slot, op);
	return CUDA_SUCCESS;
}

SIM_SAME(cuGraphExecMemsetNodeSetParams,
	 (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
	  CUcontext ctx),
	 exec_set(exec, node, p, ctx))

SIM_SAME(cuGraphExecKernelNodeSetParams,
	 (CUgraphExec exec, CUgraphNode node,
	  const CUDA_KERNEL_NODE_PARAMS_v1 *p),
	 exec_kernel(exec, node, p, NULL))
SIM_SAME(cuGraphExecKernelNodeSetParams_v2,
	 (CUgraphExec exec, CUgraphNode node,
	  const CUDA_KERNEL_NODE_PARAMS *p),
	 exec_kernel(exec, node, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p,
		     p ? p->kern : NULL))
