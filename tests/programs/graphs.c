/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs - executable graphs of every kind, launched when stdin says so.
 *
 *   run        upload and launch all; how many words or bytes are wrong
 *   update     other values, by node and as a whole
 *   hold, let  a graph allocates and another one frees
 *   held       how many bytes of what is held are wrong
 *   drop       destroy all graphs and free all memory
 *   device     bytes of this process, by the simulated driver
 */
#include "drv.h"
#include "sim.h"

#define SIZE (3 * MIB)
#define WORDS (SIZE / 4)
#define NODE (5 * MIB)

static CUdeviceptr from, to, sum;	/* a large one and two small ones */
static CUgraph main_graph, child, holder, letter;
static CUgraphExec exec, hold_exec, let_exec, few_exec;
static CUdeviceptr few;			/* what the graph of few nodes sets */
static CUgraphNode set_node, copy_node, add_node;
static CUdeviceptr inner, held;
static uint32_t value = 7;		/* what add adds */
static unsigned byte = 0x21;		/* what memset writes */
static uint32_t round_number;

static CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr at, size_t size)
{
	return (CUDA_MEMSET_NODE_PARAMS){ .dst = at, .elementSize = 1,
		.value = byte, .width = size, .height = 1 };
}

static CUDA_MEMCPY3D copy_params(CUdeviceptr dst, CUdeviceptr src)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = src, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dst, .WidthInBytes = SIZE, .Height = 1,
		.Depth = 1 };
}

static CUDA_KERNEL_NODE_PARAMS add_params(void **args)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = drv.add, .gridDimX = 64,
		.gridDimY = 1, .gridDimZ = 1, .blockDimX = 256,
		.blockDimY = 1, .blockDimZ = 1, .kernelParams = args };
}

static CUgraphNode alloc_node(CUgraph graph, CUdeviceptr *out)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		},
		.bytesize = NODE,
	};
	CUgraphNode node;

	CK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	*out = p.dptr;
	return node;
}

/* to = from */
static void make_child(void)
{
	CUDA_MEMCPY3D copy = copy_params(to, from);

	CK(cuGraphCreate(&child, 0));
	CK(cuGraphAddMemcpyNode(&copy_node, child, NULL, 0, &copy,
				drv.context));
}

/* inner = byte; inner += value; from = inner; to = from; sum += value */
static void make_main(void)
{
	uint64_t words = WORDS, one = 1;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_MEMCPY3D copy;
	CUDA_KERNEL_NODE_PARAMS add;
	CUgraphNode nodes[4], last;

	CK(cuGraphCreate(&main_graph, 0));
	nodes[0] = alloc_node(main_graph, &inner);
	set = set_params(inner, SIZE);
	CK(cuGraphAddMemsetNode(&set_node, main_graph, nodes, 1, &set,
				drv.context));
	add = add_params((void *[]){ &inner, &words, &value });
	CK(cuGraphAddKernelNode(&add_node, main_graph, &set_node, 1, &add));
	copy = copy_params(from, inner);
	CK(cuGraphAddMemcpyNode(&nodes[1], main_graph, &add_node, 1, &copy,
				drv.context));
	CK(cuGraphAddMemFreeNode(&nodes[2], main_graph, &nodes[1], 1, inner));
	CK(cuGraphAddChildGraphNode(&nodes[3], main_graph, &nodes[1], 1,
				    child));
	add = add_params((void *[]){ &sum, &one, &value });
	CK(cuGraphAddKernelNode(&last, main_graph, &nodes[3], 1, &add));
	CK(cuGraphInstantiateWithFlags(&exec, main_graph, 0));
}

static void make_holder(void)
{
	CUDA_MEMSET_NODE_PARAMS set;
	CUgraphNode node, other;

	CK(cuGraphCreate(&holder, 0));
	node = alloc_node(holder, &held);
	set = set_params(held, NODE);
	CK(cuGraphAddMemsetNode(&other, holder, &node, 1, &set, drv.context));
	CK(cuGraphInstantiateWithFlags(&hold_exec, holder, 0));
	CK(cuGraphCreate(&letter, 0));
	CK(cuGraphAddMemFreeNode(&node, letter, NULL, 0, held));
	CK(cuGraphInstantiateWithFlags(&let_exec, letter, 0));
}

