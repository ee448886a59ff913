/* SPDX-License-Identifier: Apache-2.0 */
/* questions_ask - what can be asked about an address, a line for an answer. */
#ifndef TESTS_QUESTIONS_ASK_H
#define TESTS_QUESTIONS_ASK_H

#include "questions_blocks.h"

#include <stdarg.h>

enum kind { NUMBER, ORDINAL, ADDRESS, CONTEXT, ID, BLOCK_ID, LOW, EXTENT,
	    POOL };

static const struct attribute {
	int which;
	const char *name;
	enum kind kind;
} attributes[] = {
	{ CU_POINTER_ATTRIBUTE_CONTEXT, "context", CONTEXT },
	{ CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "memory-type", NUMBER },
	{ CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "device-pointer", ADDRESS },
	{ CU_POINTER_ATTRIBUTE_HOST_POINTER, "host-pointer", ADDRESS },
	{ CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "sync-memops", NUMBER },
	{ CU_POINTER_ATTRIBUTE_BUFFER_ID, "buffer-id", ID },
	{ CU_POINTER_ATTRIBUTE_IS_MANAGED, "is-managed", NUMBER },
	{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "device", ORDINAL },
	{ CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "legacy-ipc",
	  NUMBER },
	{ CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "range-start", ADDRESS },
	{ CU_POINTER_ATTRIBUTE_RANGE_SIZE, "range-size", NUMBER },
	{ CU_POINTER_ATTRIBUTE_MAPPED, "mapped", NUMBER },
	{ CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "handle-types", NUMBER },
	{ CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "rdma", NUMBER },
	{ CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "access-flags", NUMBER },
	{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "mempool", POOL },
	{ CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "mapping-size", EXTENT },
	{ CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "mapping-base", LOW },
	{ CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, "block-id", BLOCK_ID },
	{ 21, "hw-decompress", NUMBER },	/* since CUDA 12.8 */
	{ 0, "none", NUMBER },
	{ 99, "unknown", NUMBER },
};

#define COUNT (sizeof(attributes) / sizeof(*attributes))
#define GOOD (COUNT - 2)	/* those that exist come first */

static FILE *out;
static char where[64];		/* begins each line */

static void line(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
static void line(const char *format, ...)
{
	va_list args;

	fprintf(out, "%s ", where);
	va_start(args, format);
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
}

static const char *say_context(uint64_t value)
{
	CUcontext current = NULL;

	cuCtxGetCurrent(&current);
	return !value ? "0" : value == (uintptr_t)current ? "current" :
	       "another";
}

static const char *say_pool(uint64_t value)
{
	static const char *names[] = { "the device's", "our own", "shared" };
	int i;

	for (i = 0; value && i < 3; i++)
		if (value == (uintptr_t)pools[i])
			return names[i];
	return value ? "another" : "0";
}

static const char *say_id(struct block *b, int kind, uint64_t value)
{
	if (!b->first[kind])
		b->first[kind] = value;
	return !value ? "0" : value == b->first[kind] ? "as ever" : "changed";
}

/* Small blocks share pages with whatever is beside them. */
static const char *say_low(const struct block *b, CUdeviceptr at,
			   uint64_t value)
{
	if (!value)
		return "0";
	if (b->size < 2 * MIB)
		return value > at ? "above" : "at or below";
	/* A pool is mapped in pieces, and a block may begin with one. */
	if (strstr(b->name, "pool"))
		return value == (at & ~(32 * MIB - 1)) ? "piece" : "elsewhere";
	return value == b->base ? "base" : "elsewhere";
}

static const char *say(char *text, size_t room, const struct attribute *a,
		       struct block *b, CUdeviceptr at, uint64_t value)
{
	switch (a->kind) {
	case CONTEXT:
		return say_context(value);
	case POOL:
		return say_pool(value);
	case ID:
	case BLOCK_ID:
		return say_id(b, a->kind == BLOCK_ID, value);
	case LOW:
		return say_low(b, at, value);
	case EXTENT:
		if (value && b->size < 2 * MIB)
			return value < b->size ? "short" : "enough";
		break;
	case ADDRESS:
		if (!value)
			return "0";
		snprintf(text, room, "base%+lld", (long long)(value - b->base));
		return text;
	case ORDINAL:
		snprintf(text, room, "%d", (int)(int32_t)value);
		return text;
	case NUMBER:
		break;
	}
	snprintf(text, room, "%llu", (unsigned long long)value);
	return text;
}

static void show_value(const char *form, const struct attribute *a, int rc,
		       struct block *b, CUdeviceptr at, uint64_t value)
{
	char text[32];

	line("%s %s: %d %s", form, a->name, rc, !rc ?
	     say(text, sizeof(text), a, b, at, value) : value ? "written" :
	     "untouched");
}

static void ask_singly(struct block *b, CUdeviceptr at)
{
	for (size_t i = 0; i < COUNT; i++) {
		uint64_t value[8] = { 0 };
		int rc = cuPointerGetAttribute(value,
			(CUpointer_attribute)attributes[i].which, at);

		show_value("single", &attributes[i], rc, b, at, value[0]);
	}
	line("single, no place: %d", cuPointerGetAttribute(NULL,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
}

static void ask_together(struct block *b, CUdeviceptr at)
{
	CUpointer_attribute which[COUNT];
	uint64_t values[COUNT][8] = { { 0 } };
	void *data[COUNT];
	int rc;

	for (size_t i = 0; i < COUNT; i++) {
		which[i] = (CUpointer_attribute)attributes[i].which;
		data[i] = values[i];
	}
	rc = cuPointerGetAttributes(GOOD, which, data, at);
	for (size_t i = 0; i < GOOD; i++)
		show_value("together", &attributes[i], rc, b, at,
			   values[i][0]);
	line("together, an unknown one: %d",
	     cuPointerGetAttributes(COUNT, which, data, at));
	line("together, none: %d", cuPointerGetAttributes(0, which, data, at));
	data[1] = NULL;
	line("together, no place: %d",
	     cuPointerGetAttributes(2, which, data, at));
}

static void ask_range(const struct block *b, CUdeviceptr at)
{
	CUdeviceptr base = 0;
	size_t size = 0;
	int rc = cuMemGetAddressRange(&base, &size, at);

	line("range: %d base%+lld size %zu", rc,
	     rc ? 0 : (long long)(base - b->base), size);
	size = 0;
	rc = cuMemGetAddressRange(NULL, &size, at);
	line("range, size alone: %d %zu", rc, size);
	rc = cuMemGetAddressRange(&base, NULL, at);
	line("range, base alone: %d base%+lld", rc,
	     rc ? 0 : (long long)(base - b->base));
	line("range, neither: %d", cuMemGetAddressRange(NULL, NULL, at));
}

static void ask_handle(CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle = 0, again = 0;
	CUmemAllocationProp p;
	int rc = cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at);

	line("handle: %d %s", rc, handle ? "set" : "0");
	if (rc)
		return;
	memset(&p, 0xee, sizeof(p));
	rc = cuMemGetAllocationPropertiesFromHandle(&p, handle);
	line("properties: %d type %d types %d place %d of %d rdma %d usage %d "
	     "compression %d", rc, (int)p.type, (int)p.requestedHandleTypes,
	     (int)p.location.type, p.location.id,
	     p.allocFlags.gpuDirectRDMACapable, p.allocFlags.usage,
	     p.allocFlags.compressionType);
	rc = cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at);
	line("handle again: %d %s", rc, again == handle ? "same" : "another");
	line("release: %d %d", cuMemRelease(again), cuMemRelease(handle));
}

static void ask_others(CUdeviceptr at)
{
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUipcMemHandle handle;
	unsigned long long flags = 77;
	int rc = cuMemGetAccess(&flags, &place, at);

	line("access: %d %llu", rc, flags);
	place.type = CU_MEM_LOCATION_TYPE_HOST;
	flags = 77;
	rc = cuMemGetAccess(&flags, &place, at);
	line("access of the host: %d %llu", rc, flags);
	line("access, no place: %d %d", cuMemGetAccess(NULL, &place, at),
	     cuMemGetAccess(&flags, NULL, at));
	line("ipc: %d", cuIpcGetMemHandle(&handle, at));
	ask_handle(at);
}

static void ask_at(int set, struct block *b, const char *place,
		   CUdeviceptr at)
{
	snprintf(where, sizeof(where), "%d %s %s:", set, b->name, place);
	ask_range(b, at);
	ask_singly(b, at);
	ask_together(b, at);
	ask_others(at);
}

/* What is beside it may be anybody's, but is not this block. */
static void ask_beside(int set, const struct block *b)
{
	CUdeviceptr base, beside[] = { b->base - 1, b->base + b->size };
	size_t size;
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(where, sizeof(where), "%d %s %s:", set, b->name,
			 i ? "behind" : "before");
		line("%s", !cuMemGetAddressRange(&base, &size, beside[i]) &&
		     base == b->base ? "its own" : "not its own");
	}
}

