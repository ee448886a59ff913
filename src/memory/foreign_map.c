/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/foreign.h"
#include "memory/unmanaged.h"
#include "base/driver.h"

#include <stdlib.h>

/* Known to us and not to the driver. */
static bool sleeps(const struct vs_mapping *m)
{
	return m->foreign && !m->there;
}

static struct vs_mapping *first_in(CUdeviceptr at, CUdeviceptr end)
{
	struct vs_mapping *m = vs_mapping_after(at);

	return m && m->base < end ? m : NULL;
}

static struct vs_mapping *next_in(const struct vs_mapping *m, CUdeviceptr end)
{
	return first_in(m->base + m->size, end);
}

static bool any_asleep(CUdeviceptr at, CUdeviceptr end)
{
	struct vs_mapping *m;

	for (m = first_in(at, end); m; m = next_in(m, end))
		if (sleeps(m))
			return true;
	return false;
}

/* Where what begins at @at ends, be it asleep or not; holes are not. */
static CUdeviceptr end_of_run(CUdeviceptr at, CUdeviceptr end, bool *asleep)
{
	struct vs_mapping *m = vs_mapping_find(at);

	*asleep = m && sleeps(m);
	if (!*asleep) {
		for (m = first_in(at, end); m; m = next_in(m, end))
			if (sleeps(m))
				return m->base;
		return end;
	}
	while (at < end && (m = vs_mapping_find(at)) && sleeps(m))
		at = m->base + m->size;
	return at < end ? at : end;
}

static bool pinned(CUdeviceptr at, CUdeviceptr end)
{
	struct vs_mapping *m;

	for (m = first_in(at, end); m; m = next_in(m, end))
		if (m->foreign && m->foreign->segment.pins)
			return true;
	return false;
}

/* All or none: two that work on the same memory do not wait for each other.
 * False: nothing that we know is mapped there. */
static bool pin_range(CUdeviceptr at, CUdeviceptr end)
{
	struct vs_mapping *m;

	while (pinned(at, end))
		vs_segment_wait_change();
	for (m = first_in(at, end); m; m = next_in(m, end)) {
		if (!m->foreign)
			continue;
		vs_segment_pin(&m->foreign->segment);
		m->held = true;
	}
	return first_in(at, end) != NULL;
}

static void unpin_range(CUdeviceptr at, CUdeviceptr end)
{
	struct vs_mapping *m;

	for (m = first_in(at, end); m; m = next_in(m, end)) {
		if (!m->held)
			continue;
		m->held = false;
		vs_segment_unpin(&m->foreign->segment);
	}
}

CUresult vs_foreign_reserve(CUdeviceptr *base, size_t size, size_t align,
			    CUdeviceptr hint, unsigned long long flags)
{
	struct vs_mapping_range *range = malloc(sizeof(*range));
	CUresult rc;

	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = vs_real.cuMemAddressReserve(base, size, align, hint, flags);
	if (rc) {
		free(range);
		return rc;
	}
	range->base = *base;
	range->size = size;
	vs_lock_take(&vs_segment_lock);
	vs_mapping_add_range(range);
	vs_lock_drop(&vs_segment_lock);
	return CUDA_SUCCESS;
}

/* The driver does not know of what is mapped there and sleeps. */
CUresult vs_foreign_unreserve(CUdeviceptr base, size_t size)
{
	struct vs_mapping_range *range = NULL;
	CUresult rc;
	bool busy;

	vs_lock_take(&vs_segment_lock);
	busy = base + size > base && any_asleep(base, base + size);
	if (!busy)
		range = vs_mapping_take_range(base, size);
	vs_lock_drop(&vs_segment_lock);
	if (busy)
		return CUDA_ERROR_INVALID_VALUE;
	rc = vs_real.cuMemAddressFree(base, size);
	if (!rc || !range) {
		free(range);
		return rc;
	}
	vs_lock_take(&vs_segment_lock);
	vs_mapping_add_range(range);
	vs_lock_drop(&vs_segment_lock);
	return rc;
}

