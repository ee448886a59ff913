/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/foreign_back.h"
#include "memory/foreign_query.h"
#include "memory/vmm.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdlib.h>

#define DESCS 32	/* access settings in one call */

static enum vs_status fail(struct vs_why *why, CUresult rc, const char *what,
			   const struct vs_foreign *f)
{
	char error[96];

	return vs_why_set(why, rc == CUDA_ERROR_OUT_OF_MEMORY ? VS_NOMEM :
			  VS_CUDA, "%s of %zu MiB on device %d, made by the "
			  "program: %s", what, f->chunk.size >> 20,
			  f->segment.device,
			  vs_driver_error(rc, error, sizeof(error)));
}

/* The operation has it pinned: a call of the program that came before is let
 * end, and none begins. */
static void settle(struct vs_foreign *f)
{
	vs_lock_take(&vs_segment_lock);
	vs_segment_wait_pins(&f->segment, 1);
	vs_lock_drop(&vs_segment_lock);
}

/* No longer there from before the driver is told: what is asked meanwhile is
 * answered from the records. */
static void set_there(struct vs_mapping *m, bool there)
{
	vs_lock_take(&vs_segment_lock);
	m->there = there;
	if (!there)
		m->went++;
	vs_lock_drop(&vs_segment_lock);
}

static bool unmap_again(CUdeviceptr base, size_t size)
{
	return !vs_vmm_unmap(base, size, NULL) ||
	       !vs_vmm_unmap(base, size, NULL);
}

/* Unmap for good.  What cannot be is remembered with a reference of its own,
 * and its memory stays until then. */
static void take_away(CUdeviceptr base, size_t size)
{
	CUmemGenericAllocationHandle handle;

	if (unmap_again(base, size))
		return;
	if (vs_real.cuMemRetainAllocationHandle(&handle, (void *)base))
		vs_log_error("0x%llx: %zu MiB stay mapped", base, size >> 20);
	else
		vs_vmm_unback(base, size, handle);
}

enum vs_status vs_foreign_back_create(struct vs_foreign *foreign,
				      CUmemGenericAllocationHandle *handle,
				      struct vs_why *why)
{
	CUresult rc;

	settle(foreign);
	rc = vs_real.cuMemCreate(handle, foreign->chunk.size, &foreign->prop,
				 foreign->flags);
	return rc ? fail(why, rc, "create", foreign) : VS_OK;
}

static bool said_before(const struct vs_mapping *m, size_t index)
{
	const struct vs_access *a = m->access;
	size_t i;

	for (i = 0; i < index; i++)
		if (a[i].start == a[index].start && a[i].end == a[index].end)
			return true;
	return false;
}

/* All that is said of the same stretch as entry @index. */
static CUresult set_stretch(const struct vs_mapping *m, size_t index)
{
	const struct vs_access *a = m->access, *one = &a[index];
	CUmemAccessDesc descs[DESCS];
	CUresult rc = CUDA_SUCCESS;
	size_t i, count = 0;

	for (i = index; !rc && i < m->access_count; i++) {
		if (a[i].start == one->start && a[i].end == one->end)
			descs[count++] = (CUmemAccessDesc){
				.location = a[i].where, .flags = a[i].flags,
			};
		if (!count || (count < DESCS && i + 1 < m->access_count))
			continue;
		rc = vs_real.cuMemSetAccess(m->base + one->start,
					    one->end - one->start, descs,
					    count);
		count = 0;
	}
	return rc;
}

static CUresult set_access(const struct vs_mapping *m)
{
	CUresult rc = CUDA_SUCCESS;
	size_t i;

	for (i = 0; !rc && i < m->access_count; i++)
		if (!said_before(m, i))
			rc = set_stretch(m, i);
	return rc;
}

static enum vs_status map_one(struct vs_foreign *f, struct vs_mapping *m,
			      CUmemGenericAllocationHandle handle,
			      struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemMap(m->base, m->size, m->offset, handle, m->flags);
	if (rc)
		return fail(why, rc, "map", f);
	rc = set_access(m);
	if (rc) {
		take_away(m->base, m->size);
		return fail(why, rc, "access", f);
	}
	set_there(m, true);
	return VS_OK;
}

static void take_all_away(struct vs_foreign *f)
{
	struct vs_mapping *m;

	for (m = f->mappings; m; m = m->next) {
		if (!m->there)
			continue;
		set_there(m, false);
		take_away(m->base, m->size);
	}
}

