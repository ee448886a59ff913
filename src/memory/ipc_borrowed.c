/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_borrowed.h"
#include "memory/ipc_import.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/device.h"
#include "base/driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vs_import *vs_imports;
struct vs_opened *vs_opened;

/* ---- chunks ------------------------------------------------------------- */

static bool needs(const struct vs_opened *o, const struct vs_import *i,
		  const struct vs_import_chunk *c)
{
	CUdeviceptr from = o->base - i->base;

	return o->import == i && c->offset < from + o->size &&
	       from < c->offset + c->size;
}

static bool needed(const struct vs_import *i, const struct vs_import_chunk *c)
{
	const struct vs_opened *o;

	for (o = vs_opened; o; o = o->next)
		if (needs(o, i, c))
			return true;
	return false;
}

bool vs_borrowed_unmap(struct vs_import *i, struct vs_import_chunk *c)
{
	CUmemGenericAllocationHandle handle = c->handle;

	vs_lock_take(&vs_segment_lock);
	c->handle = 0;
	vs_lock_drop(&vs_segment_lock);
	return vs_vmm_unback(i->base + c->offset, c->size, handle);
}

/* The first chunk from @from on that is mapped.  What was opened while another
 * mapping of the segment slept has one of its own: the owner knows of chunks
 * alone. */
static const struct vs_import_chunk *
next_mapped(const struct vs_ipc_owner *owner, uint64_t segment, uint64_t from)
{
	const struct vs_import_chunk *found = NULL, *c;
	const struct vs_import *i;

	for (i = vs_imports; i; i = i->next)
		for (c = i->chunks; i->owner == owner &&
		     i->segment == segment && c < i->chunks + i->count; c++)
			if (c->handle && c->offset >= from &&
			    (!found || c->offset < found->offset))
				found = c;
	return found;
}

/* Also what an answer that was lost, or of no use, has lent. */
void vs_borrowed_return(struct vs_ipc_owner *owner,
			const struct vs_ipc_handle *handle)
{
	const struct vs_import_chunk *c;
	uint64_t from = 0, to;

	do {
		c = next_mapped(owner, handle->segment, from);
		to = c ? c->offset : INT64_MAX;
		if (to > from)
			vs_ipc_owner_give_back(owner, handle, from, to);
		from = c ? c->offset + c->size : to;
	} while (c);
}

static void unmap_unneeded(struct vs_import *i,
			   const struct vs_ipc_handle *handle)
{
	struct vs_import_chunk *c;
	bool any = false;

	for (c = i->chunks; c < i->chunks + i->count; c++) {
		if (!c->handle || needed(i, c))
			continue;
		vs_borrowed_unmap(i, c);
		any = true;
	}
	if (any)
		vs_borrowed_return(i->owner, handle);
}

/* Its row, which may have no mapping yet.  Where the owner had given a chunk
 * back, the next one there may have another size. */
static struct vs_import_chunk *chunk_at(struct vs_import *i,
					const struct vs_ipc_part *part)
{
	struct vs_import_chunk *c, *grown;
	size_t room = i->room ? i->room * 2 : 16;

	for (c = i->chunks; c < i->chunks + i->count; c++)
		if (c->offset == part->offset) {
			vs_lock_take(&vs_segment_lock);
			if (!c->handle)
				c->size = part->size;
			vs_lock_drop(&vs_segment_lock);
			return c;
		}
	if (i->count == i->room) {
		vs_lock_take(&vs_segment_lock);
		grown = realloc(i->chunks, room * sizeof(*grown));
		if (grown) {
			i->chunks = grown;
			i->room = room;
		}
		vs_lock_drop(&vs_segment_lock);
		if (!grown)
			return NULL;
	}
	c = &i->chunks[i->count];
	*c = (struct vs_import_chunk){ .offset = part->offset,
				       .size = part->size };
	vs_lock_take(&vs_segment_lock);
	i->count++;
	vs_lock_drop(&vs_segment_lock);
	return c;
}

static enum vs_status import_fd(int *fd, CUmemGenericAllocationHandle *out,
				struct vs_why *why)
{
	char error[96];
	CUresult rc;

	rc = vs_real.cuMemImportFromShareableHandle(out, (void *)(intptr_t)*fd,
				CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	vs_ipc_close_fd(*fd);
	*fd = -1;
	if (!rc)
		return VS_OK;
	return vs_why_set(why, VS_CUDA, "import: %s",
			  vs_driver_error(rc, error, sizeof(error)));
}

static enum vs_status map_part(struct vs_import *i, struct vs_ipc_part *part,
			       struct vs_why *why)
{
	CUmemGenericAllocationHandle handle;
	struct vs_import_chunk *c;
	enum vs_status st;

