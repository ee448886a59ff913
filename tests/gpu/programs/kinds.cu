// SPDX-License-Identifier: Apache-2.0
/*
 * kinds - memory of every kind at once: 2 GiB of cudaMalloc, 512 MiB of a pool,
 * 64 MiB managed and touched on the device, a 16 MiB array, a graph.
 *
 * Says "filled" in $PROGRESS, waits for a line on stdin, and verifies the plain
 * and the managed memory.
 */
#include "rt.cuh"

#define PLAIN (2 * GIB)
#define POOL (512 * MIB)
#define MANAGED (64 * MIB)

static unsigned long long sum_of(const unsigned *p, size_t bytes)
{
	unsigned long long *sum, out;

	CK(cudaMalloc(&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_sum<<<512, 256>>>(p, bytes / 4, sum);
	CK(cudaMemcpy(&out, sum, sizeof(out), cudaMemcpyDefault));
	CK(cudaFree(sum));
	return out;
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	unsigned long long before[2], after[2];
	unsigned *plain, *pool, *managed;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaArray_t array;
	char line[16];

	CK(cudaStreamCreate(&stream));
	CK(cudaMalloc(&plain, PLAIN));
	CK(cudaMallocAsync(&pool, POOL, stream));
	CK(cudaMallocManaged(&managed, MANAGED));
	CK(cudaMallocArray(&array, &format, 2048, 2048));
	rt_fill<<<512, 256, 0, stream>>>(plain, PLAIN / 4, 1);
	rt_fill<<<512, 256, 0, stream>>>(pool, POOL / 4, 2);
	rt_fill<<<512, 256, 0, stream>>>(managed, MANAGED / 4, 3);
	CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	rt_mix<<<512, 256, 0, stream>>>(plain, PLAIN / 4, 5);
	CK(cudaStreamEndCapture(stream, &graph));
	CK(cudaGraphInstantiate(&exec, graph, 0));
	CK(cudaGraphLaunch(exec, stream));
	CK(cudaStreamSynchronize(stream));
	before[0] = sum_of(plain, PLAIN);
	before[1] = sum_of(managed, MANAGED);
	prog_mark("filled");
	if (!fgets(line, sizeof(line), stdin))
		return 4;
	after[0] = sum_of(plain, PLAIN);
	after[1] = sum_of(managed, MANAGED);
	CK(cudaGraphLaunch(exec, stream));
	CK(cudaStreamSynchronize(stream));
	printf("plain %s, managed %s\n",
	       before[0] == after[0] ? "equal" : "differs",
	       before[1] == after[1] ? "equal" : "differs");
	return 0;
}
