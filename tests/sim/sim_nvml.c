/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1 of the simulated machine: what each process uses, as the
 * simulated driver shares it in VSLEEP_SIM_SHARE.  It has what vsleepctl asks
 * for, under the names and with the layouts of the real one.
 */
#include "sim_share.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
};

typedef struct nvmlDevice_st {
	int number;
} *nvmlDevice_t;

typedef struct nvmlProcessInfo_st {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId;
	unsigned computeInstanceId;
} nvmlProcessInfo_t;

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
					    unsigned *count,
					    nvmlProcessInfo_t *infos);

static struct sim_row rows[SIM_SHARE_ROWS];
static struct nvmlDevice_st devices[SIM_DEVICES];
static int ready;

EXPORT int nvmlInit_v2(void)
{
	int i;

	for (i = 0; i < SIM_DEVICES; i++)
		devices[i].number = i;
	ready = 1;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	const char *text = getenv("VSLEEP_SIM_DEVICES");

	if (!ready)
		return UNINITIALIZED;
	*count = text ? (unsigned)atoi(text) : 1;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	unsigned count;

	if (nvmlDeviceGetCount_v2(&count) || index >= count)
		return INVALID_ARGUMENT;
	*device = &devices[index];
	return SUCCESS;
}

/* The driver's is "simulated-gpu-0a", the last letter being the device's. */
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	char own[64];
	unsigned i, count;

	if (nvmlDeviceGetCount_v2(&count))
		return UNINITIALIZED;
	for (i = 0; i < count; i++) {
		snprintf(own, sizeof(own),
			 "GPU-73696d75-6c61-7465-642d-6770752d30%02x",
			 'a' + i);
		if (!strcmp(own, uuid)) {
			*device = &devices[i];
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
						   unsigned *count,
						   nvmlProcessInfo_t *infos)
{
	const char *path = getenv("VSLEEP_SIM_SHARE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	unsigned found = 0, room = *count;
	ssize_t n = 0;
	int i;

	if (fd >= 0) {
		n = read(fd, rows, sizeof(rows));
		close(fd);
	}
	for (i = 0; i < (int)(n / (ssize_t)sizeof(rows[0])); i++) {
		const struct sim_row *r = &rows[i];

		if (!r->pid || !r->used[device->number] ||
		    sim_share_born(r->pid) != r->born)
			continue;
		if (found++ < room)
			infos[found - 1] = (nvmlProcessInfo_t){
				.pid = (unsigned)r->pid,
				.usedGpuMemory = r->used[device->number],
				.gpuInstanceId = ~0u,
				.computeInstanceId = ~0u,
			};
	}
	*count = found;
	return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
