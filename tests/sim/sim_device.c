/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_internal.h"

#include <stdio.h>
#include <string.h>

/* What a device says of itself; what is not listed is 0. */
static const int attributes[] = {
	[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64,	/* threads, block */
	[5] = 2147483647, [6] = 65535, [7] = 65535,	/* grid */
	[8] = 49152, [9] = 65536, [10] = 32, [11] = 2147483647,
	[12] = 65536, [13] = 1980000, [14] = 512, [15] = 1, [16] = 132,
	[19] = 1,			/* can map host memory */
	[21] = 131072, [22] = 131072, [23] = 65536, [24] = 16384,
	[25] = 16384, [26] = 16384, [27] = 32768, [28] = 32768, [29] = 2048,
	[30] = 512, [31] = 1, [32] = 1,
	[36] = 3201000, [37] = 6144, [38] = 62914560, [39] = 2048, [40] = 3,
	[41] = 1,			/* unified addressing */
	[51] = 32,
	[75] = 9, [76] = 0,		/* compute capability */
	[78] = 1, [79] = 1, [80] = 1, [81] = 233472, [82] = 65536,
	[83] = 1,			/* managed memory */
	[87] = 2, [89] = 1, [90] = 1,
	[91] = 1,			/* host pointer of registered memory */
	[92] = 1, [93] = 1, [94] = 1, [95] = 1, [96] = 1, [97] = 232448,
	[98] = 1, [99] = 1,
	[102] = 1,			/* virtual memory management */
	[103] = 1,			/* handles as file descriptors */
	[106] = 32, [108] = 41943040, [109] = 134217728,
	[110] = 1,			/* RDMA with it */
	[111] = 1024, [113] = 1,
	[115] = 1,			/* memory pools */
	[116] = 1, [117] = 1, [118] = 100, [119] = 0,
	[120] = 1, [121] = 1, [122] = 1, [123] = 1, [126] = 4, [127] = 1,
	[141] = 1,			/* host NUMA memory */
};

#define ATTRIBUTES	148

SIM_API(cuDeviceGet, (CUdevice *dev, int ordinal))
{
	SIM_ENTER(cuDeviceGet);
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = ordinal;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetCount, (int *count))
{
	SIM_ENTER(cuDeviceGetCount);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_config.devices;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetName, (char *name, int len, CUdevice dev))
{
	SIM_ENTER(cuDeviceGetName);
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Simulated GPU");
	return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, "simulated-gpu-", 14);
	uuid->bytes[14] = '0';
	uuid->bytes[15] = (char)('a' + dev);
	return CUDA_SUCCESS;
}

SIM_SAME(cuDeviceGetUuid, (CUuuid *uuid, CUdevice dev), get_uuid(uuid, dev))
SIM_SAME(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice dev), get_uuid(uuid, dev))

SIM_API(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev))
{
	SIM_ENTER(cuDeviceTotalMem_v2);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = sim_device[dev].limit;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute,
			       CUdevice dev))
{
	const size_t listed = sizeof(attributes) / sizeof(*attributes);

	SIM_ENTER(cuDeviceGetAttribute);
	if (!value || (int)attribute < 1 || (int)attribute >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute < listed ? attributes[attribute] : 0;
	if (attribute ==
	    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
	    (size_t)dev == sim_config.no_vmm)
		*value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS &&
	    sim_managed_still(dev))
		*value = 0;
	if (attribute ==
	    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST &&
	    (size_t)dev == sim_config.direct)
		*value = 1;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = dev + 1;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceComputeCapability, (int *major, int *minor, CUdevice dev))
{
	SIM_ENTER(cuDeviceComputeCapability);
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetProperties, (CUdevprop *p, CUdevice dev))
{
	SIM_ENTER(cuDeviceGetProperties);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(p, 0, sizeof(*p));
	p->maxThreadsPerBlock = attributes[1];
	memcpy(p->maxThreadsDim, attributes + 2, sizeof(p->maxThreadsDim));
	memcpy(p->maxGridSize, attributes + 5, sizeof(p->maxGridSize));
	p->sharedMemPerBlock = attributes[8];
	p->totalConstantMemory = attributes[9];
	p->SIMDWidth = attributes[10];
	p->memPitch = attributes[11];
	p->regsPerBlock = attributes[12];
	p->clockRate = attributes[13];
	p->textureAlign = attributes[14];
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetPCIBusId, (char *text, int len, CUdevice dev))
{
	SIM_ENTER(cuDeviceGetPCIBusId);
	if (!text || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(text, (size_t)len, "0000:%02X:00.0", (unsigned)dev + 1);
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetByPCIBusId, (CUdevice *dev, const char *text))
{
	unsigned domain, bus;

	SIM_ENTER(cuDeviceGetByPCIBusId);
	if (!dev || !text)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(text, "%x:%x:", &domain, &bus) != 2 || domain ||
	    !sim_dev_ok((CUdevice)bus - 1))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceCanAccessPeer, (int *can, CUdevice dev, CUdevice peer))
{
	SIM_ENTER(cuDeviceCanAccessPeer);
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev) || !sim_dev_ok(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetP2PAttribute, (int *value, CUdevice_P2PAttribute attribute,
				  CUdevice from, CUdevice to))
{
	SIM_ENTER(cuDeviceGetP2PAttribute);
	if (!value || (int)attribute < 1 || (int)attribute > 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(from) || !sim_dev_ok(to) || from == to)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
	return CUDA_SUCCESS;
}
