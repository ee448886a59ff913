/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graph nodes.  Its addresses come with the node.  A launch takes
 * device memory for it, which stays taken when it is freed, until a trim.
 */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

struct sim_graphmem {
	struct sim_graphmem *next;
	struct sim_range *range;
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	size_t pages;
	bool live;		/* between its allocation and its free */
	bool taken;
	bool orphan;		/* no graph can allocate it any more */
};

struct memory_op {
	struct sim_op op;
	struct sim_graphmem *memory;
	CUdeviceptr at;
};

static struct sim_graphmem *memories;
static cuuint64_t highs[SIM_DEVICES][2];	/* used, reserved */

static size_t sum(int dev, bool used)
{
	const struct sim_graphmem *m;
	size_t bytes = 0;

	for (m = memories; m; m = m->next)
		if (m->range->dev == dev && (used ? m->live : m->taken))
			bytes += m->pages;
	return bytes;
}

static void note_highs(int dev)
{
	int i;

	for (i = 0; i < 2; i++)
		if (sum(dev, !i) > highs[dev][i])
			highs[dev][i] = sum(dev, !i);
}

static void give(struct sim_graphmem *m)
{
	if (!m->taken)
		return;
	sim_phys_punch(m->range->off, m->pages);
	sim_give(m->range->dev, m->pages);
	m->taken = false;
}

static void end(struct sim_graphmem *m)
{
	struct sim_graphmem **link = &memories;

	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	give(m);
	sim_space_free(m->range->span.base, m->pages);
	sim_range_drop(m->range);
	free(m);
}

static void allocated(struct sim_op *op, struct sim_line *line)
{
	struct sim_graphmem *m = ((struct memory_op *)op)->memory;

	(void)line;
	m->live = true;
	if (!m->taken && !sim_take(m->range->dev, m->pages)) {
		m->taken = true;
		sim_fill_dirty((void *)m->range->span.base,
			       m->range->span.len);
	}
	note_highs(m->range->dev);
}

static void forget_node(struct sim_op *op)
{
	struct sim_graphmem *m = ((struct memory_op *)op)->memory;

	if (m->live)
		m->orphan = true;
	else
		end(m);
}

static struct sim_graphmem *memory_at(CUdeviceptr at)
{
	struct sim_graphmem *m = memories;

	while (m && m->range->span.base != at)
		m = m->next;
	return m;
}

static void freed(struct sim_op *op, struct sim_line *line)
{
	struct sim_graphmem *m = memory_at(((struct memory_op *)op)->at);

	(void)line;
	if (!m || !m->live) {
		sim_bad("a graph frees %#llx, which is not allocated",
			((struct memory_op *)op)->at);
		return;
	}
	m->live = false;
	if (m->orphan)
		end(m);
}

static struct sim_graphmem *memory_new(int dev, size_t size)
{
	struct sim_graphmem *m = calloc(1, sizeof(*m));
	off_t off;
	uintptr_t base;

	if (!m)
		return NULL;
	m->pages = (size + SIM_BLOCK - 1) & ~(SIM_BLOCK - 1);
	off = sim_phys_new(m->pages);
	base = sim_space_new(m->pages, SIM_BLOCK, 0);
	if (base && sim_space_map(base, m->pages, sim_phys_fd(), off, 3))
		m->range = sim_range_new(base, size, SIM_GRAPHED);
	if (!m->range) {
		if (base)
			sim_space_free(base, m->pages);
		free(m);
		return NULL;
	}
	m->range->dev = dev;
	m->range->off = off;
	m->next = memories;
	memories = m;
	return m;
}

CUresult sim_graphmem_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *p, struct sim_op **out)
{
	struct sim_graphmem *m;
	struct memory_op *op;

	if (!p || !p->bytesize || p->poolProps.handleTypes ||
	    p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(p->poolProps.location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	m = memory_new(p->poolProps.location.id, p->bytesize);
	op = m ? sim_op_new(sizeof(*op), CU_GRAPH_NODE_TYPE_MEM_ALLOC) : NULL;
	if (!op) {
		if (m)
			end(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->dptr = m->range->span.base;
	m->params = *p;
	op->memory = m;
	op->op.done = allocated;
	op->op.drop = forget_node;
	*out = &op->op;
	return CUDA_SUCCESS;
}

CUresult sim_graphmem_free(CUdeviceptr at, struct sim_op **out)
{
	struct memory_op *op;

	if (!memory_at(at))
		return CUDA_ERROR_INVALID_VALUE;
	op = sim_op_new(sizeof(*op), CU_GRAPH_NODE_TYPE_MEM_FREE);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->at = at;
	op->op.done = freed;
	*out = &op->op;
	return CUDA_SUCCESS;
}

static CUresult node_params(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
	struct sim_node *n;

	SIM_TRY(sim_node_get(node, &n));
	if (!out || n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    n->op->done != allocated)
		return CUDA_ERROR_INVALID_VALUE;
	*out = ((struct memory_op *)n->op)->memory->params;
	return CUDA_SUCCESS;
}

SIM_SAME(cuGraphMemAllocNodeGetParams, (CUgraphNode node,
					CUDA_MEM_ALLOC_NODE_PARAMS *out),
	 node_params(node, out))

static CUresult trim(int dev)
{
	struct sim_graphmem *m;

	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	for (m = memories; m; m = m->next)
		if (m->range->dev == dev && !m->live)
			give(m);
	return CUDA_SUCCESS;
}

SIM_SAME(cuDeviceGraphMemTrim, (CUdevice dev), trim(dev))

static CUresult get_attribute(int dev, CUgraphMem_attribute a, void *value)
{
	cuuint64_t *out = value;

	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (a) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*out = sum(dev, true);
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*out = sum(dev, false);
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*out = highs[dev][a == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_SAME(cuDeviceGetGraphMemAttribute,
	 (CUdevice dev, CUgraphMem_attribute a, void *value),
	 get_attribute(dev, a, value))
