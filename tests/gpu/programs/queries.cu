/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queries - every answer about device memory, in a form that can be compared.
 *
 * Addresses are printed relative to the block's base, ids as "set" and by which
 * of them are equal.  Memory of every kind, and pointers that are none.  Three
 * times, as phase before, asleep and after: at once ($PROGRESS then reads
 * "ready"), after a first line on stdin ("asked") and after a second.  Then
 * what transports ask for, error codes of wrong requests, what an allocation or
 * a free does to a capture, and places for answers that are NULL.  Lines
 * read "GROUP PHASE ...".
 */
#include "captures.cuh"

#include <cuda.h>

enum kind { NUMBER, ADDRESS, CONTEXT, ID, COVERS, EXTENT, POOL };

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
	{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "mempool", POOL, false },
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
static CUmemoryPool pools[2];	/* the device's, one of our own */
static __device__ unsigned global_words[4096];

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
	case POOL:
		printf("%s\n", !value ? "0" :
		       value == (unsigned long long)pools[0] ? "the device's" :
		       value == (unsigned long long)pools[1] ? "our own" :
		       "another");
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

static unsigned long long id_of(CUdeviceptr at)
{
	unsigned long long id = 0;

	cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	return id;
}

/* The values differ from run to run; which are equal does not. */
static void print_ids(const struct block *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned long long id = id_of(all[i].base);
		const char *like = "";

		for (size_t k = 0; k < i && id; k++)
			if (id == id_of(all[k].base))
				like = all[k].name;
		printf("ids %s %s %s, as at its end: %d, as that of: %s\n",
		       phase, all[i].name, id ? "set" : "0",
		       id == id_of(all[i].base + all[i].size - 1), like);
	}
}

static void print_info(void)
{
	size_t left = 0, all = 0;
	int rc = cuMemGetInfo(&left, &all);

	printf("info %s code %d total %zu free %s\n", phase, rc, all,
	       left && left < all ? "less" : "odd");
}

