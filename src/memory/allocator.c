/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/capture.h"
#include "memory/ipc.h"
#include "memory/managed.h"
#include "memory/peer.h"
#include "memory/pool.h"
#include "memory/quarantine.h"
#include "memory/segment.h"
#include "memory/spare.h"
#include "memory/staging.h"
#include "memory/unmanaged.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bytes that no device has: the driver may refuse them. */
#define BEYOND ((size_t)1 << 44)

/* Memory that we hold spare is the program's when it runs out of it. */
static CUresult native_alloc(CUdeviceptr *out, size_t size)
{
	CUresult rc = vs_real.cuMemAlloc_v2(out, size);
	CUdevice device;

	if (rc == CUDA_ERROR_OUT_OF_MEMORY &&
	    !vs_real.cuCtxGetDevice(&device)) {
		vs_allocator_make_room(device, vs_context_current());
		rc = vs_real.cuMemAlloc_v2(out, size);
	}
	if (!rc)
		vs_unmanaged_add(VS_UNMANAGED_NATIVE, *out, size);
	return rc;
}

static CUresult native_free(CUdeviceptr base)
{
	static const enum vs_unmanaged_kind kinds[] = {
		VS_UNMANAGED_NATIVE, VS_UNMANAGED_MANAGED, VS_UNMANAGED_POOL,
	};
	struct vs_managed *managed = vs_managed_take(base);
	size_t had[3];
	CUresult rc;
	int i;

	for (i = 0; i < 3; i++)
		had[i] = vs_unmanaged_remove(kinds[i], base);
	rc = vs_real.cuMemFree_v2(base);
	for (i = 0; rc && i < 3; i++)
		if (had[i])
			vs_unmanaged_add(kinds[i], base, had[i]);
	if (rc)
		vs_managed_put_back(managed);
	else
		vs_managed_drop(managed);
	return rc;
}

/* What the driver says to an allocation or free on this thread beside the
 * captures that run now; a full device is no objection. */
static CUresult ask_beside_capture(void)
{
	CUcontext context;
	CUdeviceptr probe;
	CUresult rc;

	rc = vs_real.cuMemAlloc_v2(&probe, 1);
	context = rc ? NULL : vs_context_current();
	if (context)
		vs_quarantine_add_native(probe, context);
	return rc == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : rc;
}

static enum vs_status own_segment(CUdevice device, CUcontext context, int tag,
				  size_t size, CUdeviceptr *out,
				  struct vs_why *why)
{
	struct vs_block *block = calloc(1, sizeof(*block));
	struct vs_segment *s;
	enum vs_status st;
	bool added;

	if (!block)
		return vs_why_set(why, VS_NOHOST, "no memory for a block");
	st = vs_segment_make(device, context, tag, size, &s, why);
	if (st) {
		free(block);
		return st;
	}
	block->base = s->base;
	block->size = size;
	block->span = s->size;
	block->segment = s;
	s->block = block;
	vs_lock_take(&vs_segment_lock);
	block->id = vs_segment_new_id();
	added = vs_segment_add(s);
	if (added && !vs_segment_add_block(block)) {
		vs_segment_remove(s);
		added = false;
	}
	vs_lock_drop(&vs_segment_lock);
	if (!added) {
		vs_segment_destroy(s);
		return vs_why_set(why, VS_NOHOST, "no memory for the table");
	}
	*out = block->base;
	return VS_OK;
}

enum vs_status vs_allocator_make(CUdevice device, CUcontext context, int tag,
				 size_t size, CUdeviceptr *out,
				 struct vs_why *why)
{
	CUstreamCaptureMode mode;
	unsigned changes;
	enum vs_status st;