static uint64_t id_of(CUdeviceptr at, int kind)
{
	uint64_t id = 0;

	cuPointerGetAttribute(&id, kind ? CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID :
			      CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	return id;
}

static struct block *block_at(int i)
{
	return &sets[i / BLOCKS][i % BLOCKS];
}

/* Ids of all blocks that have been asked about. */
static void ask_ids(int kind)
{
	for (int i = 0; i < set_count * BLOCKS; i++) {
		struct block *b = block_at(i);
		uint64_t id = id_of(b->base, kind);

		snprintf(where, sizeof(where), "%d %s id %d:", i / BLOCKS,
			 b->name, kind);
		line("%s, at its end %s", id ? "set" : "0",
		     id == id_of(b->base + b->size - 1, kind) ? "the same" :
		     "another");
		for (int k = 0; k < i && id; k++)
			if (id == id_of(block_at(k)->base, kind))
				line("as %d %s", k / BLOCKS,
				     block_at(k)->name);
	}
}

static void ask_block(int set, struct block *b)
{
	ask_at(set, b, "base", b->base);
	ask_at(set, b, "middle", b->base + b->size / 2);
	ask_at(set, b, "last", b->base + b->size - 1);
}

static void ask_info(void)
{
	size_t left = 0, all = 0;
	int rc = cuMemGetInfo(&left, &all);

	snprintf(where, sizeof(where), "info:");
	line("%d total %zu free %s", rc, all, left && left < all ? "less" :
	     "odd");
	line("no places: %d %d", cuMemGetInfo(NULL, &all),
	     cuMemGetInfo(&left, NULL));
}

static CUresult do_ask(const char *path)
{
	int set, i;

	out = fopen(path, "we");
	if (!out)
		return CUDA_ERROR_FILE_NOT_FOUND;
	for (set = 0; set < set_count; set++) {
		for (i = 0; i < BLOCKS; i++)
			ask_block(set, &sets[set][i]);
		for (i = BYTE; i <= PITCHED; i++)
			ask_beside(set, &sets[set][i]);
	}
	for (i = 0; i < 3; i++)
		ask_block(0, &strangers[i]);
	if (opened.base)
		ask_block(0, &opened);
	ask_ids(0);
	ask_ids(1);
	ask_info();
	return fclose(out) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

#endif