static void print_all(const char *name, const struct block *all, size_t n)
{
	phase = name;
	for (size_t i = 0; i < n; i++) {
		const struct block *b = &all[i];
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
	print_ids(all, n);
	print_info();
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

static void await_line(const char *mark)
{
	char c = 0;

	fflush(stdout);
	prog_mark(mark);
	while (c != '\n')
		if (read(0, &c, 1) != 1)
			exit(9);
}

/* What a transport does with memory that it means to register.  Each has a
 * block of its own, since such memory may not sleep from then on. */
static void print_transport(void)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens = {};
	unsigned on = 1, got = 7;
	CUipcMemHandle handle;
	CUdeviceptr p;
	int fd = -1, rc;

	CK(cudaMalloc((void **)&p, 8 * MIB));
	rc = cuMemGetHandleForAddressRange(&fd, p, 8 * MIB,
		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	printf("transport dma-buf code %d %s\n", rc, fd >= 0 ? "set" : "none");
	if (fd >= 0)
		close(fd);
	printf("transport dma-buf of a part code %d\n",
	       cuMemGetHandleForAddressRange(&fd, p + 100, 4096,
			CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CK(cudaMalloc((void **)&p, 8 * MIB));
	rc = cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p);
	printf("transport tokens code %d %s\n", rc, tokens.p2pToken ? "set" :
	       "0");
	CK(cudaMalloc((void **)&p, 8 * MIB));
	rc = cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	printf("transport sync-memops code %d", rc);
	rc = cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				   p + 4096);
	printf(" then code %d value %u\n", rc, got);
	CK(cudaMalloc((void **)&p, 8 * MIB));
	printf("transport ipc handle code %d\n", cuIpcGetMemHandle(&handle, p));
	printf("transport ipc handle inside code %d\n",
	       cuIpcGetMemHandle(&handle, p + 4096));
}

/* Last, since nothing says that a driver survives them. */
static void print_nulls(CUdeviceptr p)
{
	CUpointer_attribute which = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	unsigned long long value = 0;
	void *out = &value;
	size_t some;

	printf("nulls range %d\n", cuMemGetAddressRange(NULL, NULL, p));
	printf("nulls attribute %d\n", cuPointerGetAttribute(NULL, which, p));
	printf("nulls no attributes %d\n",
	       cuPointerGetAttributes(0, &which, &out, p));
	fflush(stdout);
	printf("nulls free memory %d\n", cuMemGetInfo(NULL, &some));
	printf("nulls all memory %d\n", cuMemGetInfo(&some, NULL));
	fflush(stdout);
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr p;

	CK((cudaError_t)cuMemAddressReserve(&p, size, 0, 0, 0));
	CK((cudaError_t)cuMemMap(p, size, 0, handle, 0));
	CK((cudaError_t)cuMemSetAccess(p, size, &access, 1));
	return p;
}

static CUmemGenericAllocationHandle create(size_t size, int types)
{
	CUmemAllocationProp props = {};
	CUmemGenericAllocationHandle handle;

	props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.requestedHandleTypes = (CUmemAllocationHandleType)types;
	CK((cudaError_t)cuMemCreate(&handle, size, &props, 0));
	return handle;
}

static void make_mapped(struct block *own, struct block *alias,
			struct block *imported)
{
	CUmemGenericAllocationHandle handle = create(own->size, 0), other;
	int type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, fd;

	own->base = map(handle, own->size);
	alias->base = map(handle, alias->size);
	handle = create(imported->size, type);
	CK((cudaError_t)cuMemExportToShareableHandle(&fd, handle,
		(CUmemAllocationHandleType)type, 0));
	CK((cudaError_t)cuMemImportFromShareableHandle(&other,
		(void *)(intptr_t)fd, (CUmemAllocationHandleType)type));
	close(fd);
	imported->base = map(other, imported->size);
}

static void make_pools(struct block *first, struct block *second)
{
	CUmemPoolProps props = {};

	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CK((cudaError_t)cuDeviceGetDefaultMemPool(&pools[0], 0));
	CK((cudaError_t)cuMemPoolCreate(&pools[1], &props));
	CK(cudaMallocAsync((void **)&first->base, first->size, 0));
	CK(cudaMallocFromPoolAsync((void **)&second->base, second->size,
				   pools[1], 0));
	CK(cudaDeviceSynchronize());
}

static void make_host(struct block *pinned, struct block *registered)
{
	void *p;

	CK(cudaMallocHost((void **)&pinned->base, pinned->size));
	if (posix_memalign(&p, 4096, registered->size))
		exit(4);
	CK(cudaHostRegister(p, registered->size, cudaHostRegisterDefault));
	registered->base = (CUdeviceptr)p;
}

enum {
	BYTE, SMALL, LARGE, PITCHED, POOLED, OWN_POOL, MANAGED, MAPPED, ALIAS,
	IMPORTED, PINNED, REGISTERED, GLOBAL, FREED_SMALL, FREED_LARGE, FOREIGN,
	NONSENSE, BLOCKS
};

static struct block blocks[BLOCKS] = {
	{ "1B", 0, 1 },
	{ "10MiB+3", 0, 10 * MIB + 3 },
	{ "3GiB", 0, 3 * GIB },
	{ "pitched", 0, 0 },
	{ "pool", 0, 3 * MIB },
	{ "own-pool", 0, 70000 },
	{ "managed", 0, 6 * MIB },
	{ "mapped", 0, 32 * MIB },
	{ "alias", 0, 32 * MIB },
	{ "imported", 0, 4 * MIB },
	{ "pinned", 0, 5 * MIB },
	{ "registered", 0, 3 * MIB },
	{ "global", 0, sizeof(global_words) },
	{ "freed-small", 0, 4096 },
	{ "freed-large", 0, 64 * MIB },
	{ "foreign", 0, 65536 },
	{ "nonsense", 0x1234, 4096 },
};

static void make_all(void)
{
	static char foreign[65536];
	size_t pitch;

	for (int i = BYTE; i <= LARGE; i++)
		CK(cudaMalloc((void **)&blocks[i].base, blocks[i].size));
	CK(cudaMallocPitch((void **)&blocks[PITCHED].base, &pitch, 1000, 777));
	blocks[PITCHED].size = pitch * 777;
	make_pools(&blocks[POOLED], &blocks[OWN_POOL]);
	CK(cudaMallocManaged((void **)&blocks[MANAGED].base,
			     blocks[MANAGED].size));
	make_mapped(&blocks[MAPPED], &blocks[ALIAS], &blocks[IMPORTED]);
	make_host(&blocks[PINNED], &blocks[REGISTERED]);
	CK(cudaGetSymbolAddress((void **)&blocks[GLOBAL].base, global_words));
	blocks[FOREIGN].base = (CUdeviceptr)foreign;
	for (int i = FREED_SMALL; i <= FREED_LARGE; i++)
		CK(cudaMalloc((void **)&blocks[i].base, blocks[i].size));
	for (int i = FREED_SMALL; i <= FREED_LARGE; i++)
		CK(cudaFree((void *)blocks[i].base));
}

int main(void)
{
	make_all();
	print_all("before", blocks, BLOCKS);
	await_line("ready");
	print_all("asleep", blocks, BLOCKS);
	await_line("asked");
	print_all("after", blocks, BLOCKS);
	print_transport();
	print_errors();
	print_captures();
	print_nulls(blocks[SMALL].base);
	return 0;
}
