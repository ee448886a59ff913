/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define DEVICES 64
#define TRIES 5		/* with room, until a device is given up */

enum usable { UNTRIED, USABLE, UNUSABLE };

struct device {
	enum usable usable;
	int tries;
	bool full;			/* what a trial failed for */
	_Atomic uint64_t accessors;	/* bit n: device n, the owner aside */
	size_t granularity;
	CUmemAllocationProp prop;
};

/* What could not be given back. */
struct stuck {
	CUmemGenericAllocationHandle handle;	/* 0: addresses alone */
	CUdeviceptr base;			/* 0: not mapped */
	size_t size;
	struct stuck *next;
};

static struct vs_lock vmm_lock = VS_LOCK(VS_RANK_POOL);
static struct device devices[DEVICES];	/* under vmm_lock until tried */
static struct stuck *stuck;		/* under vmm_lock */
static size_t stuck_bytes;		/* likewise */
static _Atomic unsigned accessor_changes;

static enum vs_status fail(struct vs_why *why, CUresult rc, const char *what,
			   size_t size, CUdevice device)
{
	char error[96];

	return vs_why_set(why, rc == CUDA_ERROR_OUT_OF_MEMORY ? VS_NOMEM :
			  VS_CUDA, "%s of %zu MiB on device %d: %s", what,
			  size >> 20, device,
			  vs_driver_error(rc, error, sizeof(error)));
}

static bool has(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	return !vs_real.cuDeviceGetAttribute(&value, attribute, device) &&
	       value;
}

static bool granularity_of(struct device *d)
{
	return !vs_real.cuMemGetAllocationGranularity(&d->granularity,
				&d->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) &&
	       d->granularity;
}

/* Undoing and giving back is tried once more before it is put off. */
static bool unmap_again(CUdeviceptr base, size_t size)
{
	return !vs_vmm_unmap(base, size, NULL) ||
	       !vs_vmm_unmap(base, size, NULL);
}

/* The oldest comes last: addresses go after what was mapped there. */
static void remember_stuck(CUmemGenericAllocationHandle handle,
			   CUdeviceptr base, size_t size)
{
	struct stuck *s = malloc(sizeof(*s));

	vs_lock_take(&vmm_lock);
	if (handle)
		stuck_bytes += size;
	if (s) {
		s->handle = handle;
		s->base = base;
		s->size = size;
		s->next = stuck;
		stuck = s;
	}
	vs_lock_drop(&vmm_lock);
}

bool vs_vmm_stuck_within(CUdeviceptr base, size_t size)
{
	struct stuck *s;

	vs_lock_take(&vmm_lock);
	for (s = stuck; s; s = s->next)
		if (s->handle && s->base - base < size)
			break;
	vs_lock_drop(&vmm_lock);
	return s != NULL;
}