/* few = byte, few += value: changed as a whole by others of its shape. */
static CUgraph make_few(void)
{
	CUDA_MEMSET_NODE_PARAMS set = set_params(few, SIZE);
	uint64_t words = WORDS;
	CUDA_KERNEL_NODE_PARAMS add =
		add_params((void *[]){ &few, &words, &value });
	CUgraphNode first, last;
	CUgraph graph;

	CK(cuGraphCreate(&graph, 0));
	CK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, drv.context));
	CK(cuGraphAddKernelNode(&last, graph, &first, 1, &add));
	return graph;
}

static void update_few(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph graph = make_few();

	CK(cuGraphExecUpdate(few_exec, graph, &info));
	CK(cuGraphDestroy(graph));
}

static void launch(CUgraphExec what)
{
	CK(cuGraphUpload(what, NULL));
	CK(cuGraphLaunch(what, NULL));
	CK(cuCtxSynchronize());
}

static uint32_t expected(void)
{
	return byte * 0x01010101u + value;
}

static void run(void)
{
	static uint32_t seen[WORDS], total, added;
	size_t i, bad = 0;

	CK(cuMemsetD8(to, 0, SIZE));
	launch(exec);
	added += value;
	round_number++;
	CK(cuMemcpyDtoH(seen, to, SIZE));
	CK(cuMemcpyDtoH(&total, sum, 4));
	for (i = 0; i < WORDS; i++)
		bad += seen[i] != expected();
	launch(few_exec);
	CK(cuMemcpyDtoH(seen, few, SIZE));
	for (i = 0; i < WORDS; i++)
		bad += seen[i] != expected();
	printf("ok round=%u word=%u sum=%u bad=%zu\n", round_number, seen[0],
	       total, bad + (total != added));
}

/* By the node of the executable graph. */
static void update_nodes(void)
{
	uint64_t words = WORDS;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_KERNEL_NODE_PARAMS add;

	byte++;
	set = set_params(inner, SIZE);
	CK(cuGraphExecMemsetNodeSetParams(exec, set_node, &set, drv.context));
	add = add_params((void *[]){ &inner, &words, &value });
	CK(cuGraphExecKernelNodeSetParams(exec, add_node, &add));
	update_few();
}

static void drop(void)
{
	CK(cuGraphExecDestroy(exec));
	CK(cuGraphExecDestroy(hold_exec));
	CK(cuGraphExecDestroy(let_exec));
	CK(cuGraphExecDestroy(few_exec));
	CK(cuGraphDestroy(main_graph));
	CK(cuGraphDestroy(child));
	CK(cuGraphDestroy(holder));
	CK(cuGraphDestroy(letter));
	CK(cuMemFree(from));
	CK(cuMemFree(to));
	CK(cuMemFree(sum));
	CK(cuMemFree(few));
}

static void show_held(void)
{
	static unsigned char seen[NODE];
	size_t i, bad = 0;

	CK(cuMemcpyDtoH(seen, held, NODE));
	for (i = 0; i < NODE; i++)
		bad += seen[i] != 0x21;
	printf("ok bad=%zu\n", bad);
}

static int obey(const char *line)
{
	if (!strcmp(line, "run\n"))
		run();
	else if (!strcmp(line, "held\n"))
		show_held();
	else if (!strcmp(line, "device\n"))
		printf("ok bytes=%zu\n", sim_used(0));
	else if (!strcmp(line, "leave\n"))
		return 0;
	else {
		if (!strcmp(line, "update\n"))
			update_nodes();
		else if (!strcmp(line, "hold\n"))
			launch(hold_exec);
		else if (!strcmp(line, "let\n"))
			launch(let_exec);
		else if (!strcmp(line, "drop\n"))
			drop();
		else
			exit(3);
		printf("ok\n");
	}
	return 1;
}

int main(void)
{
	static char line[64];
	CUgraph small;

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	CK(cuMemFree(drv.bad));
	CK(cuMemAlloc(&from, 20 * MIB));
	CK(cuMemAlloc(&to, SIZE));
	CK(cuMemAlloc(&sum, 4));
	CK(cuMemsetD8(sum, 0, 4));
	CK(cuMemAlloc(&few, SIZE));
	small = make_few();
	CK(cuGraphInstantiateWithFlags(&few_exec, small, 0));
	CK(cuGraphDestroy(small));
	make_child();
	make_main();
	make_holder();
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin) && obey(line))
		;
	return 0;
}
