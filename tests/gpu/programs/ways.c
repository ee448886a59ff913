/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways - a program that gets its device memory by one way of allocating.
 *
 *   ways NAME       WAYS_MIB (256) of it, filled with patterns
 *   ways --names    which there are
 *
 * Prints "bytes=" and says "filled" in $PROGRESS.  Each line on stdin is a
 * step: everything is compared with its pattern, some of it is given back and
 * taken anew where the way has that, and all of it gets new patterns; "step N"
 * is in $PROGRESS then.  At the end of stdin, or at "quit", it compares once
 * more and prints "equal" or how much was wrong.  Exit status 77: not on
 * this machine.
 *
 * Built with WAYS_RUNTIME the memory that the runtime API has a call for comes
 * by that call.
 */
#include "drv.h"
#undef CK
#include "ways.h"

#ifdef WAYS_RUNTIME
#include <cuda_runtime_api.h>
#define BY(runtime, driver) check_runtime((runtime), #runtime, __LINE__)
static void check_runtime(cudaError_t rc, const char *what, int line)
{
	ways_check((CUresult)rc, what, line);
}
#else
#define BY(runtime, driver) CK(driver)
#endif

struct block ways_blocks[MAX_BLOCKS];
size_t ways_count;
CUstream ways_streams[3];
size_t ways_bytes;
CUdevice ways_device;
static CUmemoryPool pool;
static CUdeviceptr spare[2];
static CUarray array;
static CUgraphExec exec;
static uint64_t wrong;

void ways_leave(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(77);
}

void ways_fill(struct block *b, uint32_t seed)
{
	b->seed = seed;
	drv_pattern(NULL, b->p, b->size / 4, seed);
	CK(cuCtxSynchronize());
}

uint64_t ways_compare(const struct block *b)
{
	drv_compare(NULL, b->read, b->size / 4, b->seed);
	return drv_bad();
}

struct block *ways_hold(CUdeviceptr p, size_t size)
{
	struct block *b = &ways_blocks[ways_count++];

	b->p = b->read = p;
	b->size = size;
	ways_fill(b, (uint32_t)ways_count);
	return b;
}

/* ---- plain ------------------------------------------------------------ */

static CUdeviceptr plain(size_t size)
{
	CUdeviceptr p = 0;

	BY(cudaMalloc((void **)&p, size), cuMemAlloc(&p, size));
	return p;
}

static void make_plain(void)
{
	for (int i = 0; i < 200; i++)
		ways_hold(plain(4096 + 512 * i), 4096 + 512 * i);
	for (int i = 0; i < 4; i++)
		ways_hold(plain(ways_bytes / 4), ways_bytes / 4);
}

/* Frees one that stands in the middle and takes it anew. */
static void churn_plain(uint32_t step)
{
	struct block *b = &ways_blocks[ways_count - 1 - step % 3];

	BY(cudaFree((void *)b->p), cuMemFree(b->p));
	b->p = b->read = plain(b->size);
}

/* Of pitched memory the padding is the program's as well. */
static void make_pitched(void)
{
	size_t pitch, width = 100000, rows = ways_bytes / 2 / width;
	CUdeviceptr p;

#ifdef WAYS_RUNTIME
	struct cudaExtent extent = { width, 100, rows / 100 };
	struct cudaPitchedPtr box;

	BY(cudaMallocPitch((void **)&p, &pitch, width, rows), 0);
	ways_hold(p, pitch * rows);
	BY(cudaMalloc3D(&box, extent), 0);
	ways_hold((CUdeviceptr)box.ptr, box.pitch * 100 * (rows / 100));
#else
	CK(cuMemAllocPitch(&p, &pitch, width, rows, 4));
	ways_hold(p, pitch * rows);
	CK(cuMemAllocPitch(&p, &pitch, width, rows, 16));
	ways_hold(p, pitch * rows);
#endif
}

/* ---- stream-ordered --------------------------------------------------- */

static CUdeviceptr ordered(size_t size, CUstream stream)
{
	CUdeviceptr p = 0;

	if (pool)
		BY(cudaMallocFromPoolAsync((void **)&p, size, pool, stream),
		   cuMemAllocFromPoolAsync(&p, size, pool, stream));
	else
		BY(cudaMallocAsync((void **)&p, size, stream),
		   cuMemAllocAsync(&p, size, stream));
	CK(cuStreamSynchronize(stream));
	return p;
}

