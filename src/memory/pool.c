/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/pool.h"
#include "memory/pool_cache.h"
#include "memory/segment.h"
#include "base/driver.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES 64

/* under vs_segment_lock */
static struct vs_pool *pools;
static struct vs_pool *currents[DEVICES];	/* NULL: to be asked */
static unsigned long switches;

struct vs_pool *vs_pool_find(CUmemoryPool handle)
{
	struct vs_pool *p;

	for (p = pools; p; p = p->next)
		if (p->handle == handle && !p->destroyed)
			return p;
	return NULL;
}

struct vs_pool *vs_pool_first(void)
{
	return pools;
}

struct vs_pool *vs_pool_current(CUdevice device)
{
	return device >= 0 && device < DEVICES ? currents[device] : NULL;
}

void vs_pool_switched(void)
{
	int i;

	vs_lock_take(&vs_segment_lock);
	switches++;
	for (i = 0; i < DEVICES; i++)
		currents[i] = NULL;
	vs_lock_drop(&vs_segment_lock);
}

static void ask_flag(CUmemoryPool handle, CUmemPool_attribute attribute,
		     int *out)
{
	int value;

	*out = 1;
	if (!vs_real.cuMemPoolGetAttribute(handle, attribute, &value))
		*out = value;
}

static struct vs_pool *make(CUmemoryPool handle, CUdevice device)
{
	struct vs_pool *p = calloc(1, sizeof(*p));
	cuuint64_t threshold;

	if (!p)
		return NULL;
	p->handle = handle;
	p->device = device;
	ask_flag(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		 &p->opportunistic);
	ask_flag(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
		 &p->depend);
	if (!vs_real.cuMemPoolGetAttribute(handle,
					   CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					   &threshold))
		p->threshold = threshold;
	return p;
}

/* Somebody else may have made it known meanwhile. */
static struct vs_pool *add(struct vs_pool *fresh)
{
	struct vs_pool *known = vs_pool_find(fresh->handle);

	if (known) {
		free(fresh);
		return known;
	}
	fresh->next = pools;
	pools = fresh;
	return fresh;
}

/* Older headers have it among what is reserved. */
static unsigned usage_of(const CUmemPoolProps *props)
{
	unsigned short usage;

	memcpy(&usage, &props->maxSize + 1, sizeof(usage));
	return usage;
}

void vs_pool_created(CUmemoryPool handle, const CUmemPoolProps *props)
{
	struct vs_pool *p = make(handle, props->location.id);

	if (!p)
		return;
	p->native = props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		    props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
		    usage_of(props);
	p->max_size = props->maxSize;
	vs_lock_take(&vs_segment_lock);
	add(p);
	vs_lock_drop(&vs_segment_lock);
}

/* The device whose default pool it is, or -1. */
static CUdevice default_of(CUmemoryPool handle, CUdevice first)
{
	CUmemoryPool found;
	int device, count = 0;

	if (!vs_real.cuDeviceGetDefaultMemPool(&found, first) &&
	    found == handle)
		return first;
	if (vs_real.cuDeviceGetCount(&count))
		return -1;
	for (device = 0; device < count; device++)
		if (!vs_real.cuDeviceGetDefaultMemPool(&found, device) &&
		    found == handle)
			return device;
	return -1;
}

/* One that was not created before our eyes: a default one, or native. */
static struct vs_pool *learn_default(CUmemoryPool handle, CUdevice first)
{
	CUdevice device = default_of(handle, first);
	struct vs_pool *p;

	if (device < 0)
		return NULL;
	p = make(handle, device);
	if (p)
		p->is_default = true;
	return p;
}

struct vs_pool *vs_pool_learn(const struct vs_pool_ask *ask, CUdevice device)
{
	CUmemoryPool handle = ask->pool;
	unsigned long before;
	struct vs_pool *p, *fresh = NULL;

	vs_lock_take(&vs_segment_lock);
	before = switches;
	vs_lock_drop(&vs_segment_lock);
	if (!ask->named && vs_real.cuDeviceGetMemPool(&handle, device))
		return NULL;
	vs_lock_take(&vs_segment_lock);
	p = vs_pool_find(handle);
	vs_lock_drop(&vs_segment_lock);
	if (!p)
		fresh = learn_default(handle, device);
	if (!p && !fresh)
		return NULL;
	vs_lock_take(&vs_segment_lock);
	p = fresh ? add(fresh) : vs_pool_find(handle);
	if (p && !ask->named && device < DEVICES && before == switches)
		currents[device] = p;
	if (p)
		p->users++;
	vs_lock_drop(&vs_segment_lock);
	return p;
}

static void end(struct vs_pool *pool)
{
	struct vs_pool **link = &pools;
	int i;

	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	for (i = 0; i < DEVICES; i++)
		if (currents[i] == pool)
			currents[i] = NULL;
	vs_pool_cache_forget_pool(pool);
	free(pool);
}

void vs_pool_drop(struct vs_pool *pool)
{
	if (!--pool->users && pool->destroyed && !pool->cached)
		end(pool);
}

/* Out of sight before the driver's call: the handle may come again at once. */
struct vs_pool *vs_pool_leave(CUmemoryPool handle)
{
	struct vs_pool *p;

	vs_lock_take(&vs_segment_lock);
	p = vs_pool_find(handle);
	if (p && p->is_default)
		p = NULL;
	if (p) {
		p->destroyed = true;
		p->users++;
	}
	vs_lock_drop(&vs_segment_lock);
	return p;
}

void vs_pool_left(struct vs_pool *pool, CUresult result)
{
	if (!result)
		vs_pool_switched();
	if (!pool)
		return;
	if (!result)
		vs_pool_give_back(pool, 0, VS_POOL_STAY);
	vs_lock_take(&vs_segment_lock);
	if (result)
		pool->destroyed = false;
	else
		pool->threshold = 0;
	vs_pool_drop(pool);
	vs_lock_drop(&vs_segment_lock);
}

static size_t *counter(struct vs_pool *pool, CUmemPool_attribute attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

CUresult vs_pool_get(CUmemoryPool handle, CUmemPool_attribute attribute,
		     void *value)
{
	CUresult rc = vs_real.cuMemPoolGetAttribute(handle, attribute, value);
	struct vs_pool *p;

	if (rc)
		return rc;
	vs_lock_take(&vs_segment_lock);
	p = vs_pool_find(handle);
	if (p && counter(p, attribute))
		*(cuuint64_t *)value += *counter(p, attribute);
	vs_lock_drop(&vs_segment_lock);
	return rc;
}

static void remember(struct vs_pool *p, CUmemPool_attribute attribute,
		     const void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		p->opportunistic = *(const int *)value;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		p->depend = *(const int *)value;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		p->threshold = *(const cuuint64_t *)value;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		p->reserved_high = p->reserved;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		p->used_high = p->used;
		break;
	default:
		break;
	}
}

CUresult vs_pool_set(CUmemoryPool handle, CUmemPool_attribute attribute,
		     void *value)
{
	CUresult rc = vs_real.cuMemPoolSetAttribute(handle, attribute, value);
	struct vs_pool *p;

	if (rc)
		return rc;
	vs_lock_take(&vs_segment_lock);
	p = vs_pool_find(handle);
	if (p) {
		remember(p, attribute, value);
		vs_pool_watch(p);
	}
	vs_lock_drop(&vs_segment_lock);
	return rc;
}

size_t vs_pool_spare(CUdevice device)
{
	struct vs_pool *p;
	size_t sum = 0;

	for (p = pools; p; p = p->next)
		if (p->device == device)
			sum += p->cached;
	return sum;
}