	/* Mapped memory needs no call of the driver. */
	if (size <= vs_arena_max ?
	    vs_arena_take(device, context, tag, size, out) :
	    vs_spare_take(device, context, tag, size, out))
		return VS_OK;
	mode = vs_context_relax();
	changes = vs_vmm_accessors();
	if (size <= vs_arena_max)
		st = vs_arena_alloc(device, context, tag, size, out, why);
	else
		st = own_segment(device, context, tag, size, out, why);
	vs_peer_look_again(device, changes);
	vs_context_unrelax(mode);
	return st;
}

/* An allocation does not wait for the device, unless freed memory does. */
void vs_allocator_make_room(CUdevice device, CUcontext context)
{
	CUstreamCaptureMode mode = vs_context_relax();
	bool captured, pending;

	vs_staging_yield(device);
	vs_lock_take(&vs_segment_lock);
	pending = vs_quarantine_bytes(device) != 0;
	vs_lock_drop(&vs_segment_lock);
	if (pending)
		vs_quarantine_wait(device, context, &captured);
	vs_pool_make_room(device);
	vs_spare_stop();
	vs_arena_trim(device);
	vs_spare_trim(device);
	vs_spare_go_on();
	vs_vmm_retry();
	vs_context_unrelax(mode);
}

void vs_allocator_say_native(const struct vs_why *why)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		vs_log_warn("%s; such allocations stay native and do not "
			    "sleep", why->text);
}

/* A lost context answers every question with its error; this is the cheapest
 * one to ask. */
static CUresult ask_context(void)
{
	int least, greatest;

	return vs_real.cuCtxGetStreamPriorityRange(&least, &greatest);
}

static CUresult managed_alloc(struct vs_context *context, int tag,
			      CUdeviceptr *out, size_t size)
{
	struct vs_why why = { .status = VS_OK };
	enum vs_status st;
	CUresult rc = ask_context();

	if (!rc && vs_capture_any())
		rc = ask_beside_capture();
	if (rc)
		return rc;
	st = vs_allocator_make(context->device, context->handle, tag, size,
			       out, &why);
	if (st == VS_NOMEM) {
		vs_allocator_make_room(context->device, context->handle);
		st = vs_allocator_make(context->device, context->handle, tag,
				       size, out, &why);
	}
	if (!st)
		return CUDA_SUCCESS;
	vs_log_debug("allocation of %zu bytes: %s", size, why.text);
	if (st != VS_CUDA)
		return CUDA_ERROR_OUT_OF_MEMORY;
	vs_allocator_say_native(&why);
	return native_alloc(out, size);
}

/* The context that is current, pinned; NULL where the driver shall answer. */
static struct vs_context *current(void)
{
	CUcontext handle;

	if (vs_real.cuCtxGetCurrent(&handle) || !handle)
		return NULL;
	if (vs_context_note(handle))
		vs_peer_context(handle);
	return vs_context_pin(handle);
}

CUresult vs_allocator_alloc(CUdeviceptr *out, size_t size)
{
	struct vs_context *context;
	int tag = vs_tag_current();
	CUdeviceptr base;
	CUresult rc;

	if (!out || !size || size > BEYOND)
		return vs_real.cuMemAlloc_v2(out, size);
	if (tag == VS_TAG_NATIVE || vs_ipc_native(size))
		return native_alloc(out, size);
	context = current();
	if (!context)
		return native_alloc(out, size);
	if (vs_vmm_usable(context->device))
		rc = managed_alloc(context, tag, &base, size);
	else
		rc = native_alloc(&base, size);
	vs_context_unpin(context);
	if (!rc)
		*out = base;
	return rc;
}

/* The driver chooses the pitch: it is asked with a single row. */
CUresult vs_allocator_alloc_pitch(CUdeviceptr *out, size_t *pitch,
				  size_t width, size_t height,
				  unsigned int element)
{
	CUdeviceptr row, base;
	size_t chosen;
	CUresult rc;

	if (!out || !pitch || !height || vs_tag_current() == VS_TAG_NATIVE)
		goto native;
	rc = vs_real.cuMemAllocPitch_v2(&row, &chosen, width, 1, element);
	if (rc)
		return rc;
	vs_quarantine_add_native(row, vs_context_current());
	if (height > BEYOND / chosen)
		goto native;
	rc = vs_allocator_alloc(&base, chosen * height);
	if (rc)
		return rc;
	*out = base;
	*pitch = chosen;
	return CUDA_SUCCESS;

native:
	rc = vs_real.cuMemAllocPitch_v2(out, pitch, width, height, element);
	if (!rc)
		vs_unmanaged_add(VS_UNMANAGED_NATIVE, *out, *pitch * height);
	return rc;
}