static void ordered_free(CUdeviceptr p, CUstream stream)
{
	BY(cudaFreeAsync((void *)p, stream), cuMemFreeAsync(p, stream));
}

static void need_pools(void)
{
	int have = 0;

	CK(cuDeviceGetAttribute(&have,
				CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
				ways_device));
	if (!have)
		ways_leave("no memory pools");
}

static void make_ordered(void)
{
	need_pools();
	for (int i = 0; i < 8; i++)
		ways_hold(ordered(ways_bytes / 8, ways_streams[i % 3]),
			  ways_bytes / 8);
}

static void make_pool(uint64_t threshold)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = ways_device },
	};

	need_pools();
	CK(cuMemPoolCreate(&pool, &props));
	CK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				 &threshold));
}

static void make_explicit(void)
{
	make_pool(0);
	make_ordered();
}

/* As rmm::cuda_async_memory_resource: a pool of its own that keeps everything,
 * warmed up with what it shall begin with; work on several streams. */
static void make_rmm(void)
{
	CUdeviceptr p;

	make_pool(UINT64_MAX);
	p = ordered(ways_bytes, ways_streams[0]);
	ordered_free(p, ways_streams[0]);
	CK(cuStreamSynchronize(ways_streams[0]));
	make_ordered();
}

/* Freed on one stream and taken on another, as on the same one; one that is
 * free during the next sleep. */
static void churn_ordered(uint32_t step)
{
	struct block *b = &ways_blocks[step % ways_count];

	ordered_free(b->p, ways_streams[step % 3]);
	b->p = b->read = ordered(b->size, ways_streams[step / 3 % 3]);
	if (spare[0])
		ordered_free(spare[0], ways_streams[1]);
	spare[0] = ordered(MIB, ways_streams[2]);
}

/* ---- managed, arrays, graphs ------------------------------------------ */

static void make_managed(void)
{
	CUdeviceptr p = 0;

	for (int i = 0; i < 2; i++) {
		BY(cudaMallocManaged((void **)&p, ways_bytes / 2,
				     cudaMemAttachGlobal),
		   cuMemAllocManaged(&p, ways_bytes / 2,
				     CU_MEM_ATTACH_GLOBAL));
		ways_hold(p, ways_bytes / 2);
	}
}

static void move_array(CUdeviceptr p, bool out)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = out ? CU_MEMORYTYPE_ARRAY
				     : CU_MEMORYTYPE_DEVICE,
		.srcArray = array, .srcDevice = p, .srcPitch = 4096,
		.dstMemoryType = out ? CU_MEMORYTYPE_DEVICE
				     : CU_MEMORYTYPE_ARRAY,
		.dstArray = array, .dstDevice = p, .dstPitch = 4096,
		.WidthInBytes = 4096, .Height = ways_bytes / 4096,
	};

	CK(cuMemcpy2D(&copy));
	CK(cuCtxSynchronize());
}

/* What the array has is seen through a plain block as large as it. */
static void make_array(void)
{
	CUDA_ARRAY_DESCRIPTOR form = {
		.Width = 1024, .Height = ways_bytes / 4096,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1,
	};
	struct block *b;

	if (form.Height > 65536)
		form.Height = 65536;
	ways_bytes = form.Height * 4096;
	CK(cuArrayCreate(&array, &form));
	b = ways_hold(plain(ways_bytes), ways_bytes);
	move_array(b->p, false);
	CK(cuMemsetD8(b->p, 0, b->size));
	move_array(b->p, true);
}

static void churn_array(uint32_t step)
{
	(void)step;
	ways_fill(&ways_blocks[0], step + 77);
	move_array(ways_blocks[0].p, false);
	CK(cuMemsetD8(ways_blocks[0].p, 0, ways_blocks[0].size));
}

static uint64_t check_array(void)
{
	move_array(ways_blocks[0].p, true);
	return 0;
}

static void start(CUgraph graph)
{
	CK(cuGraphInstantiate(&exec, graph, 0));
	CK(cuGraphDestroy(graph));
	CK(cuGraphLaunch(exec, ways_streams[0]));
	CK(cuStreamSynchronize(ways_streams[0]));
}

