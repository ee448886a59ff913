/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queries - every answer about device memory, in a form that can be compared.
 *
 * Addresses are printed relative to the block's base, ids only as "set".  Three
 * times, as phase before, asleep and after: at once ($PROGRESS then reads
 * "ready"), after a first line on stdin ("asked") and after a second.  Then
 * error codes of wrong requests, and what an allocation or a free does to a
 * capture.  Lines read "GROUP PHASE ...".
 */
#include "rt.cuh"

#include <cuda.h>
#include <thread>

enum kind { NUMBER, ADDRESS, CONTEXT, ID, COVERS, EXTENT };

static const struct attribute {
	CUpointer_attribute which;
	const char *name;
	enum kind kind;
	bool core;
} attributes[] = {
	{ CU_POINTER_ATTRIBUTE_CONTEXT, "context", CONTEXT, true },
	{ CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "memory-type", NUMBER, true },
	{ CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "device-pointer", ADDRESS,
	  true },
	{ CU_POINTER_ATTRIBUTE_HOST_POINTER, "host-pointer", ADDRESS, true },
	{ CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "sync-memops", NUMBER, true },
	{ CU_POINTER_ATTRIBUTE_BUFFER_ID, "buffer-id", ID, true },
	{ CU_POINTER_ATTRIBUTE_IS_MANAGED, "is-managed", NUMBER, true },
	{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "device", NUMBER, true },
	{ CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "range-start", ADDRESS, true },
	{ CU_POINTER_ATTRIBUTE_RANGE_SIZE, "range-size", NUMBER, true },
	{ CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "legacy-ipc", NUMBER,
	  false },
	{ CU_POINTER_ATTRIBUTE_MAPPED, "mapped", NUMBER, false },
	{ CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "handle-types", NUMBER,
	  false },
	{ CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "rdma", NUMBER,
	  false },
	{ CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "access-flags", NUMBER, false },
	{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "mempool", NUMBER, false },
	{ CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "mapping-size", EXTENT, false },
	{ CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "mapping-base", COVERS,
	  false },
	{ CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, "block-id", ID, false },
};

#define COUNT (sizeof(attributes) / sizeof(*attributes))

struct block {
	const char *name;
	CUdeviceptr base;
	size_t size;
};

static const char *phase;

static void print_value(const struct attribute *a, const struct block *b,
			CUdeviceptr at, unsigned long long value)
{
	CUcontext current = NULL;

	switch (a->kind) {
	case CONTEXT:
		cuCtxGetCurrent(&current);
		printf("%s\n", value == (unsigned long long)current ? "current"
								     : "other");
		break;
	case ADDRESS:
		if (value)
			printf("base%+lld\n", (long long)(value - b->base));
		else
			printf("0\n");
		break;
	case ID:
		printf("%s\n", value ? "set" : "0");
		break;
	case COVERS:
		printf("%s\n", value && value <= at ? "at or below" : "no");
		break;
	case EXTENT:
		if (b->size < 2 * MIB)
			printf("%s\n", value >= b->size ? "enough" : "short");
		else
			printf("%llu\n", value);
		break;
	default:
		printf("%llu\n", value);
	}
}

static void print_single(const struct block *b, CUdeviceptr at,
			 const char *where)
{
	for (const struct attribute &a : attributes) {
		unsigned long long value[8] = {};
		CUresult rc = cuPointerGetAttribute(value, a.which, at);

		printf("%s %s %s %s single %s code %d ",
		       a.core ? "core" : "other", phase, b->name, where, a.name,
		       rc);
		print_value(&a, b, at, rc ? 0 : value[0]);
	}
}

static void print_multi(const struct block *b, CUdeviceptr at,
			const char *where)
{
	unsigned long long values[COUNT][8] = {};
	CUpointer_attribute which[COUNT];
	void *out[COUNT];
	CUresult rc;

	for (size_t i = 0; i < COUNT; i++) {
		which[i] = attributes[i].which;
		out[i] = values[i];
	}
	rc = cuPointerGetAttributes(COUNT, which, out, at);
	for (size_t i = 0; i < COUNT; i++) {
		printf("%s %s %s %s multi %s code %d ",
		       attributes[i].core ? "core" : "other", phase, b->name,
		       where, attributes[i].name, rc);
		print_value(&attributes[i], b, at, values[i][0]);
	}
}

static void print_range(const struct block *b, CUdeviceptr at,
			const char *where)
{
	CUdeviceptr base = 0;
	size_t size = 0;
	CUresult rc = cuMemGetAddressRange(&base, &size, at);

	printf("ranges %s %s %s code %d base%+lld size %zu\n", phase, b->name,
	       where, rc, rc ? 0 : (long long)(base - b->base), size);
	rc = cuMemGetAddressRange(NULL, &size, at);
	printf("ranges %s %s %s size alone: code %d %zu\n", phase, b->name,
	       where, rc, size);
	rc = cuMemGetAddressRange(&base, NULL, at);
	printf("ranges %s %s %s base alone: code %d base%+lld\n", phase,
	       b->name, where, rc, rc ? 0 : (long long)(base - b->base));
}

