/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that look at a graph, and those that change its edges. */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

/* The usual two-step: with no array the count alone is told. */
struct list {
	CUgraphNode *out;
	size_t room;
	size_t n;
};

static void list_add(struct list *l, const struct sim_node *n)
{
	if (l->out && l->n < l->room)
		l->out[l->n] = (CUgraphNode)n;
	l->n++;
}

static CUresult list_end(struct list *l, size_t *count)
{
	if (l->out)
		for (; l->n < l->room; l->n++)
			l->out[l->n] = NULL;
	else
		*count = l->n;
	return CUDA_SUCCESS;
}

static CUresult nodes(CUgraph graph, CUgraphNode *out, size_t *count,
		      bool roots)
{
	struct list l = { .out = out };
	struct sim_graph *g;
	size_t i;

	SIM_TRY(sim_graph_get(graph, &g));
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = *count;
	for (i = 0; i < g->n_nodes; i++)
		if (!roots || g->nodes[i]->n_deps == 0)
			list_add(&l, g->nodes[i]);
	return list_end(&l, count);
}

SIM_SAME(cuGraphGetNodes, (CUgraph graph, CUgraphNode *out, size_t *count),
	 nodes(graph, out, count, false))
SIM_SAME(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *out, size_t *count),
	 nodes(graph, out, count, true))

static CUresult edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
		      CUgraphEdgeData *data, size_t *count)
{
	struct sim_graph *g;
	size_t i, j, n = 0;

	SIM_TRY(sim_graph_get(graph, &g));
	if (!count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < g->n_nodes; i++)
		for (j = 0; j < g->nodes[i]->n_deps; j++, n++) {
			if (!from || n >= *count)
				continue;
			from[n] = (CUgraphNode)g->nodes[i]->deps[j];
			to[n] = (CUgraphNode)g->nodes[i];
			if (data)
				memset(&data[n], 0, sizeof(*data));
		}
	if (!from)
		*count = n;
	return CUDA_SUCCESS;
}

SIM_SAME(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to,
			   size_t *count),
	 edges(graph, from, to, NULL, count))
SIM_SAME(cuGraphGetEdges_v2, (CUgraph graph, CUgraphNode *from,
			      CUgraphNode *to, CUgraphEdgeData *data,
			      size_t *count),
	 edges(graph, from, to, data, count))

