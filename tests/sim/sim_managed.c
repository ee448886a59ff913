/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory, whose pages are on the host until a prefetch has them on a
 * device: what is merely used stays where it is.  And the profiler's switches.
 *
 * The host's page tables have what the host has, as with the driver.  Memory
 * of a device that a page has left is kept in reserve: it counts as used, and
 * anyone who needs it gets it.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOWHERE	CU_DEVICE_INVALID

/* Of a block of SIM_BLOCK bytes. */
struct page {
	short dev;		/* that it is on; -1: none */
	unsigned kept;		/* bit per device that it has left */
	short preferred, prefetched;
	bool read_mostly;
	unsigned accessed_by;	/* bit per device */
};

struct sim_moving {
	size_t count;
	struct page pages[];
};

bool sim_managed_still(int dev)
{
	return (size_t)dev == sim_config.still;
}

static struct sim_moving *moving_of(struct sim_range *r)
{
	size_t count = r->physical / SIM_BLOCK, i;

	if (r->moving)
		return r->moving;
	r->moving = calloc(1, sizeof(*r->moving) +
			   count * sizeof(*r->moving->pages));
	if (!r->moving)
		return NULL;
	r->moving->count = count;
	for (i = 0; i < count; i++) {
		r->moving->pages[i].dev = -1;
		r->moving->pages[i].preferred = NOWHERE;
		r->moving->pages[i].prefetched = NOWHERE;
	}
	return r->moving;
}

static size_t away;	/* pages on a device */

static void leave(struct page *page)
{
	if (page->dev < 0)
		return;
	sim_reserve_put(page->dev, SIM_BLOCK);
	page->kept |= 1u << page->dev;
	page->dev = -1;
	away--;
}

static bool enter(struct page *page, int dev)
{
	bool kept = page->kept >> dev & 1;

	page->kept &= ~(1u << dev);
	if ((!kept || !sim_reserve_take(dev, SIM_BLOCK)) &&
	    sim_take(dev, SIM_BLOCK))
		return false;
	page->dev = (short)dev;
	away++;
	return true;
}

/* Whose blocks of a reserve are gone does not show: the first to ask for one
 * has what is left. */
static void drop_page(struct page *page)
{
	int dev;

	leave(page);
	for (dev = 0; dev < SIM_DEVICES; dev++)
		if (page->kept >> dev & 1 && sim_reserve_take(dev, SIM_BLOCK))
			sim_give(dev, SIM_BLOCK);
}

void sim_managed_drop(struct sim_range *r)
{
	size_t i;

	for (i = 0; r->moving && i < r->moving->count; i++)
		drop_page(&r->moving->pages[i]);
	free(r->moving);
	r->moving = NULL;
}

/* The host gets it in its page tables when it touches it again. */
static void hide(const struct page *page, uintptr_t at)
{
	if (!page->read_mostly && (size_t)page->dev != sim_config.direct)
		madvise((void *)at, SIM_BLOCK, MADV_DONTNEED);
}

__attribute__((no_sanitize("thread")))
static void touch(uintptr_t at)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i;

	for (i = 0; i < SIM_BLOCK; i += page)
		(void)*(volatile char *)(at + i);
}

static void hide_used(struct sim_range *r, size_t first, size_t end)
{
	struct page *page;
	size_t i;

	for (i = first; r->moving && i < end && i < r->moving->count; i++) {
		page = &r->moving->pages[i];
		if (page->dev >= 0)
			hide(page, r->span.base + i * SIM_BLOCK);
	}
}

/* A device has used this memory, which the simulation does by the host's page
 * tables. */
void sim_managed_used(uintptr_t at, size_t n)
{
	struct sim_range *r;
	uintptr_t base;

	pthread_mutex_lock(&sim_lock);
	r = away && n ? sim_range_at(at) : NULL;
	if (r && r->kind == SIM_MANAGED) {
		base = r->span.base;
		hide_used(r, (at - base) / SIM_BLOCK,
			  (at + n - 1 - base) / SIM_BLOCK + 1);
	}
	pthread_mutex_unlock(&sim_lock);
}

/* The same where nobody can tell which memory it was. */
void sim_managed_used_any(void)
{
	struct sim_range *r;

	pthread_mutex_lock(&sim_lock);
	for (r = away ? sim_ranges : NULL; r; r = r->next)
		if (r->kind == SIM_MANAGED)
			hide_used(r, 0, SIZE_MAX);
	pthread_mutex_unlock(&sim_lock);
}

/* The pages of [p, p + n), first and one after the last. */
static CUresult pages_of(CUdeviceptr p, size_t n, struct page **first,
			 struct page **end)
{
	struct sim_range *r = sim_range_at(p);
	struct sim_moving *m;