/* A captured graph that takes memory, fills it, copies it out and frees it. */
static void make_graph_idle(void)
{
	struct block *b = ways_hold(plain(ways_bytes), ways_bytes);
	CUstream stream = ways_streams[0];
	CUgraph graph;
	CUdeviceptr p;

	need_pools();
	CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CK(cuMemAllocAsync(&p, ways_bytes, stream));
	drv_pattern(stream, p, ways_bytes / 4, 4711);
	CK(cuMemcpyDtoDAsync(b->p, p, ways_bytes, stream));
	CK(cuMemFreeAsync(p, stream));
	CK(cuStreamEndCapture(stream, &graph));
	start(graph);
	b->seed = 4711;
}

static void churn_graph_idle(uint32_t step)
{
	(void)step;
	CK(cuMemsetD8(ways_blocks[0].p, 0, ways_bytes));
	CK(cuCtxSynchronize());
	CK(cuGraphLaunch(exec, ways_streams[0]));
	CK(cuStreamSynchronize(ways_streams[0]));
	ways_blocks[0].seed = 4711;
}

/* A node that takes memory, and nothing that frees it. */
static void make_graph_held(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
				      .id = ways_device },
		},
		.bytesize = ways_bytes,
	};
	CUgraphNode node;
	CUgraph graph;

	need_pools();
	CK(cuGraphCreate(&graph, 0));
	CK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	start(graph);
	ways_hold(params.dptr, ways_bytes);
}

static const struct way ways[] = {
	{ "plain", make_plain, churn_plain, NULL, false },
	{ "pitched", make_pitched, NULL, NULL, false },
	{ "async", make_ordered, churn_ordered, NULL, false },
	{ "async-pool", make_explicit, churn_ordered, NULL, false },
	{ "async-rmm", make_rmm, churn_ordered, NULL, false },
	{ "managed", make_managed, NULL, NULL, false },
	{ "array", make_array, churn_array, check_array, true },
	{ "graph-idle", make_graph_idle, churn_graph_idle, NULL, true },
	{ "graph-held", make_graph_held, NULL, NULL, false },
	{ NULL, NULL, NULL, NULL, false }
};

static const struct way *const all[] = { ways, ways_vmm, ways_shared };

static const struct way *find(const char *name)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (const struct way *w = all[i]; w->name; w++)
			if (!strcmp(name, "--names"))
				puts(w->name);
			else if (!strcmp(name, w->name))
				return w;
	return NULL;
}

static void compare(const struct way *way)
{
	if (way->check)
		wrong += way->check();
	for (size_t i = 0; i < ways_count; i++)
		wrong += ways_compare(&ways_blocks[i]);
}

static void step(const struct way *way, uint32_t n)
{
	compare(way);
	if (way->churn)
		way->churn(n);
	for (size_t i = 0; i < ways_count && !way->own; i++)
		ways_fill(&ways_blocks[i], n * 1000u + (uint32_t)i);
	CK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	const struct way *way;
	size_t bytes = 0;
	char line[16];

	way = argc == 2 ? find(argv[1]) : NULL;
	if (!way && (argc != 4 || strcmp(argv[1], "--child")))
		return argc != 2 || strcmp(argv[1], "--names") ? 2 : 0;
	ways_bytes = (size_t)prog_env("WAYS_MIB", 256) * MIB;
	drv_open();
	ways_device = drv.device;
	if (!way)
		return ways_child(argv[2], atoi(argv[3]));
	for (int i = 0; i < 3; i++)
		CK(cuStreamCreate(&ways_streams[i], CU_STREAM_NON_BLOCKING));
	way->make();
	for (size_t i = 0; i < ways_count; i++)
		bytes += ways_blocks[i].size;
	printf("bytes=%zu\n", bytes);
	fflush(stdout);
	prog_mark("filled");
	for (uint32_t n = 1; fgets(line, sizeof(line), stdin) &&
	     strcmp(line, "quit\n"); n++) {
		step(way, n);
		prog_step(n);
	}
	compare(way);
	if (wrong)
		printf("%llu words differ\n", (unsigned long long)wrong);
	else
		printf("equal\n");
	return wrong ? 1 : 0;
}
