/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/managed_move.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdint.h>

#define HOST ((CUdevice)-1)
#define DRIVER_PAGE ((size_t)2 << 20)	/* the driver takes and gives these */
#define PARTS 64			/* of a piece whose advice differs */

static bool moves(CUdevice device)
{
	int yes = 0;

	return !vs_real.cuDeviceGetAttribute(&yes,
			CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
			device) && yes;
}

static bool has_device(const struct vs_managed_mover *mover, CUdevice device)
{
	int i;

	for (i = 0; i < mover->count; i++)
		if (mover->contexts[i]->device == device)
			return true;
	return false;
}

void vs_managed_mover_begin(struct vs_managed_mover *mover)
{
	struct vs_context *all[VS_CONTEXT_MAX];
	int i, count = vs_context_pin_all(all, VS_CONTEXT_MAX);

	mover->count = 0;
	mover->obstacle = count ? "its device does not move managed memory "
				  "when asked to" :
				  "no context is known";
	for (i = 0; i < count; i++) {
		if (has_device(mover, all[i]->device) ||
		    !moves(all[i]->device)) {
			vs_context_unpin(all[i]);
			continue;
		}
		mover->contexts[mover->count++] = all[i];
		mover->obstacle = NULL;
	}
}

void vs_managed_mover_end(struct vs_managed_mover *mover)
{
	int i;

	for (i = 0; i < mover->count; i++)
		vs_context_unpin(mover->contexts[i]);
}

static size_t free_bytes(struct vs_context *context)
{
	struct vs_context_scope scope;
	size_t available = 0, total;

	if (vs_context_enter(context, &scope, NULL))
		return 0;
	if (vs_real.cuMemGetInfo_v2(&available, &total))
		available = 0;
	vs_context_leave(&scope);
	return available;
}

/* The second form came with CUDA 12.2, and only it has a location. */
static CUresult prefetch(CUdeviceptr base, size_t size, CUdevice device,
			 CUstream stream)
{
	CUmemLocation to = {
		.type = device == HOST ? CU_MEM_LOCATION_TYPE_HOST :
					 CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device == HOST ? 0 : device,
	};

	if (vs_real.cuMemPrefetchAsync_v2)
		return vs_real.cuMemPrefetchAsync_v2(base, size, to, 0,
						     stream);
	if (!vs_real.cuMemPrefetchAsync)
		return CUDA_ERROR_NOT_SUPPORTED;
	return vs_real.cuMemPrefetchAsync(base, size,
					  device == HOST ? CU_DEVICE_CPU :
							   device, stream);
}

/* With @context current. */
static enum vs_status move(struct vs_context *context, CUdeviceptr base,
			   size_t size, CUdevice to, struct vs_why *why)
{
	char error[64];
	CUstream stream;
	enum vs_status st;
	CUresult rc;

	st = vs_context_stream(context, &stream, why);
	if (st)
		return st;
	rc = prefetch(base, size, to, stream);
	if (!rc)
		rc = vs_real.cuStreamSynchronize(stream);
	if (!rc)
		return VS_OK;
	return vs_why_set(why, VS_CUDA, "the driver did not move managed "
			  "memory: %s", vs_driver_error(rc, error,
							sizeof(error)));
}

static CUresult advise(CUdeviceptr base, size_t size, CUmem_advise advice)
{
	const CUmemLocation ignored = { .type = CU_MEM_LOCATION_TYPE_HOST };

	if (vs_real.cuMemAdvise_v2)
		return vs_real.cuMemAdvise_v2(base, size, advice, ignored);
	return vs_real.cuMemAdvise(base, size, advice, CU_DEVICE_CPU);
}

static size_t part_size(size_t size, size_t part, int i)
{
	size_t at = part * (size_t)i;

	if (at >= size)
		return 0;
	return size - at < part ? size - at : part;
}

/* All of it. */
static bool mostly_read(CUdeviceptr base, size_t size)
{
	int yes = 0;

	return !vs_real.cuMemRangeGetAttribute(&yes, sizeof(yes),
			CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, base, size) && yes;
}