	if (!n || !r || r->kind != SIM_MANAGED || r->freeing ||
	    n > r->span.base + r->span.len - p)
		return CUDA_ERROR_INVALID_VALUE;
	m = moving_of(r);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*first = &m->pages[(p - r->span.base) / SIM_BLOCK];
	*end = &m->pages[(p + n - 1 - r->span.base) / SIM_BLOCK + 1];
	return CUDA_SUCCESS;
}

/* A copy for those who read stays until nobody mostly reads any more. */
static void advise_page(struct page *page, CUmem_advise advice, int dev)
{
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
		page->read_mostly = true;
		break;
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		page->read_mostly = false;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		page->preferred = (short)dev;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		page->preferred = NOWHERE;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		page->accessed_by |= 1u << dev;
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		page->accessed_by &= ~(1u << dev);
		break;
	default:
		break;
	}
}

static CUresult advise(CUdeviceptr p, size_t n, CUmem_advise advice, int dev)
{
	struct page *page, *end;

	SIM_TRY(pages_of(p, n, &page, &end));
	if ((int)advice < 1 || (int)advice > 6)
		return CUDA_ERROR_INVALID_VALUE;
	for (; page < end; page++)
		advise_page(page, advice, dev);
	return CUDA_SUCCESS;
}

static int device_of(CUmemLocation where)
{
	return where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : -1;
}

SIM_SAME(cuMemAdvise, (CUdeviceptr p, size_t n, CUmem_advise a, CUdevice dev),
	 advise(p, n, a, dev))
SIM_SAME(cuMemAdvise_v2, (CUdeviceptr p, size_t n, CUmem_advise a,
			  CUmemLocation where),
	 advise(p, n, a, device_of(where)))

/* What does not fit stays on the host; what is mostly read is there too. */
static void move_page(struct page *page, uintptr_t at, int dev)
{
	page->prefetched = (short)dev;
	if (dev < 0 && page->read_mostly)
		return;
	if (page->dev != dev) {
		leave(page);
		if (dev >= 0 && !enter(page, dev))
			return;
	}
	if (dev < 0)
		touch(at);
	else
		hide(page, at);
}

static CUresult prefetch(bool pt, CUstream stream, CUdeviceptr p, size_t n,
			 int dev)
{
	uintptr_t at = p & ~(uintptr_t)(SIM_BLOCK - 1);
	struct page *page, *end;
	struct sim_line *line;
	struct sim_op *op;

	SIM_TRY(sim_line_get(stream, pt, &line));
	SIM_TRY(pages_of(p, n, &page, &end));
	if ((dev >= 0 && !sim_dev_ok(dev)) || sim_managed_still(dev) ||
	    sim_managed_still(line->ctx->dev))
		return CUDA_ERROR_INVALID_DEVICE;
	op = sim_op_new(sizeof(*op), CU_GRAPH_NODE_TYPE_EMPTY);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!line->capture)
		for (; page < end; page++, at += SIM_BLOCK)
			move_page(page, at, dev);
	return sim_submit(line, op);
}

SIM_TWINS(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
	  (CUdeviceptr p, size_t n, CUdevice dev, CUstream stream),
	  prefetch(pt, stream, p, n, dev))
SIM_TWINS(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
	  (CUdeviceptr p, size_t n, CUmemLocation where,
	   unsigned int flags SIM_UNUSED, CUstream stream),
	  prefetch(pt, stream, p, n, device_of(where)))

/* What all of them have, or NOWHERE. */
static int common(const struct page *page, const struct page *end,
		  CUmem_range_attribute which)
{
	int value, first = 0;
	bool begun = false;

	for (; page < end; page++) {
		value = which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ?
			page->read_mostly :
			which == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ?
			page->preferred : page->prefetched;
		if (begun && value != first)
			return which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ?
			       0 : NOWHERE;
		first = value;
		begun = true;
	}
	return first;
}

static void accessors(const struct page *page, const struct page *end,
		      int *out, size_t room)
{
	unsigned all = ~0u;
	size_t n = 0;
	int dev;

	for (; page < end; page++)
		all &= page->accessed_by;
	for (dev = 0; dev < SIM_DEVICES && n < room; dev++)
		if (all >> dev & 1)
			out[n++] = dev;
	while (n < room)
		out[n++] = NOWHERE;
}

SIM_API(cuMemRangeGetAttribute, (void *data, size_t size,
				 CUmem_range_attribute a, CUdeviceptr p,
				 size_t n))
{
	struct page *page, *end;

	SIM_ENTER(cuMemRangeGetAttribute);
	if (!data || size < sizeof(int) || size % sizeof(int))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(pages_of(p, n, &page, &end));
	switch (a) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*(int *)data = common(page, end, a);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		accessors(page, end, data, size / sizeof(int));
		return CUDA_SUCCESS;
	default:
		memset(data, 0, size);
		return CUDA_SUCCESS;
	}
}

SIM_SAME(cuProfilerStart, (void), CUDA_SUCCESS)
SIM_SAME(cuProfilerStop, (void), CUDA_SUCCESS)