enum vs_status vs_foreign_back_map(struct vs_foreign *foreign,
				   CUmemGenericAllocationHandle handle,
				   struct vs_why *why)
{
	enum vs_status st = VS_OK;
	struct vs_mapping *m;

	for (m = foreign->mappings; !st && m; m = m->next)
		st = map_one(foreign, m, handle, why);
	if (st)
		take_all_away(foreign);
	return st;
}

bool vs_foreign_back_unback(struct vs_foreign *foreign,
			    CUmemGenericAllocationHandle handle)
{
	vs_foreign_back_close(foreign);
	take_all_away(foreign);
	return vs_vmm_release(handle, foreign->chunk.size);
}

/* What is not there, but should be, as its memory is: where a failed unmap
 * could not be undone. */
static enum vs_status put_back(struct vs_foreign *f, struct vs_why *why)
{
	enum vs_status st = VS_OK, one;
	struct vs_mapping *m;

	for (m = f->mappings; m; m = m->next) {
		if (m->there)
			continue;
		one = map_one(f, m, f->chunk.handle, why);
		if (one)
			one = map_one(f, m, f->chunk.handle, why);
		if (one)
			st = one;
	}
	return st;
}

static void remember_all(struct vs_foreign *f)
{
	CUmemAllocationProp granted;
	struct vs_mapping *m;

	if (!vs_real.cuMemGetAllocationPropertiesFromHandle(&granted,
							    f->chunk.handle)) {
		vs_lock_take(&vs_segment_lock);
		f->granted = granted;
		vs_lock_drop(&vs_segment_lock);
	}
	for (m = f->mappings; m; m = m->next)
		if (m->there)
			vs_foreign_remember(f, m);
}

enum vs_status vs_foreign_back_unmap(struct vs_foreign *foreign,
				     struct vs_why *why)
{
	struct vs_why other;
	enum vs_status st = VS_OK;
	struct vs_mapping *m;

	settle(foreign);
	vs_foreign_back_close(foreign);
	remember_all(foreign);
	for (m = foreign->mappings; !st && m; m = m->next) {
		if (!m->there)
			continue;
		set_there(m, false);
		st = vs_vmm_unmap(m->base, m->size, why);
		if (st)
			set_there(m, true);
	}
	if (!st || !put_back(foreign, &other))
		return st;
	vs_log_error("%s: mapped again when it wakes", other.text);
	return VS_PARTIAL;
}

static struct vs_mapping *find_window(const struct vs_foreign *f)
{
	struct vs_mapping *m;

	for (m = f->mappings; m; m = m->next)
		if (m->there && !m->offset && m->size == f->chunk.size &&
		    vs_mapping_writable(m, f->segment.device))
			break;
	return m;
}

static enum vs_status make_window(struct vs_foreign *f,
				  CUmemGenericAllocationHandle handle,
				  struct vs_why *why)
{
	CUmemAccessDesc access = {
		.location = f->prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	size_t size = f->chunk.size;
	CUdeviceptr base;
	CUresult rc;

	rc = vs_real.cuMemAddressReserve(&base, size, 0, 0, 0);
	if (rc)
		return fail(why, rc, "reserve", f);
	rc = vs_real.cuMemMap(base, size, 0, handle, 0);
	if (!rc) {
		rc = vs_real.cuMemSetAccess(base, size, &access, 1);
		if (rc)
			take_away(base, size);
	}
	if (rc) {
		vs_vmm_unreserve(base, size);
		return fail(why, rc, "window", f);
	}
	f->window = base;
	return VS_OK;
}

enum vs_status vs_foreign_back_open(struct vs_foreign *foreign,
				    CUmemGenericAllocationHandle handle,
				    CUdeviceptr *base, struct vs_why *why)
{
	struct vs_mapping *m;
	enum vs_status st;

	settle(foreign);
	m = find_window(foreign);
	if (m) {
		*base = m->base;
		return VS_OK;
	}
	st = make_window(foreign, handle, why);
	if (!st)
		*base = foreign->window;
	return st;
}

void vs_foreign_back_close(struct vs_foreign *foreign)
{
	struct vs_why why;

	settle(foreign);
	if (foreign->window) {
		take_away(foreign->window, foreign->chunk.size);
		vs_vmm_unreserve(foreign->window, foreign->chunk.size);
		foreign->window = 0;
	}
	if (foreign->chunk.state == VS_CHUNK_RESIDENT &&
	    put_back(foreign, &why))
		vs_log_error("%s", why.text);
}