/* Moved with that advice, a page would be copied and stay. */
static uint64_t lift_advice(CUdeviceptr base, size_t size, size_t part)
{
	uint64_t lifted = 0;
	size_t bytes;
	CUdeviceptr at;
	int i;

	for (i = 0; (bytes = part_size(size, part, i)); i++) {
		at = base + part * (size_t)i;
		if ((part == size || mostly_read(at, bytes)) &&
		    !advise(at, bytes, CU_MEM_ADVISE_UNSET_READ_MOSTLY))
			lifted |= (uint64_t)1 << i;
	}
	return lifted;
}

static void renew_advice(CUdeviceptr base, size_t size, size_t part,
			 uint64_t lifted)
{
	const CUmem_advise advice = CU_MEM_ADVISE_SET_READ_MOSTLY;
	CUdeviceptr at;
	size_t bytes;
	int i;

	for (i = 0; (bytes = part_size(size, part, i)); i++) {
		if (!(lifted >> i & 1))
			continue;
		at = base + part * (size_t)i;
		if (advise(at, bytes, advice) && advise(at, bytes, advice))
			vs_log_warn("0x%llx %zu bytes: the advice that it is "
				    "mostly read is lost", at, bytes);
	}
}

static enum vs_status move_advised(struct vs_context *context,
				   CUdeviceptr base, size_t size,
				   struct vs_why *why)
{
	size_t page = 4096, part = size;
	enum vs_status st;
	uint64_t lifted;

	if (!mostly_read(base, size)) {
		part = (size + PARTS - 1) / PARTS;
		part = (part + page - 1) / page * page;
	}
	lifted = lift_advice(base, size, part);
	st = move(context, base, size, HOST, why);
	renew_advice(base, size, part, lifted);
	return st;
}

static void read_free(struct vs_managed_mover *mover, size_t *out)
{
	int i;

	for (i = 0; i < mover->count; i++)
		out[i] = free_bytes(mover->contexts[i]);
}

/* Others allocate and free too: never more than there was to move. */
static size_t clamp(size_t before, size_t after, size_t size)
{
	size_t most = (size + DRIVER_PAGE - 1) / DRIVER_PAGE * DRIVER_PAGE;
	size_t by = before && after > before ? after - before : 0;

	return by < most ? by : most;
}

enum vs_status vs_managed_move_out(struct vs_managed_mover *mover,
				   CUdeviceptr base, size_t size,
				   bool read_mostly, size_t *left,
				   CUdevice *device, struct vs_why *why)
{
	size_t before[VS_CONTEXT_MAX], after[VS_CONTEXT_MAX], by;
	struct vs_context *context = mover->contexts[0];
	struct vs_context_scope scope;
	enum vs_status st;
	int i;

	read_free(mover, before);
	st = vs_context_enter(context, &scope, why);
	if (st)
		return st;
	if (read_mostly)
		st = move_advised(context, base, size, why);
	else
		st = move(context, base, size, HOST, why);
	vs_context_leave(&scope);
	read_free(mover, after);
	*left = 0;
	*device = context->device;
	for (i = 0; i < mover->count; i++) {
		by = clamp(before[i], after[i], size);
		if (by <= *left)
			continue;
		*left = by;
		*device = mover->contexts[i]->device;
	}
	return st;
}

bool vs_managed_move_back(struct vs_managed_mover *mover, CUdeviceptr base,
			  size_t size, CUdevice device, size_t *came)
{
	struct vs_context *context = NULL;
	struct vs_context_scope scope;
	size_t before, after;
	enum vs_status st;
	int i;

	for (i = 0; i < mover->count; i++)
		if (mover->contexts[i]->device == device)
			context = mover->contexts[i];
	if (!context)
		return false;
	before = free_bytes(context);
	if (before < (size + DRIVER_PAGE - 1) / DRIVER_PAGE * DRIVER_PAGE ||
	    vs_context_enter(context, &scope, NULL))
		return false;
	st = move(context, base, size, device, NULL);
	vs_context_leave(&scope);
	after = free_bytes(context);
	*came = after ? clamp(after, before, size) : 0;
	return !st;
}