static void print_runtime(const struct block *b, CUdeviceptr at,
			  const char *where)
{
	struct cudaPointerAttributes a = {};
	cudaError_t rc = cudaPointerGetAttributes(&a, (void *)at);

	printf("runtime %s %s %s code %d type %d device %d "
	       "device-pointer %+lld host-pointer %s\n",
	       phase, b->name, where, rc, a.type, a.device,
	       a.devicePointer ? (long long)((CUdeviceptr)a.devicePointer -
					     b->base) : 0ll,
	       a.hostPointer ? "set" : "0");
	cudaGetLastError();
}

static void print_all(const char *name, const struct block *blocks, size_t n)
{
	phase = name;
	for (size_t i = 0; i < n; i++) {
		const struct block *b = &blocks[i];
		const struct {
			const char *name;
			size_t at;
		} places[] = {
			{ "base", 0 },
			{ "middle", b->size / 2 },
			{ "last", b->size - 1 },
		};

		for (const auto &place : places) {
			print_range(b, b->base + place.at, place.name);
			print_single(b, b->base + place.at, place.name);
			print_multi(b, b->base + place.at, place.name);
			print_runtime(b, b->base + place.at, place.name);
		}
	}
}

static void say(const char *what, long code)
{
	printf("errors after %s: %ld\n", what, code);
	cudaGetLastError();
}

static void print_id_after_reuse(void)
{
	unsigned long long first = 0, second = 0;
	void *p, *q;

	CK(cudaMalloc(&p, 20 * MIB));
	cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID,
			      (CUdeviceptr)p);
	CK(cudaFree(p));
	CK(cudaMalloc(&q, 20 * MIB));
	cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID,
			      (CUdeviceptr)q);
	CK(cudaFree(q));
	say("a new block has a new id", first && second && first != second);
}

static void print_errors(void)
{
	size_t left, all, pitch = 0;
	CUdeviceptr d = 0;
	char *p;
	void *q;

	CK(cudaMemGetInfo(&left, &all));
	CK(cudaMalloc((void **)&p, MIB));
	say("free", cudaFree(p));
	say("free again", cudaFree(p));
	CK(cudaMalloc((void **)&p, 10 * MIB));
	say("free inside", cudaFree(p + 4096));
	say("driver free inside", cuMemFree((CUdeviceptr)p + 1));
	say("free after that", cudaFree(p));
	say("driver free again", cuMemFree((CUdeviceptr)p));
	say("free of null", cudaFree(NULL));
	say("driver free of null", cuMemFree(0));
	say("free of nonsense", cuMemFree(0x1234));
	say("no bytes", cudaMalloc(&q, 0));
	say("no bytes gives null", q == NULL);
	say("driver, no bytes", cuMemAlloc(&d, 0));
	say("driver, no place for the answer", cuMemAlloc(NULL, 4096));
	say("twice the memory", cudaMalloc(&q, 2 * all));
	say("driver, twice the memory", cuMemAlloc(&d, 2 * all));
	say("SIZE_MAX", cudaMalloc(&q, SIZE_MAX));
	say("driver, SIZE_MAX", cuMemAlloc(&d, SIZE_MAX));
	say("pitched, no width", cudaMallocPitch(&q, &pitch, 0, 16));
	say("pitched, element of 3",
	    cuMemAllocPitch(&d, &pitch, 1000, 16, 3));
	for (size_t width : { 1, 511, 512, 513, 4097, 100000 }) {
		CK(cudaMallocPitch(&q, &pitch, width, 33));
		say("pitch", (long)pitch);
		CK(cudaFree(q));
	}
	print_id_after_reuse();
}

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

static void await_line(const char *mark)
{
	char c = 0;

	fflush(stdout);
	prog_mark(mark);
	while (c != '\n')
		if (read(0, &c, 1) != 1)
			exit(9);
}

int main(void)
{
	struct block blocks[] = {
		{ "1B", 0, 1 },
		{ "10MiB+3", 0, 10 * MIB + 3 },
		{ "3GiB", 0, 3 * GIB },
		{ "pitched", 0, 0 },
		{ "pinned", 0, 5 * MIB },
	};
	size_t pitch;

	for (int i = 0; i < 3; i++)
		CK(cudaMalloc((void **)&blocks[i].base, blocks[i].size));
	CK(cudaMallocPitch((void **)&blocks[3].base, &pitch, 1000, 777));
	blocks[3].size = pitch * 777;
	CK(cudaMallocHost((void **)&blocks[4].base, blocks[4].size));
	print_all("before", blocks, 5);
	await_line("ready");
	print_all("asleep", blocks, 5);
	await_line("asked");
	print_all("after", blocks, 5);
	print_errors();
	print_captures();
	return 0;
}