SIM_API(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type))
{
	struct sim_node *n;

	SIM_ENTER(cuGraphNodeGetType);
	SIM_TRY(sim_node_get(node, &n));
	if (!type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->type;
	return CUDA_SUCCESS;
}

static bool depends(const struct sim_node *n, const struct sim_node *on)
{
	size_t i;

	for (i = 0; i < n->n_deps; i++)
		if (n->deps[i] == on)
			return true;
	return false;
}

static CUresult around(CUgraphNode node, CUgraphNode *out, size_t *count,
		       bool before)
{
	struct list l = { .out = out };
	struct sim_graph *g;
	struct sim_node *n;
	size_t i;

	SIM_TRY(sim_node_get(node, &n));
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = *count;
	g = n->graph;
	for (i = 0; i < g->n_nodes; i++)
		if (before ? depends(n, g->nodes[i]) :
		    depends(g->nodes[i], n))
			list_add(&l, g->nodes[i]);
	return list_end(&l, count);
}

SIM_SAME(cuGraphNodeGetDependencies,
	 (CUgraphNode node, CUgraphNode *out, size_t *count),
	 around(node, out, count, true))
SIM_SAME(cuGraphNodeGetDependencies_v2,
	 (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data SIM_UNUSED,
	  size_t *count),
	 around(node, out, count, true))
SIM_SAME(cuGraphNodeGetDependentNodes,
	 (CUgraphNode node, CUgraphNode *out, size_t *count),
	 around(node, out, count, false))
SIM_SAME(cuGraphNodeGetDependentNodes_v2,
	 (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data SIM_UNUSED,
	  size_t *count),
	 around(node, out, count, false))

static void forget_dep(struct sim_node *n, const struct sim_node *on)
{
	size_t i, kept = 0;

	for (i = 0; i < n->n_deps; i++)
		if (n->deps[i] != on)
			n->deps[kept++] = n->deps[i];
	n->n_deps = kept;
}

static CUresult link_nodes(CUgraph graph, const CUgraphNode *from,
			   const CUgraphNode *to, size_t count, bool on)
{
	struct sim_node *a, *b, **deps;
	struct sim_graph *g;
	size_t i;

	SIM_TRY(sim_graph_get(graph, &g));
	if (count && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++) {
		SIM_TRY(sim_node_get(from[i], &a));
		SIM_TRY(sim_node_get(to[i], &b));
		if (a->graph != g || b->graph != g || depends(b, a) == on)
			return CUDA_ERROR_INVALID_VALUE;
		if (!on) {
			forget_dep(b, a);
			continue;
		}
		deps = realloc(b->deps, (b->n_deps + 1) * sizeof(*deps));
		if (!deps)
			return CUDA_ERROR_OUT_OF_MEMORY;
		b->deps = deps;
		b->deps[b->n_deps++] = a;
	}
	return CUDA_SUCCESS;
}

SIM_SAME(cuGraphAddDependencies, (CUgraph graph, const CUgraphNode *from,
				  const CUgraphNode *to, size_t count),
	 link_nodes(graph, from, to, count, true))
SIM_SAME(cuGraphAddDependencies_v2,
	 (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	  const CUgraphEdgeData *data SIM_UNUSED, size_t count),
	 link_nodes(graph, from, to, count, true))
SIM_SAME(cuGraphRemoveDependencies, (CUgraph graph, const CUgraphNode *from,
				     const CUgraphNode *to, size_t count),
	 link_nodes(graph, from, to, count, false))
SIM_SAME(cuGraphRemoveDependencies_v2,
	 (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	  const CUgraphEdgeData *data SIM_UNUSED, size_t count),
	 link_nodes(graph, from, to, count, false))

SIM_API(cuGraphDestroyNode, (CUgraphNode node))
{
	struct sim_graph *g;
	struct sim_node *n;
	size_t i, kept = 0;

	SIM_ENTER(cuGraphDestroyNode);
	SIM_TRY(sim_node_get(node, &n));
	g = n->graph;
	for (i = 0; i < g->n_nodes; i++) {
		forget_dep(g->nodes[i], n);
		if (g->nodes[i] != n)
			g->nodes[kept++] = g->nodes[i];
	}
	g->n_nodes = kept;
	sim_node_free(n);
	return CUDA_SUCCESS;
}

static size_t index_of(const struct sim_graph *g, const struct sim_node *n)
{
	size_t i = 0;

	while (g->nodes[i] != n)
		i++;
	return i;
}

SIM_API(cuGraphClone, (CUgraph *out, CUgraph graph))
{
	struct sim_graph *g, *copy;
	size_t i, j;

	SIM_ENTER(cuGraphClone);
	SIM_TRY(sim_graph_get(graph, &g));
	copy = out ? sim_graph_new() : NULL;
	if (!copy)
		return out ? CUDA_ERROR_OUT_OF_MEMORY :
		       CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < g->n_nodes; i++) {
		struct sim_node *n = g->nodes[i];

		if (!sim_graph_add(copy, n->type, n->op, n->deps, n->n_deps)) {
			sim_graph_free(copy);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		if (n->op)
			n->op->refs++;
	}
	for (i = 0; i < g->n_nodes; i++)
		for (j = 0; j < g->nodes[i]->n_deps; j++)
			copy->nodes[i]->deps[j] = copy->nodes[
				index_of(g, g->nodes[i]->deps[j])];
	*out = (CUgraph)copy;
	return CUDA_SUCCESS;
}
