/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/device.h"
#include "base/driver.h"

#include <stdatomic.h>
#include <stdio.h>

enum { UNKNOWN, ASKING, KNOWN };

static struct vs_device devices[VS_DEVICE_MAX];	/* fixed once KNOWN */
static _Atomic int states[VS_DEVICE_MAX];

static bool in_range(CUdevice device)
{
	return device >= 0 && device < VS_DEVICE_MAX;
}

static void write_uuid(const CUuuid *uuid, char *out, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(out, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
		 b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

/* The second form tells the instances of a divided device apart. */
static bool ask_uuid(CUuuid *uuid, CUdevice device)
{
	if (vs_real.cuDeviceGetUuid_v2)
		return !vs_real.cuDeviceGetUuid_v2(uuid, device);
	return vs_real.cuDeviceGetUuid &&
	       !vs_real.cuDeviceGetUuid(uuid, device);
}

void vs_device_note(CUdevice device)
{
	struct vs_device *d;
	int unknown = UNKNOWN, vmm = 0;
	CUuuid uuid;

	if (!in_range(device) ||
	    !atomic_compare_exchange_strong(&states[device], &unknown, ASKING))
		return;
	d = &devices[device];
	if (ask_uuid(&uuid, device))
		write_uuid(&uuid, d->uuid, sizeof(d->uuid));
	else
		snprintf(d->uuid, sizeof(d->uuid), "unknown");
	if (vs_real.cuDeviceGetPCIBusId(d->bus, sizeof(d->bus), device))
		snprintf(d->bus, sizeof(d->bus), "unknown");
	if (!vs_real.cuDeviceGetAttribute(&vmm,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		device))
		d->vmm = vmm;
	atomic_store(&states[device], KNOWN);
}

void vs_device_read(CUdevice device, struct vs_device *out)
{
	static const struct vs_device unknown = { "unknown", "unknown", false };

	if (in_range(device) && atomic_load(&states[device]) == KNOWN)
		*out = devices[device];
	else
		*out = unknown;
}
