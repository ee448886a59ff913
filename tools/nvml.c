/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define SUCCESS 0
#define INSUFFICIENT_SIZE 7
#define NOT_AVAILABLE (~0ull)
#define PROCESSES_FIRST 64
#define PROCESSES_MAX 65536
#define UUID_SIZE 96

typedef struct nvmlDevice_st *device_t;

/* nvmlProcessInfo_v1_t, for the oldest of the three functions. */
struct process_v1 {
	unsigned pid;
	unsigned long long used;
};

/* nvmlProcessInfo_t, for _v2 and _v3. */
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance;
	unsigned compute_instance;
};

static struct {
	bool tried, usable;
	int (*init)(void);
	int (*by_uuid)(const char *uuid, device_t *device);
	int (*count)(unsigned *count);
	int (*by_index)(unsigned index, device_t *device);
	int (*processes)(device_t device, unsigned *count, void *out);
	size_t process_size;
} nvml;

static void *symbol(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static void find_processes(void *library)
{
	static const char name[] = "nvmlDeviceGetComputeRunningProcesses";
	static const char *const endings[] = { "_v3", "_v2", "" };
	char full[64];
	int i;

	for (i = 0; i < 3 && !nvml.processes; i++) {
		snprintf(full, sizeof(full), "%s%s", name, endings[i]);
		nvml.processes = symbol(library, full);
		nvml.process_size = i < 2 ? sizeof(struct process)
					  : sizeof(struct process_v1);
	}
}

static bool start(void)
{
	void *library;

	if (nvml.tried)
		return nvml.usable;
	nvml.tried = true;
	/* A static program must not load libraries: they bring a C library
	 * that may be of another version. */
	if (!getauxval(AT_BASE))
		return false;
	library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvml.init = symbol(library, "nvmlInit_v2");
	nvml.by_uuid = symbol(library, "nvmlDeviceGetHandleByUUID");
	nvml.count = symbol(library, "nvmlDeviceGetCount_v2");
	nvml.by_index = symbol(library, "nvmlDeviceGetHandleByIndex_v2");
	find_processes(library);
	nvml.usable = nvml.init && nvml.by_uuid && nvml.count &&
		      nvml.by_index && nvml.processes &&
		      nvml.init() == SUCCESS;
	return nvml.usable;
}

/* All processes of a device; NULL when they cannot be had. */
static char *list(device_t device, unsigned *count)
{
	unsigned room = PROCESSES_FIRST;
	char *out = NULL, *larger;
	int rc;

	do {
		larger = realloc(out, room * nvml.process_size);
		if (!larger)
			break;
		out = larger;
		*count = room;
		rc = nvml.processes(device, count, out);
		if (rc == SUCCESS && *count <= room)
			return out;
		room *= 2;
	} while (rc == INSUFFICIENT_SIZE && room <= PROCESSES_MAX);
	free(out);
	return NULL;
}

static bool used_on(device_t device, pid_t pid, unsigned long long *bytes)
{
	const struct process_v1 *process;	/* begins as the other one */
	bool known = false;
	unsigned count, i;
	char *all = list(device, &count);

	for (i = 0; all && i < count; i++) {
		process = (const void *)(all + i * nvml.process_size);
		if (process->pid != (unsigned)pid ||
		    process->used == NOT_AVAILABLE)
			continue;
		*bytes += process->used;
		known = true;
	}
	free(all);
	return known;
}

static bool find_device(const char *uuid, device_t *device)
{
	char part[UUID_SIZE];

	if (nvml.by_uuid(uuid, device) == SUCCESS)
		return true;
	/* CUDA calls a slice of a GPU by the number of the slice. */
	if (strncmp(uuid, "GPU-", 4))
		return false;
	snprintf(part, sizeof(part), "MIG-%s", uuid + 4);
	return nvml.by_uuid(part, device) == SUCCESS;
}

bool nvml_used(const char *uuid, pid_t pid, unsigned long long *bytes)
{
	device_t device;
	bool known = false;
	unsigned count, i;

	*bytes = 0;
	if (!start())
		return false;
	if (uuid)
		return find_device(uuid, &device) &&
		       used_on(device, pid, bytes);
	if (nvml.count(&count) != SUCCESS)
		return false;
	for (i = 0; i < count; i++)
		if (nvml.by_index(i, &device) == SUCCESS)
			known |= used_on(device, pid, bytes);
	return known;
}
