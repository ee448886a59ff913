/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/foreign_share.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A handle that the driver is about to get. */
struct use {
	struct vs_foreign *foreign;	/* pinned, or NULL */
	CUmemGenericAllocationHandle real;
	bool fresh;			/* it was not kept before */
};

static CUresult refuse_asleep(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		vs_log_warn("memory that the program created cannot be "
			    "shared while it sleeps: wake its tag first");
	return CUDA_ERROR_NOT_PERMITTED;
}

static CUresult begin_use(struct use *use, CUmemGenericAllocationHandle name,
			  const char *reason)
{
	struct vs_foreign *f;
	bool asleep;

	*use = (struct use){ .real = name };
	if (!vs_foreign_is_name(name))
		return CUDA_SUCCESS;
	vs_lock_take(&vs_segment_lock);
	f = vs_foreign_await(name);
	asleep = f && vs_foreign_asleep(f);
	if (f && !asleep) {
		vs_segment_pin(&f->segment);
		use->foreign = f;
		use->real = f->chunk.handle;
		use->fresh = !f->segment.kept_why;
		if (use->fresh)
			f->segment.kept_why = reason;
	}
	vs_lock_drop(&vs_segment_lock);
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	return asleep ? refuse_asleep() : CUDA_SUCCESS;
}

static CUresult end_use(struct use *use, CUresult rc)
{
	if (!use->foreign)
		return rc;
	vs_lock_take(&vs_segment_lock);
	if (rc && use->fresh)
		use->foreign->segment.kept_why = NULL;
	vs_segment_unpin(&use->foreign->segment);
	vs_lock_drop(&vs_segment_lock);
	return rc;
}

CUresult vs_foreign_export(void *out, CUmemGenericAllocationHandle handle,
			   CUmemAllocationHandleType type,
			   unsigned long long flags)
{
	struct use use;
	CUresult rc = begin_use(&use, handle, "exported to another process");

	if (rc)
		return rc;
	return end_use(&use, vs_real.cuMemExportToShareableHandle(out,
						use.real, type, flags));
}

CUresult vs_foreign_import(CUmemGenericAllocationHandle *handle, void *from,
			   CUmemAllocationHandleType type)
{
	CUresult rc = vs_real.cuMemImportFromShareableHandle(handle, from,
							     type);
	int tag = vs_tag_current();
	CUmemAllocationProp prop;
	struct vs_foreign *f;

	if (rc || tag == VS_TAG_NATIVE ||
	    vs_real.cuMemGetAllocationPropertiesFromHandle(&prop, *handle) ||
	    prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return rc;
	f = vs_foreign_new(*handle, 0, &prop, 0, tag);
	if (!f)
		return CUDA_SUCCESS;
	vs_lock_take(&vs_segment_lock);
	f->imported = true;
	f->segment.kept_why = "imported from another process";
	vs_lock_drop(&vs_segment_lock);
	*handle = f->name;
	return CUDA_SUCCESS;
}

CUresult vs_foreign_bind(CUmemGenericAllocationHandle multicast,
			 size_t multicast_offset,
			 CUmemGenericAllocationHandle handle, size_t offset,
			 size_t size, unsigned long long flags)
{
	struct use use;
	CUresult rc;

	if (!vs_real.cuMulticastBindMem)
		return CUDA_ERROR_NOT_FOUND;
	rc = begin_use(&use, handle, "bound to a multicast object");
	if (rc)
		return rc;
	return end_use(&use, vs_real.cuMulticastBindMem(multicast,
				multicast_offset, use.real, offset, size,
				flags));
}

/* Inside the gate no sleep begins between the call and this. */
static void keep_range(CUdeviceptr base, size_t size, const char *reason)
{
	struct vs_mapping *m;

	vs_lock_take(&vs_segment_lock);
	m = vs_mapping_after(base);
	for (; m && m->base < base + size;
	     m = vs_mapping_after(m->base + m->size))
		if (m->foreign && !m->foreign->segment.kept_why)
			m->foreign->segment.kept_why = reason;
	vs_lock_drop(&vs_segment_lock);
}

CUresult vs_foreign_bind_address(CUmemGenericAllocationHandle multicast,
				 size_t offset, CUdeviceptr base, size_t size,
				 unsigned long long flags)
{
	CUresult rc;

	if (!vs_real.cuMulticastBindAddr)
		return CUDA_ERROR_NOT_FOUND;
	rc = vs_real.cuMulticastBindAddr(multicast, offset, base, size, flags);
	if (!rc)
		keep_range(base, size, "bound to a multicast object");
	return rc;
}

bool vs_foreign_handle_for_range(void *handle, CUdeviceptr base, size_t size,
				 CUmemRangeHandleType type,
				 unsigned long long flags, CUresult *rc)
{
	struct vs_mapping *m;
	bool ours;

	vs_lock_take(&vs_segment_lock);
	m = vs_mapping_find(base);
	ours = m && m->foreign;
	vs_lock_drop(&vs_segment_lock);
	if (!ours)
		return false;
	*rc = vs_real.cuMemGetHandleForAddressRange(handle, base, size, type,
						    flags);
	if (!*rc)
		keep_range(base, size, "a dma-buf was made of it");
	return true;
}

bool vs_foreign_keep(CUdeviceptr address, const char *reason)
{
	struct vs_mapping *m;
	bool fresh;

	vs_lock_take(&vs_segment_lock);
	while ((m = vs_mapping_find(address)) && m->foreign &&
	       m->foreign->segment.pins)
		vs_segment_wait_change();
	fresh = m && m->foreign && !m->foreign->segment.kept_why;
	if (fresh)
		m->foreign->segment.kept_why = reason;
	vs_lock_drop(&vs_segment_lock);
	return fresh;
}

void vs_foreign_let_go(CUdeviceptr address)
{
	struct vs_mapping *m;

	vs_lock_take(&vs_segment_lock);
	m = vs_mapping_find(address);
	if (m && m->foreign)
		m->foreign->segment.kept_why = NULL;
	vs_lock_drop(&vs_segment_lock);
}

/* The driver gets a list of its own, with its own handles. */
static CUresult translate(CUarrayMapInfo *list, struct use *uses,
			  unsigned int count)
{
	CUresult rc = CUDA_SUCCESS;
	unsigned int i;

	for (i = 0; !rc && i < count; i++) {
		if (list[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP)
			continue;
		rc = begin_use(&uses[i], list[i].memHandle.memHandle,
			       "mapped into an array");
		list[i].memHandle.memHandle = uses[i].real;
	}
	return rc;
}

CUresult vs_foreign_map_arrays(vs_foreign_map_call *call,
			       CUarrayMapInfo *list, unsigned int count,
			       CUstream stream)
{
	CUarrayMapInfo *copy;
	struct use *uses;
	unsigned int i;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!list || !count)
		return call(list, count, stream);
	copy = calloc(count, sizeof(*copy));
	uses = calloc(count, sizeof(*uses));
	if (copy && uses) {
		memcpy(copy, list, count * sizeof(*copy));
		rc = translate(copy, uses, count);
		if (!rc)
			rc = call(copy, count, stream);
		for (i = 0; i < count; i++)
			end_use(&uses[i], rc);
	}
	free(copy);
	free(uses);
	return rc;
}
