/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "life_managed.h"
#include "life.h"
#include "life_bytes.h"

#include "base/driver.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/managed.h"
#include "memory/unmanaged.h"
#include "sleep/gate.h"

#define SIZE ((size_t)1 << 20)

static struct life_block block = { .size = SIZE, .tag = "weights",
				   .seed = 11 };
static CUgraphExec exec;
static unsigned turns;

/* A fault that strikes this file's own call is not the point. */
#define TWICE(call) ({ bool done = !(call) || !(call); done; })

static void get(void)
{
	const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };

	if (!TWICE(vs_real.cuMemAllocManaged(&block.base, SIZE,
					     CU_MEM_ATTACH_GLOBAL))) {
		block.base = 0;
		return;
	}
	vs_tag_mark(block.tag, NULL);
	vs_unmanaged_add(VS_UNMANAGED_MANAGED, block.base, SIZE);
	vs_managed_add(block.base, SIZE);
	life_fill(&block);
	if (TWICE(vs_real.cuMemAdvise_v2(block.base, SIZE,
					 CU_MEM_ADVISE_SET_READ_MOSTLY, host)))
		vs_managed_read_mostly(block.base, SIZE);
}

static void make_graph(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		},
		.bytesize = SIZE,
	};
	CUgraphNode first, last;
	CUgraph graph;

	if (!TWICE(vs_real.cuGraphCreate(&graph, 0)))
		return;
	if (TWICE(vs_real.cuGraphAddMemAllocNode(&first, graph, NULL, 0,
						 &p)) &&
	    TWICE(vs_real.cuGraphAddMemFreeNode(&last, graph, &first, 1,
						p.dptr)) &&
	    !TWICE(vs_real.cuGraphInstantiateWithFlags(&exec, graph, 0)))
		exec = NULL;
	if (!TWICE(vs_real.cuGraphDestroy(graph)))
		life_fail("a graph cannot be destroyed");
}

static void use(void)
{
	const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

	if (block.base)
		TWICE(vs_real.cuMemPrefetchAsync_v2(block.base, SIZE, device,
						    0, NULL));
	if (exec)
		TWICE(vs_real.cuGraphLaunch(exec, NULL));
	TWICE(vs_real.cuCtxSynchronize());
}

void life_managed_turn(void)
{
	if (block.base)
		life_look_at_bytes(&block);
	if (vs_gate_holds() || life_lasts())
		return;
	if (!block.base)
		get();
	if (!exec)
		make_graph();
	if (turns++ % 6 == 0)
		use();
}

void life_managed_end(void)
{
	if (block.base && vs_allocator_free(block.base))
		life_fail("managed memory cannot be freed");
	if (exec && vs_real.cuGraphExecDestroy(exec))
		life_fail("a graph cannot be destroyed");
}
