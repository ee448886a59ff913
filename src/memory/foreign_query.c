/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/foreign_query.h"
#include "memory/foreign_share.h"
#include "memory/query.h"
#include "base/context.h"
#include "base/driver.h"

#include <string.h>

#define NOBODYS ((CUdeviceptr)8)

/* What is no more than a fact about a mapping. */
static const CUpointer_attribute asked[VS_MAPPING_SAID] = {
	CU_POINTER_ATTRIBUTE_CONTEXT,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	CU_POINTER_ATTRIBUTE_BUFFER_ID,
	CU_POINTER_ATTRIBUTE_IS_MANAGED,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	CU_POINTER_ATTRIBUTE_MAPPED,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID,
};

struct view {
	CUdeviceptr base;
	size_t size;
	CUdeviceptr range_base;
	size_t range_size;
	bool there;
	unsigned went;
	bool said;
	uint64_t id, block_id;
	uint64_t answers[VS_MAPPING_SAID];
	CUmemGenericAllocationHandle name;
	CUmemAllocationProp prop;
};

static void fill(struct view *out, const struct vs_mapping *m)
{
	out->base = m->base;
	out->size = m->size;
	out->there = m->there;
	out->went = m->went;
	out->said = m->said;
	out->id = m->id;
	out->block_id = m->foreign->block_id;
	memcpy(out->answers, m->answers, sizeof(out->answers));
	out->name = m->foreign->name;
	out->prop = m->foreign->granted;
	if (m->there || !vs_mapping_range(m->base, &out->range_base,
					  &out->range_size)) {
		out->range_base = m->base;
		out->range_size = m->size;
	}
}

static bool look(CUdeviceptr address, struct view *out)
{
	struct vs_mapping *m;
	bool found;

	if (!vs_mapping_any())
		return false;
	vs_lock_take(&vs_segment_lock);
	m = vs_mapping_find(address);
	found = m && m->foreign;
	if (found)
		fill(out, m);
	vs_lock_drop(&vs_segment_lock);
	return found;
}

/* The mapping went while the driver was asked, so that its answer may be that
 * about a bare range: @view is what there is now. */
static bool went(CUdeviceptr address, struct view *view)
{
	unsigned before = view->went;

	return look(address, view) && (!view->there || view->went != before);
}

/* Numbers of the driver's are others each time that it wakes; the program goes
 * by those that it was told. */
static uint64_t id_of(CUpointer_attribute attribute, const struct view *v)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		return v->id;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return v->block_id;
	default:
		return 0;
	}
}

static void give_id(void *data, CUpointer_attribute attribute,
		    const struct view *v)
{
	if (id_of(attribute, v))
		*(uint64_t *)data = id_of(attribute, v);
}

/* With the lock. */
static void note(struct vs_foreign *f, struct vs_mapping *m,
		 const uint64_t *answers)
{
	int i;

	m->said = true;
	memcpy(m->answers, answers, sizeof(m->answers));
	for (i = 0; i < VS_MAPPING_SAID; i++) {
		if (asked[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID && !m->id)
			m->id = answers[i];
		if (asked[i] == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID &&
		    !f->block_id)
			f->block_id = answers[i];
	}
}

void vs_foreign_remember(struct vs_foreign *foreign,
			 struct vs_mapping *mapping)
{
	uint64_t answers[VS_MAPPING_SAID] = { 0 };
	CUpointer_attribute attributes[VS_MAPPING_SAID];
	void *data[VS_MAPPING_SAID];
	struct vs_context_scope scope;
	struct vs_context *context;
	CUresult rc;
	int i;

	if (!vs_context_pin_device(foreign->segment.device, &context, 1))
		return;
	for (i = 0; i < VS_MAPPING_SAID; i++) {
		attributes[i] = asked[i];
		data[i] = &answers[i];
	}
	if (!vs_context_enter(context, &scope, NULL)) {
		rc = vs_real.cuPointerGetAttributes(VS_MAPPING_SAID,
						    attributes, data,
						    mapping->base);
		vs_context_leave(&scope);
		vs_lock_take(&vs_segment_lock);
		mapping->said = false;
		if (!rc)
			note(foreign, mapping, answers);
		vs_lock_drop(&vs_segment_lock);
	}
	vs_context_unpin(context);
}

/* Mapped while it sleeps: nobody has asked the driver yet. */
static bool guess(CUpointer_attribute attribute, const struct view *v,
		  uint64_t *out)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*out = (uint64_t)v->prop.location.id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*out = v->range_base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*out = v->range_size;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = 1;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*out = (uint64_t)v->prop.requestedHandleTypes;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*out = v->prop.allocFlags.gpuDirectRDMACapable;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*out = v->name;
		return true;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*out = 0;
		return true;
	}
	return false;
}

static CUmemAccess_flags access_at(CUdeviceptr address,
				   const CUmemLocation *where)
{
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	struct vs_mapping *m;

	vs_lock_take(&vs_segment_lock);
	m = vs_mapping_find(address);
	if (m)
		flags = vs_mapping_access(m, where, address);
	vs_lock_drop(&vs_segment_lock);
	return flags;
}