	if (part->offset > i->size || part->size > i->size - part->offset)
		return vs_why_set(why, VS_CUDA, "a chunk outside the segment");
	c = chunk_at(i, part);
	if (!c)
		return vs_why_set(why, VS_NOHOST, "no memory");
	if (c->handle)
		return VS_OK;
	st = import_fd(&part->fd, &handle, why);
	if (st)
		return st;
	st = vs_vmm_map(i->device, i->base + c->offset, c->size, handle, why);
	if (st) {
		vs_vmm_release(handle, c->size);
		/* Only the owner's sleep is worth another try. */
		return VS_CUDA;
	}
	vs_lock_take(&vs_segment_lock);
	c->handle = handle;
	vs_lock_drop(&vs_segment_lock);
	return VS_OK;
}

/* Memory that another mapping of the segment has there; or zeros. */
static bool share_twin(struct vs_import *i, struct vs_import_chunk *c,
		       CUmemGenericAllocationHandle *out)
{
	const struct vs_import_chunk *t;
	const struct vs_import *other;
	struct vs_why why;

	for (other = vs_imports; other; other = other->next)
		for (t = other->chunks; other->owner == i->owner &&
		     other->segment == i->segment &&
		     t < other->chunks + other->count; t++) {
			if (!t->handle || t->offset != c->offset ||
			    t->size != c->size ||
			    vs_real.cuMemRetainAllocationHandle(out,
				(void *)(uintptr_t)(other->base + t->offset)))
				continue;
			if (!vs_vmm_map(i->device, i->base + c->offset,
					c->size, *out, &why))
				return true;
			vs_vmm_release(*out, c->size);
		}
	return false;
}

static enum vs_status make_zeros(struct vs_import *i,
				 const struct vs_import_chunk *c,
				 struct vs_context *context,
				 CUmemGenericAllocationHandle *out,
				 struct vs_why *why)
{
	CUdeviceptr base = i->base + c->offset;
	CUstream stream;
	char error[96];
	CUresult rc;
	enum vs_status st = vs_context_stream(context, &stream, why);

	if (!st)
		st = vs_vmm_back(i->device, base, c->size, out, why);
	if (st)
		return st;
	rc = vs_real.cuMemsetD8Async(base, 0, c->size, stream);
	if (!rc)
		rc = vs_real.cuStreamSynchronize(stream);
	if (!rc)
		return VS_OK;
	/* What is queued all the same shall not meet missing memory. */
	vs_real.cuCtxSynchronize();
	vs_vmm_unback(base, c->size, *out);
	return vs_why_set(why, VS_CUDA, "zero fill of %#llx: %s", base,
			  vs_driver_error(rc, error, sizeof(error)));
}

enum vs_status vs_borrowed_renew(struct vs_opened *o,
				 struct vs_context *context,
				 struct vs_why *why)
{
	CUmemGenericAllocationHandle handle;
	struct vs_import *i = o->import;
	struct vs_import_chunk *c;
	enum vs_status st;
	bool zeros;

	for (c = i->chunks; c < i->chunks + i->count; c++) {
		if (c->handle || !needs(o, i, c))
			continue;
		zeros = !share_twin(i, c, &handle);
		st = zeros ? make_zeros(i, c, context, &handle, why) : VS_OK;
		if (st)
			return st;
		vs_lock_take(&vs_segment_lock);
		c->handle = handle;
		i->lost += zeros ? c->size : 0;
		vs_lock_drop(&vs_segment_lock);
	}
	return VS_OK;
}

/* ---- segments ----------------------------------------------------------- */

static enum vs_status find_device(const char *uuid, CUdevice *out,
				  struct vs_why *why)
{
	struct vs_device known;
	int device, count = 0;

	vs_real.cuDeviceGetCount(&count);
	for (device = 0; device < count; device++) {
		vs_device_note(device);
		vs_device_read(device, &known);
		if (!strcmp(known.uuid, uuid)) {
			*out = device;
			return VS_OK;
		}
	}
	return vs_why_set(why, VS_CUDA, "it is on device %.47s, which this "
			  "process cannot see", uuid);
}

/* The device that opens it reaches it. */
static enum vs_status reach_device(CUdevice owner, CUdevice device,
				   struct vs_why *why)
{
	int can = 0;

	if (owner == device)
		return VS_OK;
	if (vs_real.cuDeviceCanAccessPeer(&can, device, owner) || !can)
		return vs_why_set(why, VS_CUDA, "device %d cannot reach the "
				  "memory of device %d", device, owner);
	vs_vmm_add_accessor(owner, device);
	return VS_OK;
}

static struct vs_import *find_import(const struct vs_ipc_owner *owner,
				     uint64_t segment)
{
	struct vs_import *i;

	for (i = vs_imports; i; i = i->next)
		if (i->owner == owner && i->segment == segment && !i->asleep)
			break;
	return i;
}

/* Takes the use of @owner over. */
static enum vs_status make_import(struct vs_ipc_owner *owner,
				  const struct vs_opened *o,
				  const struct vs_ipc_loan *loan,
				  struct vs_import **out, struct vs_why *why)
{
	struct vs_import *i = calloc(1, sizeof(*i));
	int tag = vs_tag_current();
	enum vs_status st;

