/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs_all - executable graphs of every kind, launched in STEPS steps.
 *
 * Memory nodes freed in the graph, in another one, and captured allocations;
 * copies, memsets and a child graph; changes by node and as a whole; upload; a
 * conditional node; a graph that a kernel launches.  Each leaves its mark in a
 * sum that is printed.  Compiled with -rdc=true.
 */
#include "rt.cuh"

#define SIZE ((size_t)32 * MIB)
#define WORDS (SIZE / sizeof(unsigned))
#define NODE ((size_t)24 * MIB)
#define NODE_WORDS (NODE / sizeof(unsigned))

static unsigned *front, *back, *extra, *held;
static unsigned long long *sum;
static unsigned *counter;		/* of the conditional graph */
static cudaStream_t stream;

static cudaGraphNode_t set_node, mix_node, copy_node;
static cudaGraph_t main_graph;
static cudaGraphExec_t main_exec, memory_exec, captured_exec, hold_exec,
	let_exec, update_exec, loop_exec, device_exec, device_launcher;

struct mix {
	unsigned *p;
	size_t words;
	unsigned value;
	void *args[3];
	cudaKernelNodeParams params;
};

static cudaKernelNodeParams *mixing(struct mix *m, unsigned *p, size_t words,
				    unsigned value)
{
	m->p = p;
	m->words = words;
	m->value = value;
	m->args[0] = &m->p;
	m->args[1] = &m->words;
	m->args[2] = &m->value;
	m->params = {};
	m->params.func = (void *)rt_mix;
	m->params.gridDim = dim3(512);
	m->params.blockDim = dim3(256);
	m->params.kernelParams = m->args;
	return &m->params;
}

static cudaKernelNodeParams *summing(struct mix *m, unsigned *p, size_t words)
{
	mixing(m, p, words, 0);
	m->args[2] = &sum;
	m->params.func = (void *)rt_sum;
	return &m->params;
}

static cudaMemsetParams setting(void *at, size_t size, unsigned value)
{
	cudaMemsetParams p = {};

	p.dst = at;
	p.elementSize = 1;
	p.value = value;
	p.width = size;
	p.height = 1;
	return p;
}

static cudaGraphNode_t alloc_node(cudaGraph_t graph, unsigned **out)
{
	cudaMemAllocNodeParams p = {};
	cudaGraphNode_t node;

	p.poolProps.allocType = cudaMemAllocationTypePinned;
	p.poolProps.location.type = cudaMemLocationTypeDevice;
	p.bytesize = NODE;
	CK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	*out = (unsigned *)p.dptr;
	return node;
}

/* Part of front is set, front is mixed, copied to back, and back mixed. */
static void make_main(void)
{
	cudaMemsetParams set = setting(front, SIZE / 2, 0x31);
	cudaGraphNode_t node, last;
	cudaGraph_t child;
	struct mix m;

	CK(cudaGraphCreate(&main_graph, 0));
	CK(cudaGraphAddMemsetNode(&set_node, main_graph, NULL, 0, &set));
	CK(cudaGraphAddKernelNode(&mix_node, main_graph, &set_node, 1,
				  mixing(&m, front, WORDS, 1)));
	CK(cudaGraphAddMemcpyNode1D(&copy_node, main_graph, &mix_node, 1, back,
				    front, SIZE, cudaMemcpyDeviceToDevice));
	CK(cudaGraphCreate(&child, 0));
	CK(cudaGraphAddKernelNode(&node, child, NULL, 0,
				  mixing(&m, back, WORDS, 3)));
	CK(cudaGraphAddChildGraphNode(&last, main_graph, &copy_node, 1,
				      child));
	CK(cudaGraphAddKernelNode(&node, main_graph, &last, 1,
				  summing(&m, back, WORDS)));
	CK(cudaGraphInstantiate(&main_exec, main_graph, 0));
	CK(cudaGraphDestroy(child));
}

