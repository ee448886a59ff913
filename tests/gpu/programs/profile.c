/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile - a profiler as a library: the driver loads it into a program where
 * CUDA_INJECTION64_PATH names it.  At the end it writes to $PROFILE which
 * kernels ran and how often, a line "COUNT NAME" each, sorted by name.
 */
#include <cuda.h>
#include <cupti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (8u << 20)
#define NAMES 1024

static struct {
	char *name;
	unsigned long count;
} kernels[NAMES];
static size_t names;
static unsigned long dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int InitializeInjection(void);

static void CUPTIAPI give_room(uint8_t **buffer, size_t *size, size_t *records)
{
	*size = 0;
	*records = 0;
	*buffer = aligned_alloc(8, ROOM);
	if (*buffer)
		*size = ROOM;
}

static void count(const char *name)
{
	size_t i;

	for (i = 0; i < names; i++)
		if (!strcmp(kernels[i].name, name))
			break;
	if (i == NAMES)
		return;
	if (i == names) {
		kernels[i].name = strdup(name);
		names++;
	}
	kernels[i].count++;
}

static void CUPTIAPI take_records(CUcontext context, uint32_t stream,
				  uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;
	size_t lost = 0;

	(void)size;
	pthread_mutex_lock(&lock);
	while (!cuptiActivityGetNextRecord(buffer, valid, &record))
		if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			count(((CUpti_ActivityKernel10 *)record)->name);
	if (!cuptiActivityGetNumDroppedRecords(context, stream, &lost))
		dropped += lost;
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void write_all(void)
{
	const char *path = getenv("PROFILE");
	FILE *out = path ? fopen(path, "w") : NULL;
	size_t i;

	cuptiActivityFlushAll(1);
	pthread_mutex_lock(&lock);
	qsort(kernels, names, sizeof(*kernels), by_name);
	for (i = 0; out && i < names; i++)
		fprintf(out, "%lu %s\n", kernels[i].count, kernels[i].name);
	if (out && dropped)
		fprintf(out, "%lu dropped\n", dropped);
	if (out)
		fclose(out);
	pthread_mutex_unlock(&lock);
}

int InitializeInjection(void)
{
	CUptiResult rc;

	rc = cuptiActivityRegisterCallbacks(give_room, take_records);
	if (!rc)
		rc = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	if (rc)
		fprintf(stderr, "profile: CUPTI error %d\n", (int)rc);
	else
		atexit(write_all);
	return 1;
}