	if (!i)
		return vs_why_set(why, VS_NOHOST, "no memory");
	st = find_device(loan->device, &i->device, why);
	if (!st)
		st = vs_vmm_reserve(i->device, loan->segment_size, &i->base,
				    why);
	if (st) {
		free(i);
		return st;
	}
	i->owner = owner;
	i->segment = o->handle.segment;
	i->size = loan->segment_size;
	i->tag = tag == VS_TAG_NATIVE ? 0 : tag;
	vs_lock_take(&vs_segment_lock);
	i->next = vs_imports;
	vs_imports = i;
	vs_lock_drop(&vs_segment_lock);
	*out = i;
	return VS_OK;
}

static bool used(const struct vs_import *i)
{
	const struct vs_opened *o;

	for (o = vs_opened; o && o->import != i; o = o->next)
		;
	return o != NULL;
}

/* Nothing in it is mapped. */
static void end_import(struct vs_import *i)
{
	struct vs_import **p = &vs_imports;

	vs_lock_take(&vs_segment_lock);
	while (*p != i)
		p = &(*p)->next;
	*p = i->next;
	vs_lock_drop(&vs_segment_lock);
	vs_vmm_unreserve(i->base, i->size);
	vs_ipc_owner_put(i->owner);
	free(i->chunks);
	free(i);
}

/* ---- allocations -------------------------------------------------------- */

/* The first message tells where it is. */
static enum vs_status place(struct vs_opened *o, struct vs_ipc_owner *owner,
			    const struct vs_ipc_loan *loan, struct vs_why *why)
{
	struct vs_import *i = find_import(owner, o->handle.segment);
	enum vs_status st = VS_OK;

	if (o->handle.offset > loan->segment_size ||
	    loan->size > loan->segment_size - o->handle.offset ||
	    (i && i->size != loan->segment_size))
		return vs_why_set(why, VS_CUDA, "an allocation outside its "
				  "segment");
	if (i)
		vs_ipc_owner_put(owner);
	else
		st = make_import(owner, o, loan, &i, why);
	if (st)
		return st;
	o->import = i;
	o->base = i->base + o->handle.offset;
	o->size = loan->size;
	o->refs = 1;
	vs_lock_take(&vs_segment_lock);
	o->id = vs_segment_new_id();
	o->next = vs_opened;
	vs_opened = o;
	vs_lock_drop(&vs_segment_lock);
	return reach_device(i->device, o->device, why);
}

/* All its chunks, message by message; @owner: it has no place yet. */
static enum vs_status fetch(struct vs_opened *o, struct vs_ipc_owner *owner,
			    struct vs_why *why)
{
	struct vs_ipc_loan loan;
	enum vs_status st;
	unsigned first = 0, k;

	do {
		if (o->import)
			owner = o->import->owner;
		loan.count = 0;
		st = vs_ipc_owner_borrow(owner, &o->handle, first, &loan, why);
		if (st == VS_BUSY || st == VS_NOMEM || st == VS_REFUSED)
			return st;
		if (!st && !o->import)
			st = place(o, owner, &loan, why);
		for (k = 0; !st && k < loan.count; k++)
			st = map_part(o->import, &loan.parts[k], why);
		if (!st && !loan.count)
			st = vs_why_set(why, VS_CUDA, "too few chunks");
		first += loan.count;
		vs_ipc_close_parts(&loan);
		if (st)
			vs_borrowed_return(owner, &o->handle);
	} while (!st && first < loan.chunks);
	return st;
}

/* Take it out of the list, and what nobody else needs with it. */
static void end_opened(struct vs_opened *o)
{
	struct vs_opened **p = &vs_opened;
	struct vs_import *i = o->import;

	vs_lock_take(&vs_segment_lock);
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	vs_lock_drop(&vs_segment_lock);
	unmap_unneeded(i, &o->handle);
	if (!used(i))
		end_import(i);
}

enum vs_status vs_borrow_again(struct vs_opened *o, struct vs_why *why)
{
	return fetch(o, NULL, why);
}

enum vs_status vs_borrow(struct vs_opened *o, struct vs_why *why)
{
	struct vs_ipc_owner *owner;
	enum vs_status st = vs_ipc_owner_get(&o->handle, &owner, why);

	if (st)
		return st;
	st = fetch(o, owner, why);
	if (!st)
		return VS_OK;
	if (o->import)
		end_opened(o);
	else
		vs_ipc_owner_put(owner);
	return st;
}

static struct vs_opened *next_closed(bool all, bool wake)
{
	struct vs_opened *o;

	vs_lock_take(&vs_segment_lock);
	for (o = vs_opened; o; o = o->next)
		if (!o->refs && (o->waited || all) &&
		    (!o->import->asleep || wake))
			break;
	vs_lock_drop(&vs_segment_lock);
	return o;
}

void vs_ipc_settle(bool all, bool wake)
{
	struct vs_opened *o;

	while ((o = next_closed(all, wake))) {
		end_opened(o);
		free(o);
	}
}