/* One granule, all the way and back, with the properties to be used. */
static CUresult try_out(struct device *d)
{
	CUmemAccessDesc access = {
		.location = d->prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	CUresult rc;

	if (!granularity_of(d))
		return CUDA_ERROR_NOT_SUPPORTED;
	rc = vs_real.cuMemAddressReserve(&base, d->granularity, 0, 0, 0);
	if (rc)
		return rc;
	rc = vs_real.cuMemCreate(&handle, d->granularity, &d->prop, 0);
	if (!rc) {
		rc = vs_real.cuMemMap(base, d->granularity, 0, handle, 0);
		if (!rc) {
			rc = vs_real.cuMemSetAccess(base, d->granularity,
						    &access, 1);
			vs_vmm_unback(base, d->granularity, handle);
		} else {
			vs_vmm_release(handle, d->granularity);
		}
	}
	vs_vmm_unreserve(base, d->granularity);
	return rc;
}

/*
 * Leaves it untried when the driver does not answer, and when a trial fails
 * that may do better next time: on a full card, say.
 */
static void probe(struct device *d, CUdevice device)
{
	CUmemAllocationProp plain = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = device,
	};
	int supported;
	CUresult rc;

	if (vs_real.cuDeviceGetAttribute(&supported,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		device))
		return;
	if (!supported || !vs_real.cuMemCreate) {
		d->usable = UNUSABLE;
		return;
	}
	d->prop = plain;
	if (has(device,
	    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		d->prop.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (has(device,
	    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		d->prop.allocFlags.gpuDirectRDMACapable = 1;
	rc = try_out(d);
	if (rc && rc != CUDA_ERROR_OUT_OF_MEMORY) {
		d->prop = plain;
		rc = try_out(d);
	}
	d->full = rc == CUDA_ERROR_OUT_OF_MEMORY;
	if (!rc)
		d->usable = USABLE;
	else if (!d->full && d->tries >= TRIES)
		d->usable = UNUSABLE;
}

bool vs_vmm_usable(CUdevice device)
{
	struct device *d;

	if (device < 0 || device >= DEVICES)
		return false;
	d = &devices[device];
	if (__atomic_load_n(&d->usable, __ATOMIC_ACQUIRE) == UNTRIED) {
		struct device tried = { .usable = UNTRIED };
		CUstreamCaptureMode mode = vs_context_relax();

		vs_lock_take(&vmm_lock);
		tried.tries = ++d->tries;
		vs_lock_drop(&vmm_lock);
		probe(&tried, device);
		vs_context_unrelax(mode);
		vs_lock_take(&vmm_lock);
		d->tries -= tried.full;
		if (d->usable == UNTRIED) {
			d->granularity = tried.granularity;
			d->prop = tried.prop;
			__atomic_store_n(&d->usable, tried.usable,
					 __ATOMIC_RELEASE);
			if (tried.usable == UNUSABLE)
				vs_log_warn("device %d: virtual memory "
					    "management is not usable; its "
					    "memory stays native and does "
					    "not sleep", device);
		}
		vs_lock_drop(&vmm_lock);
	}
	return __atomic_load_n(&d->usable, __ATOMIC_ACQUIRE) == USABLE;
}

bool vs_vmm_refused(CUdevice device)
{
	return device < 0 || device >= DEVICES ||
	       __atomic_load_n(&devices[device].usable, __ATOMIC_ACQUIRE) ==
	       UNUSABLE;
}

bool vs_vmm_rdma(CUdevice device)
{
	return devices[device].prop.allocFlags.gpuDirectRDMACapable;
}

bool vs_vmm_shareable(CUdevice device)
{
	return devices[device].prop.requestedHandleTypes &
	       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

size_t vs_vmm_granularity(CUdevice device)
{
	return devices[device].granularity;
}

size_t vs_vmm_round(CUdevice device, size_t size)
{
	size_t unit = devices[device].granularity;

	if (size > SIZE_MAX - unit)
		return 0;
	return (size + unit - 1) / unit * unit;
}

enum vs_status vs_vmm_reserve(CUdevice device, size_t size, CUdeviceptr *base,
			      struct vs_why *why)
{
	CUresult rc = vs_real.cuMemAddressReserve(base, size, 0, 0, 0);

	if (!rc)
		return VS_OK;
	/* Without addresses there may still be memory, as the driver has it. */
	fail(why, rc, "reserve", size, device);
	if (why)
		why->status = VS_CUDA;
	return VS_CUDA;
}

void vs_vmm_unreserve(CUdeviceptr base, size_t size)
{
	char error[96];
	CUresult rc;

	if (vs_vmm_stuck_within(base, size)) {
		remember_stuck(0, base, size);
		return;
	}
	rc = vs_real.cuMemAddressFree(base, size);
	if (rc && rc != CUDA_ERROR_DEINITIALIZED)
		rc = vs_real.cuMemAddressFree(base, size);
	if (!rc || rc == CUDA_ERROR_DEINITIALIZED)
		return;
	vs_log_warn("address range 0x%llx of %zu MiB: free failed: %s", base,
		    size >> 20, vs_driver_error(rc, error, sizeof(error)));
	remember_stuck(0, base, size);
}

enum vs_status vs_vmm_create(CUdevice device, size_t size,
			     CUmemGenericAllocationHandle *handle,
			     struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemCreate(handle, size, &devices[device].prop, 0);
	return rc ? fail(why, rc, "create", size, device) : VS_OK;
}

bool vs_vmm_release(CUmemGenericAllocationHandle handle, size_t size)
{
	char error[96];
	CUresult rc = vs_real.cuMemRelease(handle);

	if (!rc || rc == CUDA_ERROR_DEINITIALIZED)
		return true;
	vs_log_error("%zu MiB: release failed: %s", size >> 20,
		     vs_driver_error(rc, error, sizeof(error)));
	remember_stuck(handle, 0, size);
	return false;
}

/* The oldest first. */
static struct stuck *take_stuck(void)
{
	struct stuck *s, *list = NULL;

	vs_lock_take(&vmm_lock);
	while ((s = stuck)) {
		stuck = s->next;
		if (s->handle)
			stuck_bytes -= s->size;
		s->next = list;
		list = s;
	}
	vs_lock_drop(&vmm_lock);
	return list;
}

void vs_vmm_retry(void)
{
	struct stuck *list = take_stuck(), *s;

	while ((s = list)) {
		list = s->next;
		if (!s->handle)
			vs_vmm_unreserve(s->base, s->size);
		else if (!s->base)
			vs_vmm_release(s->handle, s->size);
		else
			vs_vmm_unback(s->base, s->size, s->handle);
		free(s);
	}
}

size_t vs_vmm_stuck(void)
{
	size_t bytes;

	vs_lock_take(&vmm_lock);
	bytes = stuck_bytes;
	vs_lock_drop(&vmm_lock);
	return bytes;
}

bool vs_vmm_unback(CUdeviceptr base, size_t size,
		   CUmemGenericAllocationHandle handle)
{
	if (unmap_again(base, size))
		return vs_vmm_release(handle, size);
	remember_stuck(handle, base, size);
	return false;
}

bool vs_vmm_add_accessor(CUdevice owner, CUdevice accessor)
{
	uint64_t bit = (uint64_t)1 << accessor;

	if (atomic_fetch_or(&devices[owner].accessors, bit) & bit)
		return false;
	atomic_fetch_add(&accessor_changes, 1);
	return true;
}

unsigned vs_vmm_accessors(void)
{
	return atomic_load(&accessor_changes);
}

enum vs_status vs_vmm_access(CUdevice device, CUdeviceptr base, size_t size,
			     struct vs_why *why)
{
	uint64_t accessors = atomic_load(&devices[device].accessors) |
			     (uint64_t)1 << device;
	CUmemAccessDesc access[DEVICES];
	size_t count = 0;
	CUresult rc;
	int i;

	for (i = 0; i < DEVICES; i++)
		if (accessors >> i & 1)
			access[count++] = (CUmemAccessDesc){
				.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
				.location.id = i,
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			};
	rc = vs_real.cuMemSetAccess(base, size, access, count);
	return rc ? fail(why, rc, "access", size, device) : VS_OK;
}

static enum vs_status map_bare(CUdevice device, CUdeviceptr base, size_t size,
			       CUmemGenericAllocationHandle handle,
			       struct vs_why *why)
{
	CUresult rc = vs_real.cuMemMap(base, size, 0, handle, 0);

	return rc ? fail(why, rc, "map", size, device) : VS_OK;
}

enum vs_status vs_vmm_map(CUdevice device, CUdeviceptr base, size_t size,
			  CUmemGenericAllocationHandle handle,
			  struct vs_why *why)
{
	enum vs_status st = map_bare(device, base, size, handle, why);

	if (st)
		return st;
	st = vs_vmm_access(device, base, size, why);
	if (st)
		unmap_again(base, size);
	return st;
}

enum vs_status vs_vmm_unmap(CUdeviceptr base, size_t size,
			    struct vs_why *why)
{
	char error[96];
	CUresult rc = vs_real.cuMemUnmap(base, size);

	if (!rc || rc == CUDA_ERROR_DEINITIALIZED)
		return VS_OK;
	vs_driver_error(rc, error, sizeof(error));
	vs_log_error("0x%llx %zu MiB: unmap failed: %s", base, size >> 20,
		     error);
	return vs_why_set(why, VS_CUDA, "unmap of 0x%llx, %zu MiB: %s", base,
			  size >> 20, error);
}

enum vs_status vs_vmm_back(CUdevice device, CUdeviceptr base, size_t size,
			   CUmemGenericAllocationHandle *handle,
			   struct vs_why *why)
{
	CUmemGenericAllocationHandle fresh;
	enum vs_status st;

	st = vs_vmm_create(device, size, &fresh, why);
	if (st)
		return st;
	st = map_bare(device, base, size, fresh, why);
	if (st) {
		vs_vmm_release(fresh, size);
		return st;
	}
	st = vs_vmm_access(device, base, size, why);
	if (st) {
		vs_vmm_unback(base, size, fresh);
		return st;
	}
	*handle = fresh;
	return VS_OK;
}
