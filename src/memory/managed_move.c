/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/managed_move.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdint.h>

#define HOST ((CUdevice)-1)
#define PARTS 64			/* of a piece whose advice differs */

static bool is(CUdevice device, CUdevice_attribute attribute)
{
	int yes = 0;

	return !vs_real.cuDeviceGetAttribute(&yes, attribute, device) && yes;
}

static bool moves(CUdevice device)
{
	return is(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
}

/* Where it does so the host has in its tables what is on the device too. */
static bool host_reaches(CUdevice device)
{
	return is(device,
		  CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
}

static int find(const struct vs_managed_mover *mover, CUdevice device)
{
	int i = mover->count - 1;

	while (i >= 0 && mover->contexts[i]->device != device)
		i--;
	return i;
}

void vs_managed_mover_begin(struct vs_managed_mover *mover)
{
	struct vs_context *all[VS_CONTEXT_MAX];
	int i, count = vs_context_pin_all(all, VS_CONTEXT_MAX);
	bool told = true;

	mover->count = 0;
	mover->obstacle = count ? "its device does not move managed memory "
				  "when asked to" :
				  "no context is known";
	for (i = 0; i < count; i++) {
		if (find(mover, all[i]->device) >= 0 ||
		    !moves(all[i]->device)) {
			vs_context_unpin(all[i]);
			continue;
		}
		mover->contexts[mover->count++] = all[i];
		mover->obstacle = NULL;
		told = told && !host_reaches(all[i]->device);
	}
	mover->pages = (struct vs_managed_pages){ .fd = -1 };
	if (told)
		vs_managed_pages_begin(&mover->pages);
}

void vs_managed_mover_end(struct vs_managed_mover *mover)
{
	int i;

	for (i = 0; i < mover->count; i++)
		vs_context_unpin(mover->contexts[i]);
	vs_managed_pages_end(&mover->pages);
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

/* Of all of it: a device, or VS_MANAGED_NOWHERE. */
static CUdevice place(const struct vs_managed_mover *mover,
		      CUmem_range_attribute which, CUdeviceptr base,
		      size_t size)
{
	CUdevice device;

	if (vs_real.cuMemRangeGetAttribute(&device, sizeof(device), which,
					   base, size) ||
	    find(mover, device) < 0)
		return VS_MANAGED_NOWHERE;
	return device;
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

size_t vs_managed_move_weigh(const struct vs_managed_mover *mover,
			     CUdeviceptr base, size_t size, bool read_mostly)
{
	size_t absent;

	if (!vs_managed_pages_absent(&mover->pages, base, size, &absent))
		return size;
	/* The host has kept what a device has a copy of. */
	if (read_mostly && mostly_read(base, size) &&
	    place(mover, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, base,
		  size) != VS_MANAGED_NOWHERE)
		return size;
	return absent;
}

CUdevice vs_managed_move_home(const struct vs_managed_mover *mover,
			      CUcontext context, CUdeviceptr base, size_t size)
{
	struct vs_context *own;
	CUdevice device;

	device = place(mover, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		       base, size);
	if (device == VS_MANAGED_NOWHERE)
		device = place(mover,
			       CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
			       base, size);
	if (device != VS_MANAGED_NOWHERE)
		return device;
	own = vs_context_pin(context);
	device = mover->contexts[0]->device;
	if (own && find(mover, own->device) >= 0)
		device = own->device;
	if (own)
		vs_context_unpin(own);
	return device;
}

enum vs_status vs_managed_move_out(struct vs_managed_mover *mover,
				   CUdeviceptr base, size_t size,
				   bool read_mostly, struct vs_why *why)
{
	struct vs_context *context = mover->contexts[0];
	struct vs_context_scope scope;
	enum vs_status st;

	st = vs_context_enter(context, &scope, why);
	if (st)
		return st;
	if (read_mostly)
		st = move_advised(context, base, size, why);
	else
		st = move(context, base, size, HOST, why);
	vs_context_leave(&scope);
	return st;
}

void vs_managed_move_plan(struct vs_managed_mover *mover, int index,
			  size_t away)
{
	struct vs_context_scope scope;
	size_t available, total;

	mover->room[index] = 0;
	if (vs_context_enter(mover->contexts[index], &scope, NULL))
		return;
	if (!vs_real.cuMemGetInfo_v2(&available, &total))
		mover->room[index] = total - available < away ? total :
				     available + away;
	vs_context_leave(&scope);
}

size_t vs_managed_move_room(const struct vs_managed_mover *mover,
			    CUdevice device)
{
	int index = find(mover, device);

	return index < 0 ? 0 : mover->room[index];
}

size_t vs_managed_move_back(struct vs_managed_mover *mover, CUdeviceptr base,
			    size_t size, CUdevice device, bool read_mostly)
{
	int index = find(mover, device);
	struct vs_context_scope scope;
	size_t came = 0, absent;
	enum vs_status st;

	mover->room[index] -= size;
	if (vs_context_enter(mover->contexts[index], &scope, NULL))
		return 0;
	st = move(mover->contexts[index], base, size, device, NULL);
	vs_context_leave(&scope);
	if (!st)
		came = size;
	if (!read_mostly &&
	    vs_managed_pages_absent(&mover->pages, base, size, &absent))
		came = absent;
	/* Somebody has the memory that the driver had kept; what is lacking
	 * of most of it the host may just have touched. */
	if (!st && came < size / 2)
		mover->room[index] = 0;
	return came;
}
