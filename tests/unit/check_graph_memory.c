/* SPDX-License-Identifier: Apache-2.0 */
/* What graphs allocate by nodes: trimmed at a sleep, or counted. */
#include <config.h>

#include "memory_fixture.h"

#include "memory/unmanaged.h"

#include <string.h>

#define OWN (17 * MIB)		/* ours */
#define NODE (4 * MIB)		/* the graph's */

static struct vs_reply reply;
static CUdeviceptr ours, node;

/* A graph that allocates, writes a byte to all and, if wanted, frees. */
static CUgraphExec make(bool frees)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		},
		.bytesize = NODE,
	};
	CUDA_MEMSET_NODE_PARAMS set = { .elementSize = 1, .value = 0x5b,
					.width = NODE, .height = 1 };
	CUgraphNode first, second, last;
	CUgraphExec exec;
	CUgraph graph;

	ck_ok(vs_real.cuGraphCreate(&graph, 0));
	ck_ok(cuGraphAddMemAllocNode(&first, graph, NULL, 0, &p));
	node = set.dst = p.dptr;
	ck_ok(cuGraphAddMemsetNode(&second, graph, &first, 1, &set,
				   fixture_context));
	if (frees)
		ck_ok(cuGraphAddMemFreeNode(&last, graph, &second, 1, node));
	ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ck_ok(vs_real.cuGraphDestroy(graph));
	return exec;
}

static CUgraphExec make_free(void)
{
	CUgraphExec exec;
	CUgraphNode only;
	CUgraph graph;

	ck_ok(vs_real.cuGraphCreate(&graph, 0));
	ck_ok(cuGraphAddMemFreeNode(&only, graph, NULL, 0, node));
	ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ck_ok(vs_real.cuGraphDestroy(graph));
	return exec;
}

static void launch(CUgraphExec exec)
{
	ck_ok(cuGraphLaunch(exec, NULL));
	ck_ok(vs_real.cuCtxSynchronize());
}

static void start(void)
{
	fixture_start("w", "");
	ours = fixture_alloc("w", OWN);
}

static void sleep_leaves(size_t bytes)
{
	reply = fixture_sleep(1, NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, OWN);
	ck_assert_uint_eq(sim_used(0), bytes);
}

static void wake(void)
{
	reply = fixture_wake(NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	fixture_assert_filled(ours, OWN);
	fixture_assert_sound();
}

START_TEST(what_no_graph_uses_goes_back)
{
	CUgraphExec exec;

	start();
	exec = make(true);
	launch(exec);
	ck_assert_uint_eq(sim_used(0), OWN + NODE);
	sleep_leaves(0);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 0);
	wake();
	launch(exec);
	ck_assert_uint_eq(sim_used(0), OWN + NODE);
	sleep_leaves(0);
	wake();
	ck_ok(vs_real.cuGraphExecDestroy(exec));
	fixture_free(ours);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_a_graph_uses_is_counted_until_it_is_freed)
{
	CUgraphExec exec, frees;

	start();
	exec = make(false);
	frees = make_free();
	launch(exec);
	sleep_leaves(NODE);
	ck_assert_uint_eq(reply.ledger.unmanaged[VS_UNMANAGED_GRAPH], NODE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, NODE);
	wake();
	ck_assert_int_eq(*(unsigned char *)(uintptr_t)(node + NODE - 1), 0x5b);
	launch(frees);
	sleep_leaves(0);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 0);
	ck_ok(vs_real.cuGraphExecDestroy(exec));
	ck_ok(vs_real.cuGraphExecDestroy(frees));
	wake();
	fixture_free(ours);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_sleep_that_releases_less_than_graphs_use_is_partial)
{
	CUgraphExec exec, frees;

	fixture_start("w", "");
	exec = make(false);
	frees = make_free();
	launch(exec);
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_PARTIAL);
	ck_assert_uint_eq(reply.ledger.unmanaged[VS_UNMANAGED_GRAPH], NODE);
	reply = fixture_wake(NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	launch(frees);
	ck_ok(vs_real.cuGraphExecDestroy(exec));
	ck_ok(vs_real.cuGraphExecDestroy(frees));
	fixture_assert_empty();
}
END_TEST

/* _i: 1 the question fails as well. */
START_TEST(a_trim_that_fails_fails_no_sleep)
{
	CUgraphExec exec;

	start();
	exec = make(true);
	launch(exec);
	sim_fail("cuDeviceGraphMemTrim", 1, CUDA_ERROR_UNKNOWN);
	if (_i)
		sim_fail("cuDeviceGetGraphMemAttribute", 2,
			 CUDA_ERROR_UNKNOWN);
	sleep_leaves(NODE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, _i ? 0 : NODE);
	wake();
	sleep_leaves(0);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 0);
	wake();
	ck_ok(vs_real.cuGraphExecDestroy(exec));
	fixture_free(ours);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_no_graph_uses_goes_back);
	tcase_add_test(tc, what_a_graph_uses_is_counted_until_it_is_freed);
	tcase_add_test(tc,
		a_sleep_that_releases_less_than_graphs_use_is_partial);
	tcase_add_loop_test(tc, a_trim_that_fails_fails_no_sleep, 0, 2);
}

int main(void)
{
	return fixture_main("graph_memory", fill);
}
