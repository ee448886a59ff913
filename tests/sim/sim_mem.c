/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc and its relatives.  Small requests share blocks of 2 MiB, so that
 * they cost what they cost on a device; larger ones have their own pages.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define UNIT	((size_t)512)
#define UNITS	(SIM_BLOCK / UNIT)
#define SMALL	((size_t)1 << 20)

struct sim_block {
	struct sim_block *next;
	struct sim_heap *heap;
	uintptr_t base;
	off_t off;
	size_t n_used;
	size_t room;			/* no free run is longer */
	bool used[UNITS];
};

static bool back(uintptr_t base, size_t size, off_t off)
{
	return sim_space_map(base, size, sim_phys_fd(), off, 3);
}

static CUresult block_new(struct sim_heap *heap, struct sim_block **out)
{
	struct sim_block *b = calloc(1, sizeof(*b));

	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!heap->paid && sim_take(heap->dev, SIM_BLOCK) != CUDA_SUCCESS)
		goto undo_block;
	b->off = sim_phys_new(SIM_BLOCK);
	b->base = sim_space_new(SIM_BLOCK, SIM_BLOCK, 0);
	if (!b->base)
		goto undo_take;
	if (!back(b->base, SIM_BLOCK, b->off))
		goto undo_space;
	b->heap = heap;
	b->room = UNITS;
	b->next = heap->blocks;
	heap->blocks = b;
	*out = b;
	return CUDA_SUCCESS;

undo_space:
	sim_space_free(b->base, SIM_BLOCK);
undo_take:
	if (!heap->paid)
		sim_give(heap->dev, SIM_BLOCK);
undo_block:
	free(b);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void block_free(struct sim_block *b)
{
	struct sim_block **p = &b->heap->blocks;

	while (*p != b)
		p = &(*p)->next;
	*p = b->next;
	sim_space_free(b->base, SIM_BLOCK);
	sim_phys_punch(b->off, SIM_BLOCK);
	if (!b->heap->paid)
		sim_give(b->heap->dev, SIM_BLOCK);
	free(b);
}

