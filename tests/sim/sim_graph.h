/* SPDX-License-Identifier: Apache-2.0 */
/* sim_graph - graphs, captures, and the events that tie captures together. */
#ifndef VS_TESTS_SIM_GRAPH_H
#define VS_TESTS_SIM_GRAPH_H

#include "sim_internal.h"

struct sim_node {
	struct sim_graph *graph;
	struct sim_op *op;		/* NULL: does nothing */
	CUgraphNodeType type;
	struct sim_node **deps;
	size_t n_deps;
	bool placed;			/* while a graph is put in order */
	bool disabled;
};

struct sim_graph {
	struct sim_node **nodes;
	size_t n_nodes;
};

/* Refs: its handle, and each launch that has not ended. */
struct sim_exec {
	unsigned refs;
	unsigned long long flags;
	struct sim_node **nodes;	/* only to be compared: may be gone */
	struct sim_op **ops;		/* NULL: does nothing */
	size_t n_ops;
};

struct sim_capture {
	struct sim_capture *next;
	unsigned long long id;
	struct sim_graph *graph;
	bool borrowed;			/* the graph is the caller's own */
	CUstreamCaptureMode mode;
	uint64_t owner;			/* the thread that began it */
	struct sim_line *origin;
	bool broken;
};

struct sim_event {
	struct sim_ctx *ctx;
	unsigned flags;
	struct sim_stamp *stamp;	/* NULL: never recorded */
	bool captured;			/* last recorded in a capture */
	struct sim_capture *capture;	/* which; NULL once that ended */
	struct sim_node **ends;
	size_t n_ends;
};

/* sim_graph.c */
struct sim_graph *sim_graph_new(void);
void sim_graph_free(struct sim_graph *g);
struct sim_node *sim_graph_add(struct sim_graph *g, CUgraphNodeType type,
			       struct sim_op *op, struct sim_node *const *deps,
			       size_t n_deps);
void sim_node_free(struct sim_node *n);
struct sim_exec *sim_exec_new(struct sim_graph *g, unsigned long long flags);
void sim_exec_put(struct sim_exec *x);
struct sim_op *sim_op_graph(struct sim_exec *x);

/* sim_graphapi.c */
CUresult sim_graph_get(CUgraph handle, struct sim_graph **out);
CUresult sim_node_get(CUgraphNode handle, struct sim_node **out);
CUresult sim_exec_get(CUgraphExec handle, struct sim_exec **out);
CUresult sim_graph_kernel_op(const CUDA_KERNEL_NODE_PARAMS_v1 *p,
			     CUkernel kernel, struct sim_op **op);
CUresult sim_graph_set_op(struct sim_ctx *ctx,
			  const CUDA_MEMSET_NODE_PARAMS *p,
			  struct sim_op **op);

/* sim_graphmem.c: operations of new nodes */
CUresult sim_graphmem_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *params,
			    struct sim_op **out);
CUresult sim_graphmem_free(CUdeviceptr at, struct sim_op **out);

/* sim_capture.c */
bool sim_ends_set(struct sim_node ***ends, size_t *n,
		  struct sim_node *const *from, size_t n_from);
CUresult sim_capture_record(struct sim_line *line, struct sim_event *e);
CUresult sim_capture_wait(struct sim_line *line, struct sim_event *e);

#endif