static void make_memory(void)
{
	cudaGraphNode_t alloc, set, mix, add, end;
	cudaMemsetParams p;
	cudaGraph_t graph;
	unsigned *inner;
	struct mix m;

	CK(cudaGraphCreate(&graph, 0));
	alloc = alloc_node(graph, &inner);
	p = setting(inner, NODE, 0x47);
	CK(cudaGraphAddMemsetNode(&set, graph, &alloc, 1, &p));
	CK(cudaGraphAddKernelNode(&mix, graph, &set, 1,
				  mixing(&m, inner, NODE_WORDS, 9)));
	CK(cudaGraphAddKernelNode(&add, graph, &mix, 1,
				  summing(&m, inner, NODE_WORDS)));
	CK(cudaGraphAddMemFreeNode(&end, graph, &add, 1, inner));
	CK(cudaGraphInstantiate(&memory_exec, graph, 0));
}

/* One graph allocates, another frees. */
static void make_holder(void)
{
	cudaGraph_t graph, other;
	cudaGraphNode_t alloc, set, end;
	cudaMemsetParams p;

	CK(cudaGraphCreate(&graph, 0));
	alloc = alloc_node(graph, &held);
	p = setting(held, NODE, 0x53);
	CK(cudaGraphAddMemsetNode(&set, graph, &alloc, 1, &p));
	CK(cudaGraphInstantiate(&hold_exec, graph, 0));
	CK(cudaGraphCreate(&other, 0));
	CK(cudaGraphAddMemFreeNode(&end, other, NULL, 0, held));
	CK(cudaGraphInstantiate(&let_exec, other, 0));
}

static void make_captured(void)
{
	cudaGraph_t graph;
	unsigned *p;

	CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CK(cudaMallocAsync((void **)&p, NODE, stream));
	CK(cudaMemsetAsync(p, 0x29, NODE, stream));
	rt_mix<<<512, 256, 0, stream>>>(p, NODE_WORDS, 6);
	rt_sum<<<512, 256, 0, stream>>>(p, NODE_WORDS, sum);
	CK(cudaFreeAsync(p, stream));
	CK(cudaStreamEndCapture(stream, &graph));
	CK(cudaGraphInstantiate(&captured_exec, graph, 0));
	CK(cudaGraphDestroy(graph));
}

static cudaGraph_t capture_update(unsigned value)
{
	cudaGraph_t graph;

	CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	rt_mix<<<512, 256, 0, stream>>>(extra, WORDS, value);
	CK(cudaMemcpyAsync(back, extra, SIZE / 2, cudaMemcpyDeviceToDevice,
			   stream));
	rt_sum<<<512, 256, 0, stream>>>(back, WORDS, sum);
	CK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static __global__ void count_down(unsigned *left, unsigned *p,
				  cudaGraphConditionalHandle handle)
{
	p[*left] = p[*left] * 3 + *left;
	*left -= 1;
	if (!*left)
		cudaGraphSetConditional(handle, 0);
}

/* The body runs until the counter, set before, is down to nothing. */
static void make_loop(void)
{
	cudaGraphNodeParams loop = {}, body = {};
	cudaGraphConditionalHandle handle;
	cudaMemsetParams set = setting(counter, 1, 40);
	cudaGraphNode_t first, node, inside;
	cudaGraph_t graph;
	void *args[] = { &counter, &extra, &handle };

	CK(cudaGraphCreate(&graph, 0));
	CK(cudaGraphConditionalHandleCreate(&handle, graph, 1,
					    cudaGraphCondAssignDefault));
	CK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &set));
	loop.type = cudaGraphNodeTypeConditional;
	loop.conditional.handle = handle;
	loop.conditional.type = cudaGraphCondTypeWhile;
	loop.conditional.size = 1;
#if CUDART_VERSION >= 13000
	CK(cudaGraphAddNode(&node, graph, &first, NULL, 1, &loop));
#else
	CK(cudaGraphAddNode(&node, graph, &first, 1, &loop));
#endif
	body.type = cudaGraphNodeTypeKernel;
	body.kernel.func = (void *)count_down;
	body.kernel.gridDim = dim3(1);
	body.kernel.blockDim = dim3(1);
	body.kernel.kernelParams = args;
#if CUDART_VERSION >= 13000
	CK(cudaGraphAddNode(&inside, loop.conditional.phGraph_out[0], NULL,
			    NULL, 0, &body));
