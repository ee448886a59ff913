/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "memory/allocator.h"
#include "memory/managed.h"
#include "memory/pool.h"
#include "memory/pool_stream.h"
#include "memory/query.h"
#include "memory/unmanaged.h"
#include "sleep/watch.h"

/* Somebody has to give back what the program leaves unused. */
static CUresult watched(CUresult rc)
{
	if (vs_gate_mine() && vs_pool_unwatched())
		vs_watch_begin();
	return rc;
}

/* Count what the driver has just given out; what a graph has got is counted
 * with the memory of graphs. */
static CUresult given(CUresult rc, const CUdeviceptr *address,
		      const struct vs_pool_ask *ask)
{
	if (!rc && vs_gate_mine() &&
	    !vs_pool_captured(ask->stream, ask->per_thread))
		vs_unmanaged_add(VS_UNMANAGED_POOL, *address, ask->size);
	return rc;
}

#define ALLOC_ASYNC(sym, thread)					\
static CUresult alloc_##sym(CUdeviceptr *out, size_t size,		\
			    CUstream stream)				\
{									\
	const struct vs_pool_ask ask = {				\
		.size = size, .stream = stream, .per_thread = thread,	\
	};								\
	CUresult rc;							\
									\
	if (vs_gate_mine() && vs_pool_alloc(&ask, out, &rc))		\
		return rc;						\
	return given(VS_REAL(sym, (out, size, stream)), out, &ask);	\
}									\
VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize, CUstream hStream),	\
	  alloc_##sym(dptr, bytesize, hStream))
ALLOC_ASYNC(cuMemAllocAsync, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, true)

#define ALLOC_FROM_POOL(sym, thread)					\
static CUresult alloc_##sym(CUdeviceptr *out, size_t size,		\
			    CUmemoryPool pool, CUstream stream)		\
{									\
	const struct vs_pool_ask ask = {				\
		.size = size, .named = true, .pool = pool,		\
		.stream = stream, .per_thread = thread,			\
	};								\
	CUresult rc;							\
									\
	if (vs_gate_mine() && vs_pool_alloc(&ask, out, &rc))		\
		return rc;						\
	return given(VS_REAL(sym, (out, size, pool, stream)), out, &ask); \
}									\
VS_INSIDE(sym, (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,	\
		CUstream hStream),					\
	  alloc_##sym(dptr, bytesize, pool, hStream))
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

/* What is known of memory of the driver's own, for as long as its free may
 * fail. */
struct native {
	size_t pool, managed;
	struct vs_managed *record;
};

static struct native forget(CUdeviceptr base)
{
	return (struct native){
		.pool = vs_unmanaged_remove(VS_UNMANAGED_POOL, base),
		.managed = vs_unmanaged_remove(VS_UNMANAGED_MANAGED, base),
		.record = vs_managed_take(base),
	};
}

static CUresult forgotten(CUresult rc, CUdeviceptr base,
			  const struct native *had)
{
	if (!rc) {
		vs_managed_drop(had->record);
		return rc;
	}
	if (had->pool)
		vs_unmanaged_add(VS_UNMANAGED_POOL, base, had->pool);
	if (had->managed)
		vs_unmanaged_add(VS_UNMANAGED_MANAGED, base, had->managed);
	vs_managed_put_back(had->record);
	return rc;
}

/* Plain allocations may be freed in a stream's order too.  As all frees it
 * goes through while the program is held. */
#define FREE_ASYNC(sym, thread)						\
VS_EXPORT CUresult sym(CUdeviceptr dptr, CUstream hStream)		\
{									\
	struct native had;						\
	CUresult rc;							\
									\
	if (!vs_gate_mine())						\
		return VS_REAL(sym, (dptr, hStream));			\
	if (vs_pool_free(dptr, hStream, thread, &rc))			\
		return watched(rc);					\
	if (vs_query_covers(dptr))					\
		return vs_allocator_free_later(dptr);			\
	had = forget(dptr);						\
	return forgotten(VS_REAL(sym, (dptr, hStream)), dptr, &had);	\
}
FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)

VS_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool,
				   const CUmemPoolProps *props)
{
	CUresult rc = VS_REAL(cuMemPoolCreate, (pool, props));

	if (!rc && vs_gate_mine())
		vs_pool_created(*pool, props);
	return rc;
}

VS_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct vs_pool *known = NULL;
	CUresult rc;

	if (vs_gate_mine())
		known = vs_pool_leave(pool);
	rc = VS_REAL(cuMemPoolDestroy, (pool));
	if (vs_gate_mine())
		vs_pool_left(known, rc);
	return watched(rc);
}

VS_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemPoolTrimTo, (pool, keep));
	return vs_pool_trim(pool, keep);
}

VS_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool,
					 CUmemPool_attribute attribute,
					 void *value)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemPoolGetAttribute,
			       (pool, attribute, value));
	return vs_pool_get(pool, attribute, value);
}

VS_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool,
					 CUmemPool_attribute attribute,
					 void *value)
{
	if (!vs_gate_mine())
		return VS_REAL(cuMemPoolSetAttribute,
			       (pool, attribute, value));
	return watched(vs_pool_set(pool, attribute, value));
}

static CUresult switched(CUresult rc)
{
	if (!rc && vs_gate_mine())
		vs_pool_switched();
	return rc;
}

VS_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	return switched(VS_REAL(cuDeviceSetMemPool, (device, pool)));
}

VS_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location,
				   CUmemAllocationType type,
				   CUmemoryPool pool)
{
	return switched(VS_REAL(cuMemSetMemPool, (location, type, pool)));
}