/* First free run of n units; UNITS when there is none. */
static size_t block_find(struct sim_block *b, size_t n)
{
	size_t i, run = 0;

	if (b->room < n)
		return UNITS;
	for (i = 0; i < UNITS; i++) {
		run = b->used[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	b->room = n - 1;
	return UNITS;
}

static CUresult alloc_small(struct sim_heap *heap, size_t size,
			    enum sim_kind kind, struct sim_range **out)
{
	size_t n = (size + UNIT - 1) / UNIT, at = UNITS;
	struct sim_block *b;
	struct sim_range *r;

	for (b = heap->blocks; b; b = b->next) {
		at = block_find(b, n);
		if (at != UNITS)
			break;
	}
	if (!b) {
		SIM_TRY(block_new(heap, &b));
		at = 0;
	}
	r = sim_range_new(b->base + at * UNIT, size, kind);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset(b->used + at, true, n);
	b->n_used += n;
	r->block = b;
	r->dev = heap->dev;
	r->off = b->off + (off_t)(at * UNIT);
	sim_fill_dirty((void *)r->span.base, size);
	*out = r;
	return CUDA_SUCCESS;
}

/* Pages of its own.  Drops the lock. */
static CUresult alloc_large(struct sim_heap *heap, size_t size,
			    enum sim_kind kind, struct sim_range **out)
{
	size_t pages = (size + SIM_BLOCK - 1) & ~(SIM_BLOCK - 1);
	int dev = kind == SIM_MANAGED && !sim_managed_still(heap->dev) ?
		  -1 : heap->dev;
	struct sim_range *r;
	uintptr_t base;
	off_t off;

	if (pages < size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(sim_take(dev, pages));
	off = sim_phys_new(pages);
	sim_phys_dirty(off, pages);
	base = sim_space_new(pages, SIM_BLOCK, 0);
	if (!base)
		goto undo_take;
	r = back(base, pages, off) ? sim_range_new(base, size, kind) : NULL;
	if (!r)
		goto undo_space;
	r->physical = pages;
	r->dev = heap->dev;
	r->off = off;
	*out = r;
	return CUDA_SUCCESS;

undo_space:
	sim_space_free(base, pages);
undo_take:
	sim_phys_punch(off, pages);
	sim_give(dev, pages);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The owner of the heap stays meanwhile; see to that. */
CUresult sim_heap_alloc(struct sim_heap *heap, size_t size, enum sim_kind kind,
			struct sim_range **out)
{
	if (size <= SMALL && kind != SIM_MANAGED)
		return alloc_small(heap, size, kind, out);
	return alloc_large(heap, size, kind, out);
}

static CUresult alloc_from(struct sim_ctx *ctx, struct sim_heap *heap,
			   size_t size, enum sim_kind kind,
			   struct sim_range **out)
{
	CUresult rc;

	ctx->pins++;
	rc = sim_heap_alloc(heap, size, kind, out);
	ctx->pins--;
	sim_wake();
	if (rc == CUDA_SUCCESS)
		(*out)->ctx = ctx;
	return rc;
}

CUresult sim_native_alloc(struct sim_ctx *ctx, size_t size, enum sim_kind kind,
			  struct sim_range **out)
{
	return alloc_from(ctx, &ctx->heap, size, kind, out);
}

CUresult sim_global_alloc(struct sim_ctx *ctx, size_t size,
			  struct sim_range **out)
{
	return alloc_from(ctx, &ctx->globals, size, SIM_GLOBAL, out);
}

void sim_native_free(struct sim_range *r)
{
	struct sim_block *b = r->block;

	if (b) {
		size_t at = (r->span.base - b->base) / UNIT;
		size_t n = (r->span.len + UNIT - 1) / UNIT;

		memset(b->used + at, false, n);
		b->n_used -= n;
		b->room = UNITS;
		if (b->n_used == 0)
			block_free(b);
	} else {
		sim_space_free(r->span.base, r->physical);
		sim_phys_punch(r->off, r->physical);
		sim_give(r->kind == SIM_MANAGED &&
			 !sim_managed_still(r->dev) ? -1 : r->dev,
			 r->physical);
	}
	sim_managed_drop(r);
	sim_range_drop(r);
}

static CUresult mem_alloc(CUdeviceptr *out, size_t size, enum sim_kind kind)
{
	struct sim_range *r;
	struct sim_ctx *ctx;

	SIM_TRY(sim_ctx_current(&ctx));
	if (!out || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_unsafe());
	SIM_TRY(sim_native_alloc(ctx, size, kind, &r));
	*out = r->span.base;
	return CUDA_SUCCESS;
}

SIM_SAME(cuMemAlloc_v2, (CUdeviceptr *out, size_t size),
	 mem_alloc(out, size, SIM_NATIVE))

SIM_API(cuMemAllocManaged, (CUdeviceptr *out, size_t size,
			    unsigned int flags))
{
	SIM_ENTER(cuMemAllocManaged);
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return mem_alloc(out, size, SIM_MANAGED);
}

SIM_API(cuMemAllocPitch_v2, (CUdeviceptr *out, size_t *pitch, size_t width,
			     size_t height, unsigned int element))
{
	size_t row = (width + 511) & ~(size_t)511, size;

	SIM_ENTER(cuMemAllocPitch_v2);
	if (!pitch || !width || !height ||
	    (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (row < width || __builtin_mul_overflow(row, height, &size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(mem_alloc(out, size, SIM_NATIVE));
	*pitch = row;
	return CUDA_SUCCESS;
}

static bool freeable(const struct sim_range *r, CUdeviceptr p)
{
	return r && r->span.base == p && !r->freeing &&
	       (r->kind == SIM_NATIVE || r->kind == SIM_MANAGED ||
		r->kind == SIM_POOLED);
}

/* Waits for the context's work, as the driver does; needs none to be current,
 * but not a lost one. */
SIM_API(cuMemFree_v2, (CUdeviceptr p))
{
	struct sim_range *r;
	struct sim_ctx *ctx = NULL;
	CUresult rc;

	SIM_ENTER(cuMemFree_v2);
	rc = sim_ctx_current(&ctx);
	if (rc && rc != CUDA_ERROR_INVALID_CONTEXT)
		return rc;
	if (!p)
		return CUDA_SUCCESS;
	r = sim_range_at(p);
	if (!freeable(r, p)) {
		sim_bad("cuMemFree_v2 of %#llx, which is no allocation", p);
		return CUDA_ERROR_INVALID_VALUE;
	}
	SIM_TRY(sim_unsafe());
	if (r->ctx)
		ctx = r->ctx;
	r->freeing = true;
	if (ctx) {
		ctx->pins++;
		sim_ctx_wait(ctx);
		ctx->pins--;
	}
	if (r->pool)
		sim_pool_return(r);
	else
		sim_native_free(r);
	sim_wake();
	return ctx ? ctx->sticky : CUDA_SUCCESS;
}

SIM_API(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total))
{
	struct sim_ctx *ctx;
	size_t used, limit;

	SIM_ENTER(cuMemGetInfo_v2);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!free_bytes || !total)
		return CUDA_ERROR_INVALID_VALUE;
	sim_export_settle();
	used = sim_used_by_all(ctx->dev);
	limit = sim_device[ctx->dev].limit;
	*free_bytes = used < limit ? limit - used : 0;
	*total = limit;
	return CUDA_SUCCESS;
}

/* What the context owned goes with it; memory mapped by hand stays. */
void sim_mem_forget(struct sim_ctx *ctx)
{
	struct sim_range *r, *next;

	for (r = sim_ranges; r; r = next) {
		next = r->next;
		if (r->ctx != ctx)
			continue;
		if (r->kind == SIM_HOST || r->kind == SIM_REGISTERED)
			sim_host_drop(r);
		else if (r->kind == SIM_IPC)
			sim_ipc_drop(r);
		else if (r->kind != SIM_MAPPED)
			sim_native_free(r);
	}
}

void sim_mem_reset(void)
{
	while (sim_ranges)
		sim_range_drop(sim_ranges);
}
