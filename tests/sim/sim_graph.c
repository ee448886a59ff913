/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as data: nodes, what they depend on, and an order to run them in. */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *g = calloc(1, sizeof(*g));

	if (g)
		sim_handle_add(SIM_KEY(g), SIM_GRAPH, g);
	return g;
}

void sim_node_free(struct sim_node *n)
{
	sim_handle_drop(SIM_KEY(n));
	if (n->op)
		sim_op_put(n->op);
	free(n->deps);
	free(n);
}

void sim_graph_free(struct sim_graph *g)
{
	size_t i;

	for (i = 0; i < g->n_nodes; i++)
		sim_node_free(g->nodes[i]);
	sim_handle_drop(SIM_KEY(g));
	free(g->nodes);
	free(g);
}

/* Takes the reference to op on success. */
struct sim_node *sim_graph_add(struct sim_graph *g, CUgraphNodeType type,
			       struct sim_op *op, struct sim_node *const *deps,
			       size_t n_deps)
{
	struct sim_node **more;
	struct sim_node *n;

	more = realloc(g->nodes, (g->n_nodes + 1) * sizeof(*more));
	if (!more)
		return NULL;
	g->nodes = more;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	if (!sim_ends_set(&n->deps, &n->n_deps, deps, n_deps)) {
		free(n);
		return NULL;
	}
	n->graph = g;
	n->type = type;
	n->op = op;
	g->nodes[g->n_nodes++] = n;
	sim_handle_add(SIM_KEY(n), SIM_NODE, n);
	return n;
}

static void place(struct sim_node *n, struct sim_node **order, size_t *at)
{
	size_t i;

	if (n->placed)
		return;
	n->placed = true;
	for (i = 0; i < n->n_deps; i++)
		place(n->deps[i], order, at);
	order[(*at)++] = n;
}

/* Each node after what it depends on. */
static void in_order(struct sim_graph *g, struct sim_node **order)
{
	size_t i, at = 0;

	for (i = 0; i < g->n_nodes; i++)
		g->nodes[i]->placed = false;
	for (i = 0; i < g->n_nodes; i++)
		place(g->nodes[i], order, &at);
}

struct sim_exec *sim_exec_new(struct sim_graph *g, unsigned long long flags)
{
	struct sim_exec *x = calloc(1, sizeof(*x));
	size_t i;

	if (!x)
		return NULL;
	x->nodes = calloc(g->n_nodes + 1, sizeof(*x->nodes));
	x->ops = calloc(g->n_nodes + 1, sizeof(*x->ops));
	if (!x->nodes || !x->ops) {
		free(x->nodes);
		free(x->ops);
		free(x);
		return NULL;
	}
	x->refs = 1;
	x->flags = flags;
	x->n_ops = g->n_nodes;
	in_order(g, x->nodes);
	for (i = 0; i < x->n_ops; i++) {
		x->ops[i] = x->nodes[i]->disabled ? NULL : x->nodes[i]->op;
		if (x->ops[i])
			x->ops[i]->refs++;
	}
	return x;
}

void sim_exec_put(struct sim_exec *x)
{
	size_t i;

	if (--x->refs)
		return;
	for (i = 0; i < x->n_ops; i++)
		if (x->ops[i])
			sim_op_put(x->ops[i]);
	free(x->nodes);
	free(x->ops);
	free(x);
}

struct graph_op {
	struct sim_op op;
	struct sim_exec *exec;
};

static void run_graph(struct sim_op *op, struct sim_line *line)
{
	struct sim_exec *x = ((struct graph_op *)op)->exec;
	size_t i;

	pthread_mutex_lock(&sim_lock);
	for (i = 0; i < x->n_ops; i++) {
		struct sim_op *one = x->ops[i];

		if (!one)
			continue;
		one->refs++;
		sim_op_exec(one, line);
		sim_op_put(one);
	}
	pthread_mutex_unlock(&sim_lock);
}

static void drop_graph(struct sim_op *op)
{
	sim_exec_put(((struct graph_op *)op)->exec);
}

/* Run the whole graph; keeps it until then. */
struct sim_op *sim_op_graph(struct sim_exec *x)
{
	struct graph_op *op = sim_op_new(sizeof(*op), CU_GRAPH_NODE_TYPE_GRAPH);

	if (!op)
		return NULL;
	x->refs++;
	op->exec = x;
	op->op.run = run_graph;
	op->op.drop = drop_graph;
	return &op->op;
}
