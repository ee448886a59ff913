/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contexts - a CUDA program that makes and ends contexts as stdin says, and
 * calls the driver from threads that have none.
 *
 * One command a line, one answer a line: "ok ..." or "error CODE".
 *
 *   primary              the primary context, one use more, is current
 *   create N, use N, destroy N      other contexts; "use" with none: none
 *   release, reset       of the primary context
 *   green N, stream N, unstream N, ungreen N     a green context and a stream
 *                        of it; "use" takes N for it too
 *   later NAME VALUE     the same as byte, queued in that stream
 *   alloc NAME BYTES, free NAME, byte NAME VALUE, count NAME VALUE
 *                        count: how many bytes, copied out, are not VALUE
 *   range NAME, type NAME, context NAME     what queries say of the block
 *   handle device|host BYTES        cuMemCreate and cuMemRelease
 *   forget NAME          it is not there any more; the driver is not asked
 *   current, sync, info, device     the last: bytes, by the simulated driver
 *   fresh COMMAND...     the same on a thread of its own, its first call
 */
#include "drv.h"
#include "sim.h"

#include <pthread.h>

#define BLOCKS 64
#define OTHERS 8

struct block {
	char name[16];
	CUdeviceptr p;
	size_t size;
	CUcontext owner;
};

static struct block blocks[BLOCKS];
static CUcontext others[OTHERS], primary;
static CUgreenCtx greens[OTHERS];
static CUstream streams[OTHERS];
static char said[128];

#define say(...) snprintf(said, sizeof(said), __VA_ARGS__)

#define TRY(call)							\
	do {								\
		CUresult try_rc = (call);				\
									\
		if (try_rc)						\
			return try_rc;					\
	} while (0)

static struct block *find(const char *name)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (!strcmp(blocks[i].name, name))
			return &blocks[i];
	fprintf(stderr, "no block \"%s\"\n", name);
	exit(3);
}

static CUresult do_alloc(const char *name, size_t size)
{
	struct block *b = find("");
	CUresult rc;

	b->size = size;
	rc = cuMemAlloc(&b->p, size);
	if (rc)
		return rc;
	snprintf(b->name, sizeof(b->name), "%s", name);
	return cuCtxGetCurrent(&b->owner);
}

static CUresult do_free(struct block *b)
{
	TRY(cuMemFree(b->p));
	b->name[0] = '\0';
	return CUDA_SUCCESS;
}

static CUresult do_byte(struct block *b, unsigned value)
{
	TRY(cuMemsetD8(b->p, (unsigned char)value, b->size));
	return cuCtxSynchronize();
}

/* In the one stream of a green context that there is. */
static CUresult do_later(struct block *b, unsigned value)
{
	int n;

	for (n = 0; n < OTHERS && !streams[n]; n++)
		;
	return cuMemsetD8Async(b->p, (unsigned char)value, b->size,
			       streams[n % OTHERS]);
}

static CUresult do_count(struct block *b, unsigned value)
{
	unsigned char *out = calloc(1, b->size);
	size_t i, bad = 0;
	CUresult rc;

	if (!out)
		exit(3);
	rc = cuMemcpyDtoH(out, b->p, b->size);
	for (i = 0; i < b->size; i++)
		bad += out[i] != value;
	free(out);
	say("bad=%zu", rc ? 0 : bad);
	return rc;
}

static CUresult do_range(struct block *b)
{
	CUdeviceptr base = 0;
	size_t size = 0;

	TRY(cuMemGetAddressRange(&base, &size, b->p + b->size - 1));
	say("base=%d size=%zu", base == b->p, size);
	return CUDA_SUCCESS;
}

static CUresult do_type(struct block *b)
{
	unsigned type = 0;

	TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				  b->p));
	say("type=%u", type);
	return CUDA_SUCCESS;
}

static CUresult do_context(struct block *b)
{
	CUcontext owner = NULL;

	TRY(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, b->p));
	say("own=%d", owner == b->owner);
	return CUDA_SUCCESS;
}

static CUresult do_handle(const char *where, size_t size)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = strcmp(where, "host") ?
				 CU_MEM_LOCATION_TYPE_DEVICE :
				 CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};
	CUmemGenericAllocationHandle handle;

	TRY(cuMemCreate(&handle, size, &prop, 0));
	return cuMemRelease(handle);
}

static CUresult do_primary(void)
{
	TRY(cuDevicePrimaryCtxRetain(&primary, 0));
	return cuCtxSetCurrent(primary);
}