static uint64_t access_here(CUdeviceptr address)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

	if (vs_real.cuCtxGetDevice(&here.id))
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return (uint64_t)access_at(address, &here);
}

static bool value_of(CUpointer_attribute attribute, CUdeviceptr address,
		     const struct view *v, uint64_t *out)
{
	int i;

	*out = id_of(attribute, v);
	if (*out)
		return true;
	for (i = 0; v->said && i < VS_MAPPING_SAID; i++) {
		if (asked[i] != attribute)
			continue;
		*out = v->answers[i];
		return true;
	}
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*out = address;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*out = v->base;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*out = v->size;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*out = access_here(address);
		return true;
	default:
		return guess(attribute, v, out);
	}
}

static bool is_wide(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return false;
	}
	return true;
}

/* What neither it nor we have said has the value of where it does not apply,
 * if the driver knows of it at all. */
static CUresult answer(void *data, CUpointer_attribute attribute,
		       CUdeviceptr address, const struct view *v)
{
	uint64_t value;

	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
	    attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!value_of(attribute, address, v, &value))
		return vs_real.cuPointerGetAttributes(1, &attribute, &data,
						      NOBODYS);
	if (is_wide(attribute))
		*(uint64_t *)data = value;
	else
		*(uint32_t *)data = (uint32_t)value;
	return CUDA_SUCCESS;
}

bool vs_foreign_attribute(void *data, CUpointer_attribute attribute,
			  CUdeviceptr address, CUresult *rc)
{
	bool tokens = attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS, fresh;
	struct view view;

	if (!data || !look(address, &view))
		return false;
	fresh = tokens && view.there &&
		vs_foreign_keep(address, "P2P tokens were asked for");
	while (view.there) {
		*rc = vs_real.cuPointerGetAttribute(data, attribute, address);
		if (went(address, &view))
			continue;
		if (!*rc)
			give_id(data, attribute, &view);
		else if (fresh)
			vs_foreign_let_go(address);
		return true;
	}
	if (fresh)
		vs_foreign_let_go(address);
	*rc = answer(data, attribute, address, &view);
	return true;
}

/* In this form what does not apply to the memory is NULL, not an error. */
static CUresult answer_all(unsigned int count,
			   const CUpointer_attribute *attributes, void **data,
			   CUdeviceptr address, const struct view *v)
{
	CUresult rc = CUDA_SUCCESS;
	unsigned int i;

	for (i = 0; !rc && i < count; i++)
		if (!data[i])
			rc = CUDA_ERROR_INVALID_VALUE;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			*(void **)data[i] = NULL;
		else
			rc = answer(data[i], attributes[i], address, v);
	return rc;
}

bool vs_foreign_attributes(unsigned int count,
			   CUpointer_attribute *attributes, void **data,
			   CUdeviceptr address, CUresult *rc)
{
	struct view view;
	unsigned int i;
	bool fresh;

	if (!count || !attributes || !data || !look(address, &view))
		return false;
	fresh = view.there && vs_query_has_tokens(count, attributes) &&
		vs_foreign_keep(address, "P2P tokens were asked for");
	while (view.there) {
		*rc = vs_real.cuPointerGetAttributes(count, attributes, data,
						     address);
		if (went(address, &view))
			continue;
		for (i = 0; !*rc && i < count; i++)
			give_id(data[i], attributes[i], &view);
		if (*rc && fresh)
			vs_foreign_let_go(address);
		return true;
	}
	if (fresh)
		vs_foreign_let_go(address);
	*rc = answer_all(count, attributes, data, address, &view);
	return true;
}

bool vs_foreign_set_attribute(const void *value,
			      CUpointer_attribute attribute,
			      CUdeviceptr address, CUresult *rc)
{
	struct view view;
	bool fresh;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    !look(address, &view))
		return false;
	fresh = view.there && *(const unsigned int *)value &&
		vs_foreign_keep(address, "SYNC_MEMOPS was set");
	*rc = CUDA_ERROR_NOT_SUPPORTED;
	while (view.there) {
		*rc = vs_real.cuPointerSetAttribute(value, attribute, address);
		if (!went(address, &view))
			break;
		*rc = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (*rc && fresh)
		vs_foreign_let_go(address);
	return true;
}

bool vs_foreign_range(CUdeviceptr *base, size_t *size, CUdeviceptr address,
		      CUresult *rc)
{
	struct view view;

	if (!look(address, &view))
		return false;
	while (view.there) {
		*rc = vs_real.cuMemGetAddressRange_v2(base, size, address);
		if (!went(address, &view))
			return true;
	}
	if (base)
		*base = view.base;
	if (size)
		*size = view.size;
	*rc = CUDA_SUCCESS;
	return true;
}

bool vs_foreign_get_access(unsigned long long *flags,
			   const CUmemLocation *location, CUdeviceptr address,
			   CUresult *rc)
{
	struct view view;

	if (!flags || !location || !look(address, &view))
		return false;
	while (view.there) {
		*rc = vs_real.cuMemGetAccess(flags, location, address);
		if (!went(address, &view))
			return true;
	}
	*flags = (unsigned long long)access_at(address, location);
	*rc = CUDA_SUCCESS;
	return true;
}
