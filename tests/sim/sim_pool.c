/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory.  It is there when the call returns and goes back when
 * the stream comes to the free.  What the release threshold lets a pool keep
 * is only counted: bytes taken from the device that nobody uses.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

struct sim_pool {
	struct sim_heap heap;
	CUmemPoolProps props;
	bool is_default;
	bool destroyed;		/* goes with its last allocation */
	unsigned long live;
	size_t used, used_high, reserved_high;
	size_t kept;
	uint64_t threshold;
	int reuse[3];
	unsigned char access[SIM_DEVICES];
};

struct memory {
	struct sim_op op;
	CUdeviceptr at;
	unsigned long long id;	/* tells a later user of the address */
};

static struct sim_pool *pool_new(const CUmemPoolProps *props)
{
	struct sim_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->heap.dev = props->location.id;
	p->props = *props;
	p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
	p->access[props->location.id] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	sim_handle_add(SIM_KEY(p), SIM_POOL, p);
	return p;
}

static struct sim_pool *pool_default(int dev)
{
	struct sim_device *d = &sim_device[dev];
	CUmemPoolProps props;

	if (d->pool_default)
		return d->pool_default;
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = dev;
	d->pool_default = pool_new(&props);
	if (d->pool_default)
		d->pool_default->is_default = true;
	return d->pool_default;
}

static struct sim_pool *pool_current(int dev)
{
	return sim_device[dev].pool_current ? sim_device[dev].pool_current :
	       pool_default(dev);
}

static CUresult pool_get(CUmemoryPool handle, struct sim_pool **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_POOL);
	if (*out)
		return CUDA_SUCCESS;
	if (handle)
		sim_bad("use of pool %p that is not alive", (void *)handle);
	return CUDA_ERROR_INVALID_VALUE;
}

static size_t footprint(const struct sim_range *r)
{
	return r->physical ? r->physical : (r->span.len + 511) / 512 * 512;
}

static void keep_less(struct sim_pool *p, size_t bytes)
{
	if (bytes > p->kept)
		bytes = p->kept;
	p->kept -= bytes;
	sim_give(p->heap.dev, bytes);
}

static void maybe_free(struct sim_pool *p)
{
	if (!p->destroyed || p->live)
		return;
	keep_less(p, p->kept);
	free(p);
}

void sim_pool_return(struct sim_range *r)
{
	struct sim_pool *p = r->pool;
	size_t bytes = footprint(r);

	sim_native_free(r);
	p->live--;
	p->used -= bytes;
	if (p->used + p->kept + bytes <= p->threshold &&
	    sim_take(p->heap.dev, bytes) == CUDA_SUCCESS)
		p->kept += bytes;
	maybe_free(p);
}

