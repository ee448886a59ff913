/* SPDX-License-Identifier: Apache-2.0 */
/* puppet_blocks - puppet's blocks of device memory, and what is done to one. */
#ifndef VS_TEST_PUPPET_BLOCKS_H
#define VS_TEST_PUPPET_BLOCKS_H

#include "drv.h"

enum puppet_kind {
	PUPPET_ALLOC,
	PUPPET_MANAGED,
	PUPPET_POOL,
	PUPPET_SHARED,
	PUPPET_VMM,
	PUPPET_ARRAY,
	PUPPET_KINDS
};

struct block {
	char name[32];		/* empty: the row is free */
	enum puppet_kind kind;
	CUdeviceptr p;
	size_t size;
	uint32_t seed;
	CUmemGenericAllocationHandle handle;
	CUarray array;
};

#define BLOCKS 4096

static struct block blocks[BLOCKS];
static char puppet_said[256];	/* what the answer says after "ok" */

#define say(...) snprintf(puppet_said, sizeof(puppet_said), __VA_ARGS__)

#define TRY(call)							\
	do {								\
		CUresult try_rc = (call);				\
									\
		if (try_rc)						\
			return try_rc;					\
	} while (0)

/* PUPPET_KINDS when it is none of them. */
static enum puppet_kind puppet_kind(const char *verb)
{
	static const char *const verbs[PUPPET_KINDS] = {
		"alloc", "managed", "pool", "shared", "vmm", "array",
	};
	int kind;

	for (kind = 0; kind < PUPPET_KINDS; kind++)
		if (!strcmp(verbs[kind], verb))
			break;
	return (enum puppet_kind)kind;
}

static struct block *puppet_find(const char *name)
{
	size_t i;

	for (i = 0; *name && i < BLOCKS; i++)
		if (!strcmp(blocks[i].name, name))
			return &blocks[i];
	return NULL;
}

static CUresult get_vmm(struct block *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemAccessDesc access = {
		.location = prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	TRY(cuMemAddressReserve(&b->p, b->size, 0, 0, 0));
	TRY(cuMemCreate(&b->handle, b->size, &prop, 0));
	TRY(cuMemMap(b->p, b->size, 0, b->handle, 0));
	return cuMemSetAccess(b->p, b->size, &access, 1);
}

/* From a pool that other processes might open: the driver's own. */
static CUresult get_shared(struct block *b, CUstream stream)
{
	static CUmemoryPool pool;
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	if (!pool)
		TRY(cuMemPoolCreate(&pool, &props));
	TRY(cuMemAllocFromPoolAsync(&b->p, b->size, pool, stream));
	return cuStreamSynchronize(stream);
}

static CUresult get_array(struct block *b)
{
	CUDA_ARRAY_DESCRIPTOR d = {
		.Width = b->size / 1024,
		.Height = 1024,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};

	return cuArrayCreate(&b->array, &d);
}

static CUresult get(struct block *b, CUstream stream)
{
	switch (b->kind) {
	case PUPPET_MANAGED:
		return cuMemAllocManaged(&b->p, b->size,
					 CU_MEM_ATTACH_GLOBAL);
	case PUPPET_POOL:
		TRY(cuMemAllocAsync(&b->p, b->size, stream));
		return cuStreamSynchronize(stream);
	case PUPPET_SHARED:
		return get_shared(b, stream);
	case PUPPET_VMM:
		return get_vmm(b);
	case PUPPET_ARRAY:
		return get_array(b);
	default:
		return cuMemAlloc(&b->p, b->size);
	}
}

static CUresult puppet_get(enum puppet_kind kind, const char *name, size_t size,
		    CUstream stream)
{
	struct block fresh = { .kind = kind, .size = size };
	size_t i;

	if (puppet_find(name) || strlen(name) >= sizeof(fresh.name) || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < BLOCKS && blocks[i].name[0]; i++)
		;
	if (i == BLOCKS)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(get(&fresh, stream));
	strcpy(fresh.name, name);
	blocks[i] = fresh;
	return CUDA_SUCCESS;
}

static CUresult give(const struct block *b)
{
	switch (b->kind) {
	case PUPPET_POOL:
	case PUPPET_SHARED:
		TRY(cuMemFreeAsync(b->p, NULL));
		return cuStreamSynchronize(NULL);
	case PUPPET_VMM:
		TRY(cuMemUnmap(b->p, b->size));
		TRY(cuMemRelease(b->handle));
		return cuMemAddressFree(b->p, b->size);
	case PUPPET_ARRAY:
		return cuArrayDestroy(b->array);
	default:
		return cuMemFree(b->p);
	}
}

static CUresult count_bytes(const struct block *b, unsigned char value)
{
	unsigned char *out = malloc(b->size);
	size_t i, bad = 0;
	CUresult rc;

	if (!out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = cuMemcpyDtoH(out, b->p, b->size);
	for (i = 0; i < b->size; i++)
		bad += out[i] != value;
	free(out);
	say("bad=%zu", bad);
	return rc;
}

static CUresult free_block(struct block *b)
{
	TRY(give(b));
	b->name[0] = '\0';
	return CUDA_SUCCESS;
}

static CUresult puppet_block(const char *verb, struct block *b, uint64_t n)
{
	if (!strcmp(verb, "free"))
		return free_block(b);
	if (!strcmp(verb, "count"))
		return count_bytes(b, (unsigned char)n);
	if (!strcmp(verb, "byte")) {
		TRY(cuMemsetD8(b->p, (unsigned char)n, b->size));
	} else if (!strcmp(verb, "fill")) {
		b->seed = (uint32_t)n;
		drv_pattern(NULL, b->p, b->size / 4, b->seed);
	} else if (!strcmp(verb, "check")) {
		drv_compare(NULL, b->p, b->size / 4, b->seed);
		say("bad=%lu", (unsigned long)drv_bad());
	} else {
		return CUDA_ERROR_UNKNOWN;
	}
	return cuCtxSynchronize();
}

/* drv.bad, too. */
static CUresult puppet_free_all(void)
{
	size_t i;

	for (i = 0; i < BLOCKS; i++)
		if (blocks[i].name[0])
			TRY(free_block(&blocks[i]));
	if (drv.bad)
		TRY(cuMemFree(drv.bad));
	drv.bad = 0;
	return CUDA_SUCCESS;
}

static uint64_t puppet_check_all(void)
{
	size_t i;

	for (i = 0; i < BLOCKS; i++)
		if (blocks[i].name[0] && blocks[i].kind != PUPPET_ARRAY)
			drv_compare(NULL, blocks[i].p, blocks[i].size / 4,
				    blocks[i].seed);
	return drv_bad();
}

static void puppet_where(void)
{
	uint64_t hash = 0;
	size_t i, count = 0;

	for (i = 0; i < BLOCKS; i++) {
		if (!blocks[i].name[0])
			continue;
		hash = prog_hash(&blocks[i].p, sizeof(blocks[i].p), hash);
		count++;
	}
	say("count=%zu hash=%016lx", count, (unsigned long)hash);
}

#endif
