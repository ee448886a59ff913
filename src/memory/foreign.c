/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#define HASH_NONFATAL_OOM 1

#include "memory/foreign.h"
#include "memory/allocator.h"
#include "memory/unmanaged.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"

#include <stdlib.h>

/* Beyond what an address or a small number can be. */
#define NAMES ((CUmemGenericAllocationHandle)0x7673 << 48)

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) hash_failed = true

/* under vs_segment_lock */
static struct vs_foreign *foreigns;
static CUmemGenericAllocationHandle last_name = NAMES;
static bool hash_failed;

bool vs_foreign_is_name(CUmemGenericAllocationHandle handle)
{
	return handle >> 48 == NAMES >> 48;
}

struct vs_foreign *vs_foreign_find(CUmemGenericAllocationHandle name)
{
	struct vs_foreign *f;

	HASH_FIND(hh, foreigns, &name, sizeof(name), f);
	return f && f->references ? f : NULL;
}

struct vs_foreign *vs_foreign_await(CUmemGenericAllocationHandle name)
{
	struct vs_foreign *f;

	while ((f = vs_foreign_find(name)) && f->segment.pins)
		vs_segment_wait_change();
	return f;
}

bool vs_foreign_asleep(const struct vs_foreign *foreign)
{
	return foreign->chunk.state == VS_CHUNK_EVICTED;
}

static void fill(struct vs_foreign *f, CUmemGenericAllocationHandle real,
		 size_t size, int tag)
{
	f->references = 1;
	f->chunk.size = size;
	f->chunk.state = VS_CHUNK_RESIDENT;
	f->chunk.handle = real;
	f->chunk.blocks = 1;
	f->segment.size = size;
	f->segment.device = f->prop.location.id;
	f->segment.tag = tag;
	f->segment.chunks = &f->chunk;
	f->segment.chunk_count = 1;
	f->segment.live_count = 1;
	f->segment.live_bytes = size;
	f->segment.foreign = f;
	if (f->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL)
		f->segment.kept_why = "a pool of tiles for arrays";
}

struct vs_foreign *vs_foreign_new(CUmemGenericAllocationHandle real,
				  size_t size,
				  const CUmemAllocationProp *prop,
				  unsigned long long flags, int tag)
{
	struct vs_foreign *f = calloc(1, sizeof(*f));
	bool added;

	if (!f)
		return NULL;
	f->prop = f->granted = *prop;
	f->flags = flags;
	fill(f, real, size, tag);
	vs_lock_take(&vs_segment_lock);
	f->name = ++last_name;
	hash_failed = false;
	HASH_ADD(hh, foreigns, name, sizeof(f->name), f);
	added = !hash_failed;
	if (added && !vs_segment_add(&f->segment)) {
		HASH_DEL(foreigns, f);
		added = false;
	}
	vs_lock_drop(&vs_segment_lock);
	if (added)
		return f;
	free(f);
	return NULL;
}

/* Memory that we hold spare is the program's when it runs out of it. */
static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop,
		       unsigned long long flags)
{
	CUresult rc = vs_real.cuMemCreate(handle, size, prop, flags);

	if (rc != CUDA_ERROR_OUT_OF_MEMORY ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return rc;
	vs_allocator_make_room(prop->location.id, NULL);
	return vs_real.cuMemCreate(handle, size, prop, flags);
}

CUresult vs_foreign_create(CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop,
			   unsigned long long flags)
{
	int tag = vs_tag_current();
	CUmemGenericAllocationHandle real;
	struct vs_foreign *f;
	CUresult rc;

	if (!handle || !prop)
		return vs_real.cuMemCreate(handle, size, prop, flags);
	rc = create(&real, size, prop, flags);
	if (rc)
		return rc;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    tag == VS_TAG_NATIVE) {
		if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
			vs_unmanaged_add(VS_UNMANAGED_VMM, real, size);
		*handle = real;
		return CUDA_SUCCESS;
	}
	f = vs_foreign_new(real, size, prop, flags, tag);
	if (!f) {
		vs_vmm_release(real, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = f->name;
	return CUDA_SUCCESS;
}

static bool is_over(const struct vs_foreign *f)
{
	return !f->references && !f->mappings;
}

/* Another thread's call may have used the name until now. */
void vs_foreign_end(struct vs_foreign *foreign)
{
	CUstreamCaptureMode mode;
	bool over;

	vs_lock_take(&vs_segment_lock);
	vs_segment_wait_pins(&foreign->segment, 0);
	over = is_over(foreign);
	foreign->dying = over;
	if (over) {
		HASH_DEL(foreigns, foreign);
		vs_segment_remove(&foreign->segment);
	}
	vs_lock_drop(&vs_segment_lock);
	if (!over)
		return;
	mode = vs_context_relax();
	vs_store_drop(foreign->chunk.backup);
	if (foreign->chunk.state == VS_CHUNK_RESIDENT)
		vs_vmm_release(foreign->chunk.handle, foreign->chunk.size);
	vs_context_unrelax(mode);
	free(foreign);
}

bool vs_foreign_ends(struct vs_foreign *foreign)
{
	if (!is_over(foreign) || foreign->dying)
		return false;
	foreign->dying = true;
	return true;
}

CUresult vs_foreign_release(CUmemGenericAllocationHandle handle)
{
	struct vs_foreign *f;
	bool ends;

	if (!vs_foreign_is_name(handle)) {
		vs_unmanaged_released(handle);
		return vs_real.cuMemRelease(handle);
	}
	vs_lock_take(&vs_segment_lock);
	f = vs_foreign_find(handle);
	if (f)
		f->references--;
	ends = f && vs_foreign_ends(f);
	vs_lock_drop(&vs_segment_lock);
	if (ends)
		vs_foreign_end(f);
	return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vs_foreign_retain(CUmemGenericAllocationHandle *handle,
			   CUdeviceptr address)
{
	struct vs_foreign *f = NULL;
	struct vs_mapping *m;
	CUresult rc;

	vs_lock_take(&vs_segment_lock);
	m = handle ? vs_mapping_find(address) : NULL;
	if (m)
		f = m->foreign;
	if (f) {
		f->references++;
		*handle = f->name;
	}
	vs_lock_drop(&vs_segment_lock);
	if (f)
		return CUDA_SUCCESS;
	rc = vs_real.cuMemRetainAllocationHandle(handle, (void *)address);
	if (!rc)
		vs_unmanaged_retained(*handle);
	return rc;
}

CUresult vs_foreign_properties(CUmemAllocationProp *prop,
			       CUmemGenericAllocationHandle handle)
{
	CUmemGenericAllocationHandle real = handle;
	struct vs_foreign *f;
	CUresult rc;

	if (!prop || !vs_foreign_is_name(handle))
		return vs_real.cuMemGetAllocationPropertiesFromHandle(prop,
								      handle);
	vs_lock_take(&vs_segment_lock);
	f = vs_foreign_find(handle);
	if (f && (f->segment.pins || vs_foreign_asleep(f))) {
		*prop = f->granted;
		real = 0;
	} else if (f) {
		vs_segment_pin(&f->segment);
		real = f->chunk.handle;
	}
	vs_lock_drop(&vs_segment_lock);
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	if (!real)
		return CUDA_SUCCESS;
	rc = vs_real.cuMemGetAllocationPropertiesFromHandle(prop, real);
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(&f->segment);
	vs_lock_drop(&vs_segment_lock);
	return rc;
}
