/* SPDX-License-Identifier: Apache-2.0 */
/*
 * captures - what an allocation or a free does to a capture, by its mode, the
 * thread, the operation and the size: a line "capture after ..." for each.
 */
#ifndef VS_TEST_CAPTURES_CUH
#define VS_TEST_CAPTURES_CUH

#include "rt.cuh"

#include <thread>

static __global__ void one_more(unsigned *p)
{
	*p += 1;
}

enum op { ALLOCATE, FREE, CHURN };

static int operate(enum op op, size_t size, void *victim)
{
	void *p = NULL;
	int failed = 0;

	if (op == FREE)
		return cudaFree(victim);
	if (op == ALLOCATE)
		return cudaMalloc(&p, size);
	for (int i = 0; i < 100; i++) {
		failed += cudaMalloc(&p, size) != cudaSuccess;
		failed += cudaFree(p) != cudaSuccess;
		p = NULL;
	}
	return failed;
}

static unsigned replay(cudaGraph_t graph, cudaStream_t stream, unsigned *count)
{
	cudaGraphExec_t exec;
	unsigned value = 0;

	if (cudaGraphInstantiate(&exec, graph, 0))
		return 1000;
	CK(cudaGraphLaunch(exec, stream));
	CK(cudaStreamSynchronize(stream));
	CK(cudaMemcpy(&value, count, sizeof(value), cudaMemcpyDeviceToHost));
	CK(cudaGraphExecDestroy(exec));
	return value;
}

static void print_cell(cudaStreamCaptureMode mode, bool other, enum op op,
		       size_t size)
{
	static const char *const modes[] = { "global", "thread-local",
					     "relaxed" };
	static const char *const ops[] = { "malloc", "free", "churn" };
	cudaStreamCaptureMode left = cudaStreamCaptureModeRelaxed;
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	unsigned *count;
	void *victim;
	int rc = -1, first, second, end;

	CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CK(cudaMalloc((void **)&count, sizeof(*count)));
	CK(cudaMalloc(&victim, size));
	CK(cudaMemset(count, 0, sizeof(*count)));
	CK(cudaDeviceSynchronize());
	CK(cudaStreamBeginCapture(stream, mode));
	one_more<<<1, 1, 0, stream>>>(count);
	first = cudaGetLastError();
	if (other)
		std::thread([&] { rc = operate(op, size, victim); }).join();
	else
		rc = operate(op, size, victim);
	cudaGetLastError();
	one_more<<<1, 1, 0, stream>>>(count);
	second = cudaGetLastError();
	end = cudaStreamEndCapture(stream, &graph);
	cudaGetLastError();
	CK(cudaThreadExchangeStreamCaptureMode(&left));
	printf("capture after %s, %s thread, %s %zu: %d; launches %d %d, "
	       "end %d, count %u, thread's mode %d\n",
	       modes[mode], other ? "other" : "same", ops[op], size, rc, first,
	       second, end, end || !graph ? 0 : replay(graph, stream, count),
	       left);
	CK(cudaThreadExchangeStreamCaptureMode(&left));
	if (graph)
		cudaGraphDestroy(graph);
	cudaGetLastError();
	CK(cudaStreamDestroy(stream));
	CK(cudaFree(count));
	if (op != FREE || rc)
		CK(cudaFree(victim));
}

static void print_captures(void)
{
	unsigned *p;

	/* loads the kernel, which a capture could forbid */
	CK(cudaMalloc((void **)&p, sizeof(*p)));
	one_more<<<1, 1>>>(p);
	CK(cudaDeviceSynchronize());
	CK(cudaFree(p));
	for (int mode = 0; mode < 3; mode++)
		for (int other = 0; other < 2; other++)
			for (int op = 0; op < 3; op++)
				for (size_t size : { MIB, 32 * MIB })
					print_cell((cudaStreamCaptureMode)mode,
						   other, (enum op)op, size);
}

#endif
