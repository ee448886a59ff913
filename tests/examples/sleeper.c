/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleeper - a program that gives its GPU memory away while it has nothing to
 * do, and takes it back when it has.
 *
 *	cc -std=c99 sleeper.c -lcuda -o sleeper
 *	vsleepctl run ./sleeper
 *
 * Without vsleep it does the same work and keeps its memory.
 */
#include <cuda.h>
#include <vsleep.h>

#include <stdio.h>
#include <stdlib.h>

#define WEIGHTS ((size_t)48 << 20)
#define SCRATCH ((size_t)16 << 20)

static void check(CUresult rc, const char *what)
{
	const char *name = "unknown error";

	if (rc == CUDA_SUCCESS)
		return;
	cuGetErrorName(rc, &name);
	fprintf(stderr, "%s: %s\n", what, name);
	exit(1);
}

/* vsleep's answer; where there is no vsleep nothing is wrong with that. */
static void said(const char *what, int rc, const struct vsleep_reply *reply)
{
	if (rc == VSLEEP_NOT_PRESENT) {
		printf("%s: vsleep is not here\n", what);
		return;
	}
	if (rc != VSLEEP_OK) {
		fprintf(stderr, "%s: %s (%d)\n", what, reply->message, rc);
		exit(1);
	}
	printf("%s: %llu MiB on the device, %llu MiB asleep\n", what,
	       (unsigned long long)(reply->resident >> 20),
	       (unsigned long long)(reply->evicted >> 20));
}

/* Memory that belongs to one tag, filled with one byte. */
static CUdeviceptr allocate(const char *tag, size_t size, unsigned char byte)
{
	CUdeviceptr p;

	vsleep_tag_push(tag);
	check(cuMemAlloc(&p, size), "cuMemAlloc");
	vsleep_tag_pop();
	check(cuMemsetD8(p, byte, size), "cuMemsetD8");
	return p;
}

/* How many bytes are not what they should be. */
static size_t count_wrong(CUdeviceptr p, size_t size, unsigned char byte)
{
	unsigned char *host = (unsigned char *)malloc(size);
	size_t i, wrong = 0;

	if (!host)
		exit(1);
	check(cuMemcpyDtoH(host, p, size), "cuMemcpyDtoH");
	for (i = 0; i < size; i++)
		wrong += host[i] != byte;
	free(host);
	return wrong;
}

/* What a program may want to do whenever it is put to sleep, by whomever. */
static void before_sleep(void *unused)
{
	(void)unused;
	printf("about to sleep\n");
}

static void after_wake(void *unused)
{
	(void)unused;
	printf("awake again\n");
}

int main(void)
{
	struct vsleep_reply reply;
	CUdeviceptr weights, scratch;
	size_t wrong;
	CUcontext context;
	CUdevice device;

	reply.size = sizeof(reply);
	vsleep_policy_set("scratch", VSLEEP_DISCARD);
	vsleep_callback_add(before_sleep, after_wake, NULL);
	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&device, 0), "cuDeviceGet");
	check(cuDevicePrimaryCtxRetain(&context, device), "a context");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	weights = allocate("weights", WEIGHTS, 42);
	scratch = allocate("scratch", SCRATCH, 7);

	said("sleep", vsleep_sleep(1, NULL, 0, -1, &reply), &reply);
	/* Here the device belongs to others. */
	said("wake", vsleep_wake(NULL, 0, 60, &reply), &reply);

	wrong = count_wrong(weights, WEIGHTS, 42);
	if (vsleep_present())
		wrong += count_wrong(scratch, SCRATCH, 0);
	printf("%lu bytes are wrong\n", (unsigned long)wrong);
	/* The last callback may still run. */
	vsleep_callback_remove(before_sleep, after_wake, NULL);
	check(cuMemFree(scratch), "cuMemFree");
	check(cuMemFree(weights), "cuMemFree");
	check(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
	return wrong != 0;
}