/* What the driver would say to a mapping that is made when it wakes. */
static CUresult check_later(const struct vs_foreign *f,
			    const struct vs_mapping *m)
{
	size_t unit = 0;
	CUresult rc;

	rc = vs_real.cuMemGetAllocationGranularity(&unit, &f->prop,
				CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (rc)
		return rc;
	if (m->flags || m->offset || !m->size || m->size > f->chunk.size ||
	    !unit || m->base % unit || m->size % unit)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* The driver has no numbers for it yet. */
static void name_ids(struct vs_foreign *f, struct vs_mapping *m)
{
	m->id = vs_segment_new_id();
	if (!f->block_id)
		f->block_id = vs_segment_new_id();
}

/* With the lock, which it drops meanwhile; the memory is pinned. */
static CUresult map_pinned(struct vs_mapping *m)
{
	struct vs_foreign *f = m->foreign;
	bool asleep = vs_foreign_asleep(f);
	CUresult rc;

	vs_lock_drop(&vs_segment_lock);
	if (asleep)
		rc = check_later(f, m);
	else
		rc = vs_real.cuMemMap(m->base, m->size, m->offset,
				      f->chunk.handle, m->flags);
	vs_lock_take(&vs_segment_lock);
	if (asleep && !rc && (!vs_mapping_in_range(m->base, m->size) ||
			      first_in(m->base, m->base + m->size)))
		rc = CUDA_ERROR_INVALID_VALUE;
	m->there = !asleep;
	if (asleep && !rc)
		name_ids(f, m);
	return rc;
}

static CUresult map_native(struct vs_mapping *m,
			   CUmemGenericAllocationHandle handle)
{
	CUresult rc;

	vs_lock_drop(&vs_segment_lock);
	rc = vs_real.cuMemMap(m->base, m->size, m->offset, handle, m->flags);
	if (!rc)
		vs_unmanaged_mapped(m->base, handle);
	vs_lock_take(&vs_segment_lock);
	m->there = true;
	return rc;
}

static void grow_imported(struct vs_foreign *f, const struct vs_mapping *m)
{
	size_t size = m->offset + m->size;

	if (!f->imported || size <= f->chunk.size)
		return;
	f->chunk.size = size;
	f->segment.size = size;
	f->segment.live_bytes = size;
}

static CUresult map(struct vs_mapping *m, CUmemGenericAllocationHandle handle)
{
	struct vs_foreign *f = vs_foreign_await(handle);
	CUresult rc;

	if (!f && vs_foreign_is_name(handle))
		return CUDA_ERROR_INVALID_VALUE;
	if (any_asleep(m->base, m->base + m->size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return map_native(m, handle);
	m->foreign = f;
	vs_segment_pin(&f->segment);
	rc = map_pinned(m);
	vs_segment_unpin(&f->segment);
	if (!rc)
		grow_imported(f, m);
	return rc;
}

CUresult vs_foreign_map(CUdeviceptr base, size_t size, size_t offset,
			CUmemGenericAllocationHandle handle,
			unsigned long long flags)
{
	struct vs_mapping *m = calloc(1, sizeof(*m));
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!m)
		return rc;
	m->base = base;
	m->size = size;
	m->offset = offset;
	m->flags = flags;
	vs_lock_take(&vs_segment_lock);
	if (vs_mapping_promise()) {
		rc = map(m, handle);
		if (rc)
			vs_mapping_give_up();
		else
			vs_mapping_add(m);
	}
	vs_lock_drop(&vs_segment_lock);
	if (rc)
		free(m);
	return rc;
}

static CUresult unmap_native(CUdeviceptr base, size_t size)
{
	CUresult rc = vs_real.cuMemUnmap(base, size);

	if (!rc)
		vs_unmanaged_unmapped(base, size);
	return rc;
}

/* The records of a run go, with the pins; what ends is put before @ending. */
static struct vs_foreign *forget(CUdeviceptr at, CUdeviceptr end,
				 struct vs_foreign *ending)
{
	struct vs_mapping *m;
	struct vs_foreign *f;
	bool held;

	while ((m = first_in(at, end))) {
		f = m->foreign;
		held = m->held;
		vs_mapping_remove(m);
		if (held)
			vs_segment_unpin(&f->segment);
		if (!f || !vs_foreign_ends(f))
			continue;
		f->next = ending;
		ending = f;
	}
	return ending;
}

/* With the lock, which it drops meanwhile; all is pinned. */
static CUresult unmap_pinned(CUdeviceptr at, CUdeviceptr end,
			     struct vs_foreign **ending)
{
	CUresult rc = CUDA_SUCCESS;
	CUdeviceptr stop;
	bool asleep;

	if (any_asleep(at, end) && !vs_mapping_whole(at, end - at))
		rc = CUDA_ERROR_INVALID_VALUE;
	while (!rc && at < end) {
		stop = end_of_run(at, end, &asleep);
		if (!asleep) {
			vs_lock_drop(&vs_segment_lock);
			rc = unmap_native(at, stop - at);
			vs_lock_take(&vs_segment_lock);
		}
		if (rc)
			break;
		*ending = forget(at, stop, *ending);
		at = stop;
	}
	unpin_range(at, end);
	return rc;
}

CUresult vs_foreign_unmap(CUdeviceptr base, size_t size)
{
	struct vs_foreign *ending = NULL, *f;
	CUdeviceptr end = base + size;
	bool known = false;
	CUresult rc = CUDA_SUCCESS;

	vs_lock_take(&vs_segment_lock);
	if (end > base)
		known = pin_range(base, end);
	if (known)
		rc = unmap_pinned(base, end, &ending);
	vs_lock_drop(&vs_segment_lock);
	if (!known)
		return unmap_native(base, size);
	while ((f = ending)) {
		ending = f->next;
		vs_foreign_end(f);
	}
	return rc;
}

/* What the driver would say to access that is given when @m wakes. */
static CUresult check_desc(const CUmemAccessDesc *desc, CUdevice owner)
{
	CUdevice device;
	int can = 1;
	CUresult rc;

	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	rc = vs_real.cuDeviceGet(&device, desc->location.id);
	if (rc)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device != owner)
		rc = vs_real.cuDeviceCanAccessPeer(&can, device, owner);
	return rc || can ? rc : CUDA_ERROR_INVALID_DEVICE;
}

/* With the lock, which it drops meanwhile; all is pinned. */
static CUresult check_access(CUdeviceptr base, size_t size,
			     const CUmemAccessDesc *desc, size_t count)
{
	CUdevice owner = 0;
	struct vs_mapping *m;
	CUresult rc = CUDA_SUCCESS;
	size_t i;

	if (!desc || !count || !vs_mapping_covers(base, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (m = first_in(base, base + size); m; m = next_in(m, base + size))
		if (sleeps(m))
			owner = m->foreign->segment.device;
	vs_lock_drop(&vs_segment_lock);
	for (i = 0; !rc && i < count; i++)
		rc = check_desc(&desc[i], owner);
	vs_lock_take(&vs_segment_lock);
	return rc;
}

static bool access_room(CUdeviceptr at, CUdeviceptr end, size_t count)
{
	struct vs_mapping *m;

	for (m = first_in(at, end); m; m = next_in(m, end))
		if (m->foreign && !vs_mapping_access_room(m, count))
			return false;
	return true;
}

static void note_access(CUdeviceptr at, CUdeviceptr end,
			const CUmemAccessDesc *desc, size_t count)
{
	struct vs_mapping *m;
	CUdeviceptr from, to;
	size_t i;

	for (m = first_in(at, end); m; m = next_in(m, end)) {
		from = at > m->base ? at : m->base;
		to = end < m->base + m->size ? end : m->base + m->size;
		for (i = 0; m->foreign && i < count; i++)
			vs_mapping_set_access(m, from - m->base,
					      to - m->base, &desc[i]);
	}
}

static CUresult set_pinned(CUdeviceptr at, CUdeviceptr end,
			   const CUmemAccessDesc *desc, size_t count)
{
	CUresult rc = CUDA_SUCCESS;
	CUdeviceptr stop;
	bool asleep;

	if (any_asleep(at, end))
		rc = check_access(at, end - at, desc, count);
	if (!rc && !access_room(at, end, count))
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	for (; !rc && at < end; at = stop) {
		stop = end_of_run(at, end, &asleep);
		if (!asleep) {
			vs_lock_drop(&vs_segment_lock);
			rc = vs_real.cuMemSetAccess(at, stop - at, desc,
						    count);
			vs_lock_take(&vs_segment_lock);
		}
		if (!rc)
			note_access(at, stop, desc, count);
	}
	return rc;
}

CUresult vs_foreign_set_access(CUdeviceptr base, size_t size,
			       const CUmemAccessDesc *desc, size_t count)
{
	CUdeviceptr end = base + size;
	CUresult rc = CUDA_SUCCESS;
	bool known = false;

	vs_lock_take(&vs_segment_lock);
	if (end > base)
		known = pin_range(base, end);
	if (known) {
		rc = set_pinned(base, end, desc, count);
		unpin_range(base, end);
	}
	vs_lock_drop(&vs_segment_lock);
	if (!known)
		return vs_real.cuMemSetAccess(base, size, desc, count);
	return rc;
}