static CUresult pool_alloc(struct sim_pool *p, struct sim_ctx *ctx,
			   size_t size, struct sim_range **out)
{
	CUresult rc;

	keep_less(p, size);
	if (p->props.maxSize && p->used + size > p->props.maxSize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->live++;
	rc = sim_heap_alloc(&p->heap, size, SIM_POOLED, out);
	if (rc == CUDA_ERROR_OUT_OF_MEMORY) {
		/* frees that are queued may be what is lacking */
		ctx->pins++;
		sim_ctx_wait(ctx);
		ctx->pins--;
		sim_wake();
		keep_less(p, p->kept);
		rc = sim_heap_alloc(&p->heap, size, SIM_POOLED, out);
	}
	if (rc != CUDA_SUCCESS) {
		p->live--;
		maybe_free(p);
		return rc;
	}
	(*out)->pool = p;
	p->used += footprint(*out);
	if (p->used > p->used_high)
		p->used_high = p->used;
	if (p->used + p->kept > p->reserved_high)
		p->reserved_high = p->used + p->kept;
	return CUDA_SUCCESS;
}

/* A graph owns what was allocated while it was captured. */
static void drop_memory(struct sim_op *op)
{
	struct memory *m = (struct memory *)op;
	struct sim_range *r = sim_range_at(m->at);

	if (!r || r->id != m->id)
		return;
	if (r->pool)
		sim_pool_return(r);
	else
		sim_native_free(r);
}

static struct memory *memory_op(const struct sim_range *r,
				CUgraphNodeType type)
{
	struct memory *m = sim_op_new(sizeof(*m), type);

	if (m) {
		m->at = r->span.base;
		m->id = r->id;
	}
	return m;
}

static CUresult alloc_async(bool pt, CUdeviceptr *out, size_t size,
			    CUmemoryPool handle, bool named, CUstream stream)
{
	struct sim_pool *p = NULL;
	struct sim_line *line;
	struct sim_range *r;
	struct memory *m;
	CUresult rc;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (named)
		SIM_TRY(pool_get(handle, &p));
	else
		p = pool_current(line->ctx->dev);
	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(sim_capture_implicit(line));
	line->pins++;
	rc = pool_alloc(p, line->ctx, size, &r);
	line->pins--;
	sim_wake();
	if (rc != CUDA_SUCCESS)
		return rc;
	*out = r->span.base;
	if (!line->capture)
		return CUDA_SUCCESS;
	m = memory_op(r, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	if (!m) {
		sim_pool_return(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->op.drop = drop_memory;
	return sim_submit(line, &m->op);
}

SIM_TWINS(cuMemAllocAsync, cuMemAllocAsync_ptsz,
	  (CUdeviceptr *out, size_t size, CUstream stream),
	  alloc_async(pt, out, size, NULL, false, stream))
SIM_TWINS(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
	  (CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream),
	  alloc_async(pt, out, size, pool, true, stream))

static void free_done(struct sim_op *op, struct sim_line *line)
{
	(void)line;
	drop_memory(op);
}

/* Plain memory too, but not as a node of a graph. */
static bool freeable(const struct sim_range *r, CUdeviceptr at,
		     const struct sim_line *line)
{
	return at && r && r->span.base == at && !r->freeing &&
	       (r->kind == SIM_POOLED ||
		(r->kind == SIM_NATIVE && !line->capture));
}

static CUresult free_async(bool pt, CUdeviceptr at, CUstream stream)
{
	struct sim_line *line;
	struct sim_range *r;
	struct memory *m;

	SIM_TRY(sim_line_get(stream, pt, &line));
	r = sim_range_at(at);
	if (!freeable(r, at, line)) {
		sim_bad("cuMemFreeAsync of %#llx, which is no allocation", at);
		return CUDA_ERROR_INVALID_VALUE;
	}
	m = memory_op(r, CU_GRAPH_NODE_TYPE_MEM_FREE);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!line->capture) {
		SIM_TRY(sim_capture_implicit(line));
		m->op.done = free_done;
		r->freeing = true;
	}
	return sim_submit(line, &m->op);
}

SIM_TWINS(cuMemFreeAsync, cuMemFreeAsync_ptsz,
	  (CUdeviceptr at, CUstream stream), free_async(pt, at, stream))

SIM_API(cuMemPoolCreate, (CUmemoryPool *out, const CUmemPoolProps *props))
{
	SIM_ENTER(cuMemPoolCreate);
	if (!out || !props ||
	    props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	     props->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_dev_ok(props->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = (CUmemoryPool)pool_new(props);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuMemPoolDestroy, (CUmemoryPool handle))
{
	struct sim_pool *p;
	int i;

	SIM_ENTER(cuMemPoolDestroy);
	SIM_TRY(pool_get(handle, &p));
	if (p->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < SIM_DEVICES; i++)
		if (sim_device[i].pool_current == p)
			sim_device[i].pool_current = NULL;
	sim_handle_drop(SIM_KEY(p));
	p->destroyed = true;
	maybe_free(p);
	return CUDA_SUCCESS;
}

SIM_API(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep))
{
	struct sim_pool *p;

	SIM_ENTER(cuMemPoolTrimTo);
	SIM_TRY(pool_get(handle, &p));
	if (p->used + p->kept > keep)
		keep_less(p, p->used + p->kept - keep);
	return CUDA_SUCCESS;
}

static size_t *pool_counter(struct sim_pool *p, CUmemPool_attribute a)
{
	switch ((int)a) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &p->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &p->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &p->used_high;
	}
	return NULL;
}

SIM_API(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute a,
				void *value))
{
	struct sim_pool *p;

	SIM_ENTER(cuMemPoolGetAttribute);
	SIM_TRY(pool_get(handle, &p));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (a >= 1 && a <= 3)
		*(int *)value = p->reuse[a - 1];
	else if (a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		*(cuuint64_t *)value = p->threshold;
	else if (a == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		*(cuuint64_t *)value = p->used + p->kept;
	else if (pool_counter(p, a))
		*(cuuint64_t *)value = *pool_counter(p, a);
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_API(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute a,
				void *value))
{
	struct sim_pool *p;

	SIM_ENTER(cuMemPoolSetAttribute);
	SIM_TRY(pool_get(handle, &p));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (a >= 1 && a <= 3)
		p->reuse[a - 1] = *(int *)value;
	else if (a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = *(cuuint64_t *)value;
	else if ((a == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
		  a == CU_MEMPOOL_ATTR_USED_MEM_HIGH) &&
		 *(cuuint64_t *)value == 0)
		*pool_counter(p, a) = p->used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_API(cuMemPoolSetAccess, (CUmemoryPool handle, const CUmemAccessDesc *d,
			     size_t n))
{
	struct sim_pool *p;
	size_t i;

	SIM_ENTER(cuMemPoolSetAccess);
	SIM_TRY(pool_get(handle, &p));
	for (i = 0; i < n; i++)
		if (!d || d[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !sim_dev_ok(d[i].location.id))
			return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++)
		p->access[d[i].location.id] = (unsigned char)d[i].flags;
	return CUDA_SUCCESS;
}

SIM_API(cuMemPoolGetAccess, (CUmemAccess_flags *flags, CUmemoryPool handle,
			     CUmemLocation *where))
{
	struct sim_pool *p;

	SIM_ENTER(cuMemPoolGetAccess);
	SIM_TRY(pool_get(handle, &p));
	if (!flags || !where || !sim_dev_ok(where->id) ||
	    where->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = (CUmemAccess_flags)p->access[where->id];
	return CUDA_SUCCESS;
}

unsigned sim_pool_access(const struct sim_pool *p, int dev)
{
	return p->access[dev];
}

static CUresult device_pool(CUmemoryPool *out, CUdevice dev, bool current)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = (CUmemoryPool)(current ? pool_current(dev) : pool_default(dev));
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_SAME(cuDeviceGetDefaultMemPool, (CUmemoryPool *out, CUdevice dev),
	 device_pool(out, dev, false))
SIM_SAME(cuDeviceGetMemPool, (CUmemoryPool *out, CUdevice dev),
	 device_pool(out, dev, true))

SIM_API(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool handle))
{
	struct sim_pool *p;

	SIM_ENTER(cuDeviceSetMemPool);
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	SIM_TRY(pool_get(handle, &p));
	if (p->heap.dev != dev)
		return CUDA_ERROR_INVALID_VALUE;
	sim_device[dev].pool_current = p;
	return CUDA_SUCCESS;
}

static void drop_pool(void *obj, void *arg)
{
	struct sim_pool *p = obj;

	(void)arg;
	sim_handle_drop(SIM_KEY(p));
	p->destroyed = true;
	maybe_free(p);
}

void sim_pool_reset(void)
{
	struct sim_range *r, *next;

	for (r = sim_ranges; r; r = next) {
		next = r->next;
		if (r->kind == SIM_POOLED)
			sim_pool_return(r);
	}
	sim_handle_each(SIM_POOL, drop_pool, NULL);
}
