/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy - device work that is under way when someone asks for a sleep.
 *
 *   busy kernel    one kernel of 5 s
 *   busy queue     100 kernels of 0.2 s, all queued at once
 *   busy copy      60 asynchronous copies of 2 GiB into pinned memory, queued
 *   busy capture   a capture during which the host sleeps 2 s in all
 *
 * The data kernels work on is BUSY_MIB (512) large, the copies four times that.
 * $PROGRESS reads "under way" once the work is.  The result is checked and
 * printed; it does not depend on time.
 */
#include "drv.h"

#define SEED 77

static CUstream stream;
static CUdeviceptr data;
static size_t size, words;

static void start(void)
{
	size = (size_t)prog_env("BUSY_MIB", 512) * MIB;
	words = size / 4;
	drv_open();
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&data, size));
	drv_pattern(stream, data, words, SEED);
	/* loads the kernel, which a capture could forbid */
	drv_add(stream, data, words, 0);
	CK(cuStreamSynchronize(stream));
}

static int finish(const char *mode)
{
	unsigned long bad;

	drv_compare(stream, data, words, SEED);
	bad = (unsigned long)drv_bad();
	printf("%s bad=%lu\n", mode, bad);
	return bad != 0;
}

static void kernel(void)
{
	drv_add(stream, data, words, 5);
	drv_spin(stream, 5000000000u);
	drv_add(stream, data, words, 0u - 5);
	prog_mark("under way");
	CK(cuStreamSynchronize(stream));
}

static void queue(void)
{
	for (int i = 0; i < 100; i++) {
		drv_spin(stream, 200000000u);
		drv_add(stream, data, words, 1);
	}
	drv_add(stream, data, words, 0u - 100);
	prog_mark("under way");
	CK(cuStreamSynchronize(stream));
}

static void copy(void)
{
	size_t much = 4 * size;
	CUdeviceptr from;
	void *pinned;

	CK(cuMemAlloc(&from, much));
	CK(cuMemHostAlloc(&pinned, much, 0));
	drv_pattern(stream, from, much / 4, SEED);
	for (int i = 0; i < 60; i++) {
		CK(cuMemcpyDtoHAsync(pinned, from, much, stream));
		prog_mark("under way");
	}
	CK(cuStreamSynchronize(stream));
	CK(cuMemsetD8Async(from, 0, much, stream));
	CK(cuMemcpyHtoDAsync(from, pinned, much, stream));
	drv_compare(stream, from, much / 4, SEED);
	CK(cuStreamSynchronize(stream));
}

static void capture(void)
{
	CUgraph graph;
	CUgraphExec exec;
	size_t nodes = 0;

	CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (int i = 0; i < 8; i++) {
		drv_add(stream, data, words, 3);
		prog_mark("under way");
		usleep(250000);
	}
	CK(cuStreamEndCapture(stream, &graph));
	CK(cuGraphGetNodes(graph, NULL, &nodes));
	CK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		CK(cuGraphLaunch(exec, stream));
	drv_add(stream, data, words, 0u - 5 * 8 * 3);
	CK(cuStreamSynchronize(stream));
	CK(cuGraphExecDestroy(exec));
	CK(cuGraphDestroy(graph));
	printf("captured %zu nodes\n", nodes);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "kernel", kernel },
		{ "queue", queue },
		{ "copy", copy },
		{ "capture", capture },
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (argc != 2 || strcmp(argv[1], modes[i].name))
			continue;
		start();
		modes[i].run();
		return finish(argv[1]);
	}
	fprintf(stderr, "usage: busy kernel|queue|copy|capture\n");
	return 2;
}