#else
	CK(cudaGraphAddNode(&inside, loop.conditional.phGraph_out[0], NULL, 0,
			    &body));
#endif
	CK(cudaGraphInstantiate(&loop_exec, graph, 0));
}

static __global__ void launch_other(cudaGraphExec_t other)
{
	cudaGraphLaunch(other, cudaStreamGraphFireAndForget);
}

/* One graph's kernel launches another on the device. */
static void make_device(void)
{
	cudaGraph_t graph, launcher;
	cudaGraphNode_t node;
	struct mix m;

	CK(cudaGraphCreate(&graph, 0));
	CK(cudaGraphAddKernelNode(&node, graph, NULL, 0,
				  mixing(&m, extra, WORDS, 12)));
	CK(cudaGraphInstantiate(&device_exec, graph,
				cudaGraphInstantiateFlagDeviceLaunch));
	CK(cudaGraphUpload(device_exec, stream));
	CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	launch_other<<<1, 1, 0, stream>>>(device_exec);
	CK(cudaStreamEndCapture(stream, &launcher));
	CK(cudaGraphInstantiate(&device_launcher, launcher, 0));
}

static void make_all(void)
{
	cudaGraph_t graph;

	make_main();
	make_memory();
	make_holder();
	make_captured();
	make_loop();
	make_device();
	graph = capture_update(1);
	CK(cudaGraphInstantiate(&update_exec, graph, 0));
	CK(cudaGraphDestroy(graph));
}

/* By node, and as a whole. */
static void update(unsigned value)
{
	cudaMemsetParams set = setting(front, SIZE / 2, value & 0xff);
	cudaGraphExecUpdateResultInfo info;
	cudaGraph_t graph;
	struct mix m;

	CK(cudaGraphExecMemsetNodeSetParams(main_exec, set_node, &set));
	CK(cudaGraphExecKernelNodeSetParams(main_exec, mix_node,
					    mixing(&m, front, WORDS, value)));
	CK(cudaGraphExecMemcpyNodeSetParams1D(main_exec, copy_node, back,
			front, value % 2 ? SIZE : SIZE / 2,
			cudaMemcpyDeviceToDevice));
	graph = capture_update(value);
	CK(cudaGraphExecUpdate(update_exec, graph, &info));
	CK(cudaGraphDestroy(graph));
}

static void launch(cudaGraphExec_t exec)
{
	CK(cudaGraphLaunch(exec, stream));
}

static void step(long n)
{
	if (n % 10 == 0)
		update((unsigned)n);
	if (n % 16 == 0)
		CK(cudaGraphUpload(main_exec, stream));
	launch(main_exec);
	launch(memory_exec);
	launch(captured_exec);
	launch(update_exec);
	launch(loop_exec);
	launch(device_launcher);
	if (n % 20 == 2)
		launch(hold_exec);
	if (n % 20 >= 2 && n % 20 <= 11)
		rt_sum<<<512, 256, 0, stream>>>(held, NODE_WORDS, sum);
	if (n % 20 == 11)
		launch(let_exec);
	rt_sum<<<512, 256, 0, stream>>>(extra, WORDS, sum);
	CK(cudaStreamSynchronize(stream));
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	unsigned long long value = 0;

	CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CK(cudaMalloc((void **)&front, SIZE));
	CK(cudaMalloc((void **)&back, SIZE));
	CK(cudaMalloc((void **)&extra, SIZE));
	CK(cudaMalloc((void **)&counter, sizeof(*counter)));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	CK(cudaMemset(counter, 0, sizeof(*counter)));
	rt_fill<<<512, 256>>>(front, WORDS, 5);
	rt_fill<<<512, 256>>>(back, WORDS, 6);
	rt_fill<<<512, 256>>>(extra, WORDS, 7);
	CK(cudaDeviceSynchronize());
	make_all();
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1, 0, stream>>>((unsigned long long)ns);
		step(n);
		CK(cudaMemcpy(&value, sum, sizeof(value),
			      cudaMemcpyDeviceToHost));
		if (n % 25 == 0)
			printf("step %ld sum %016llx\n", n, value);
		prog_step(n);
	}
	printf("done sum %016llx\n", value);
	return 0;
}
