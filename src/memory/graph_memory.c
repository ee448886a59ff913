/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/graph_memory.h"
#include "memory/unmanaged.h"
#include "base/context.h"
#include "base/device.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdint.h>

static cuuint64_t reserved(CUdevice device)
{
	cuuint64_t bytes = 0;

	if (!vs_real.cuDeviceGetGraphMemAttribute ||
	    vs_real.cuDeviceGetGraphMemAttribute(device,
			CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes))
		return 0;
	return bytes;
}

static void settle_device(CUdevice device)
{
	cuuint64_t bytes = reserved(device);
	char error[64];
	CUresult rc;

	if (!bytes)
		return;
	rc = vs_real.cuDeviceGraphMemTrim(device);
	if (rc)
		vs_log_warn("device %d: memory of graphs was not trimmed: %s",
			    device, vs_driver_error(rc, error, sizeof(error)));
	bytes = reserved(device);
	if (bytes)
		vs_unmanaged_add(VS_UNMANAGED_GRAPH, (uint64_t)device,
				 (size_t)bytes);
}

void vs_graph_memory_settle(void)
{
	struct vs_context *contexts[VS_CONTEXT_MAX];
	struct vs_context_scope scope;
	bool done[VS_DEVICE_MAX] = { false };
	CUdevice device;
	int i, count;

	for (i = 0; i < VS_DEVICE_MAX; i++)
		vs_unmanaged_remove(VS_UNMANAGED_GRAPH, (uint64_t)i);
	count = vs_context_pin_all(contexts, VS_CONTEXT_MAX);
	for (i = 0; i < count; i++) {
		device = contexts[i]->device;
		if (device >= 0 && device < VS_DEVICE_MAX && !done[device] &&
		    !vs_context_enter(contexts[i], &scope, NULL)) {
			settle_device(device);
			vs_context_leave(&scope);
			done[device] = true;
		}
		vs_context_unpin(contexts[i]);
	}
}