/* The block that starts at @base, out of the table and its segment pinned. */
static struct vs_block *take_block(CUdeviceptr base)
{
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find(base);
	if (block) {
		vs_segment_remove_block(block);
		vs_segment_pin(block->segment);
	}
	vs_lock_drop(&vs_segment_lock);
	return block;
}

static void revive(struct vs_block *block)
{
	vs_lock_take(&vs_segment_lock);
	vs_segment_add_block(block);
	vs_segment_unpin(block->segment);
	vs_lock_drop(&vs_segment_lock);
}

/* A free needs no current context, but the question does. */
static CUresult ask_about_free(const struct vs_block *block)
{
	CUcontext current = NULL, popped;
	CUresult rc;

	rc = vs_real.cuCtxGetCurrent(&current);
	if (rc || current)
		return rc ? rc : ask_beside_capture();
	rc = vs_real.cuCtxPushCurrent_v2(block->segment->context);
	if (rc)
		return rc;
	rc = ask_beside_capture();
	vs_real.cuCtxPopCurrent_v2(&popped);
	return rc;
}

/* Who frees pool memory so has waited for what uses it. */
static CUresult free_pooled(struct vs_block *block, bool captured)
{
	CUcontext context = vs_context_current();
	CUresult rc = captured && context ? ask_beside_capture() :
					    CUDA_SUCCESS;

	if (rc)
		revive(block);
	else
		vs_pool_free_taken(block);
	return rc;
}

/* The wait and the unmapping are ours, so RELAXED; the question is not. */
static CUresult free_block(struct vs_block *block)
{
	bool captured = vs_capture_any();
	CUstreamCaptureMode mode;
	CUresult rc = CUDA_SUCCESS;

	if (block->pool)
		return free_pooled(block, captured);
	if (captured) {
		rc = ask_about_free(block);
		if (rc)
			revive(block);
		else
			vs_quarantine_add(block);
		return rc;
	}
	mode = vs_context_relax();
	rc = vs_quarantine_wait(block->segment->device,
				block->segment->context, &captured);
	if (rc)
		revive(block);
	else if (captured)
		vs_quarantine_add(block);
	else
		vs_quarantine_end(block);
	vs_context_unrelax(mode);
	return rc;
}

CUresult vs_allocator_free(CUdeviceptr base)
{
	struct vs_block *block = take_block(base);

	return block ? free_block(block) : native_free(base);
}

CUresult vs_allocator_free_later(CUdeviceptr base)
{
	struct vs_block *block = take_block(base);

	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	vs_quarantine_add(block);
	return CUDA_SUCCESS;
}

CUresult vs_allocator_info(size_t *free_bytes, size_t *total)
{
	size_t staging;
	CUdevice device;
	CUresult rc;

	vs_spare_stop();
	if (vs_real.cuCtxGetDevice(&device))
		device = -1;
	staging = vs_staging_bytes(device);
	rc = vs_real.cuMemGetInfo_v2(free_bytes, total);
	if (!rc && free_bytes && device >= 0) {
		if (staging && vs_staging_bytes(device))
			*free_bytes += staging;
		vs_lock_take(&vs_segment_lock);
		*free_bytes += vs_arena_spare(device) +
			       vs_quarantine_bytes(device) +
			       vs_pool_spare(device);
		vs_lock_drop(&vs_segment_lock);
	}
	vs_spare_go_on();
	return rc;
}