static CUresult do_create(int n)
{
#if CUDA_VERSION >= 13000
	return cuCtxCreate(&others[n], NULL, 0, 0);
#else
	return cuCtxCreate(&others[n], 0, 0);
#endif
}

static CUresult do_green(int n)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int count = 1;

	TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	TRY(cuDevSmResourceSplitByCount(&part, &count, &all, NULL, 0, 16));
	TRY(cuDevResourceGenerateDesc(&desc, &part, 1));
	TRY(cuGreenCtxCreate(&greens[n], desc, 0,
			     CU_GREEN_CTX_DEFAULT_STREAM));
	return cuCtxFromGreenCtx(&others[n], greens[n]);
}

static CUresult obey_green(const char *verb, int n)
{
	if (!strcmp(verb, "green"))
		return do_green(n);
	if (!strcmp(verb, "stream"))
		return cuGreenCtxStreamCreate(&streams[n], greens[n],
					      CU_STREAM_NON_BLOCKING, 0);
	if (!strcmp(verb, "unstream"))
		return cuStreamDestroy(streams[n]);
	if (!strcmp(verb, "ungreen"))
		return cuGreenCtxDestroy(greens[n]);
	fprintf(stderr, "no command \"%s\"\n", verb);
	exit(3);
}

static CUresult do_current(void)
{
	CUcontext now = NULL;
	int n;

	TRY(cuCtxGetCurrent(&now));
	for (n = 0; n < OTHERS && others[n] != now; n++)
		;
	if (!now || now == primary)
		say("context=%s", now ? "primary" : "none");
	else
		say("context=%d", n);
	return CUDA_SUCCESS;
}

static CUresult do_info(void)
{
	size_t left, all;

	TRY(cuMemGetInfo(&left, &all));
	say("total=%zu", all);
	return CUDA_SUCCESS;
}

static CUresult obey_context(const char *verb, const char *word)
{
	int n = atoi(word) % OTHERS;

	if (!strcmp(verb, "primary"))
		return do_primary();
	if (!strcmp(verb, "create"))
		return do_create(n);
	if (!strcmp(verb, "use"))
		return cuCtxSetCurrent(*word ? others[n] : NULL);
	if (!strcmp(verb, "destroy"))
		return cuCtxDestroy(others[n]);
	if (!strcmp(verb, "release"))
		return cuDevicePrimaryCtxRelease(0);
	if (!strcmp(verb, "reset"))
		return cuDevicePrimaryCtxReset(0);
	if (!strcmp(verb, "current"))
		return do_current();
	if (!strcmp(verb, "sync"))
		return cuCtxSynchronize();
	if (!strcmp(verb, "info"))
		return do_info();
	if (!strcmp(verb, "device")) {
		say("bytes=%zu", sim_used(0));
		return CUDA_SUCCESS;
	}
	return obey_green(verb, n);
}

static CUresult obey(const char *verb, const char *word, const char *number)
{
	size_t n = strtoull(number, NULL, 0);

	if (!strcmp(verb, "alloc"))
		return do_alloc(word, n);
	if (!strcmp(verb, "handle"))
		return do_handle(word, n);
	if (!strcmp(verb, "free"))
		return do_free(find(word));
	if (!strcmp(verb, "byte"))
		return do_byte(find(word), (unsigned)n);
	if (!strcmp(verb, "later"))
		return do_later(find(word), (unsigned)n);
	if (!strcmp(verb, "count"))
		return do_count(find(word), (unsigned)n);
	if (!strcmp(verb, "range"))
		return do_range(find(word));
	if (!strcmp(verb, "type"))
		return do_type(find(word));
	if (!strcmp(verb, "context"))
		return do_context(find(word));
	if (!strcmp(verb, "forget")) {
		find(word)->name[0] = '\0';
		return CUDA_SUCCESS;
	}
	return obey_context(verb, word);
}

static void *obey_line(void *line)
{
	char *save = NULL;
	const char *verb = strtok_r(line, " \n", &save);
	const char *word = strtok_r(NULL, " \n", &save);
	const char *number = strtok_r(NULL, " \n", &save);
	CUresult rc;

	said[0] = '\0';
	rc = obey(verb ? verb : "", word ? word : "", number ? number : "");
	if (rc)
		printf("error %d %s\n", rc, said);
	else
		printf("ok %s\n", said);
	return NULL;
}

int main(void)
{
	static char line[128];
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CK(cuInit(0));
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "leave\n")) {
		if (strncmp(line, "fresh ", 6)) {
			obey_line(line);
			continue;
		}
		if (pthread_create(&thread, NULL, obey_line, line + 6))
			return 3;
		pthread_join(thread, NULL);
	}
	return 0;
}
