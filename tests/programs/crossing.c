/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossing - a program and a plugin that it opens with RTLD_DEEPBIND, each of
 * which frees what the other has allocated.
 *
 *   crossing PLUGIN now|lazy|apart     apart: in a namespace of its own
 *
 * The plugin is this file once more, built with -DPLUGIN as a library that
 * finds the driver by the linker, with -DPLUGIN -DBY_DLSYM by dlsym, or with
 * -DPLUGIN -DBY_RUNTIME by the runtime.  What
 * the calls return is printed; after "ok ready" memory of both is held, which a
 * line on stdin lets it verify and free.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define SIZE ((size_t)4 << 20)

#ifdef PLUGIN

#ifdef BY_RUNTIME
#include <cuda_runtime_api.h>
#define CALL(fn) by_runtime_##fn
#define by_runtime_cuMemAlloc(p, size) cudaMalloc((void **)(p), size)
#define by_runtime_cuMemsetD8(p, byte, size) \
	cudaMemset((void *)(p), byte, size)
#define by_runtime_cuMemFree(p) cudaFree((void *)(p))
#elif defined(BY_DLSYM)
static void *find(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	return driver ? dlsym(driver, name) : NULL;
}
#define CALL(fn) ((__typeof__(&fn))find(NAME(fn)))
#define NAME(fn) NAME_(fn)
#define NAME_(fn) #fn
#else
#define CALL(fn) fn
#endif

/* A driver of its own has no context yet. */
static void begin(void)
{
#if !defined(BY_RUNTIME)
	CUcontext context;

	if (CALL(cuCtxGetCurrent)(&context) && !CALL(cuInit)(0) &&
	    !CALL(cuDevicePrimaryCtxRetain)(&context, 0))
		CALL(cuCtxSetCurrent)(context);
#endif
}

int plugin_take(CUdeviceptr *p, size_t size, unsigned char byte);
int plugin_give(CUdeviceptr p);

#ifdef PART
/* In the page where the sealed part ends, which stays open. */
__attribute__((section(".data.rel.ro")))
#endif
static volatile int taken = 1;

int plugin_take(CUdeviceptr *p, size_t size, unsigned char byte)
{
	int rc;

	begin();
	taken++;
	rc = CALL(cuMemAlloc)(p, size);
	return rc ? rc : (int)CALL(cuMemsetD8)(*p, byte, size);
}

int plugin_give(CUdeviceptr p)
{
	return CALL(cuMemFree)(p);
}

#else

static int differ(CUdeviceptr p, size_t size, unsigned char byte)
{
	static unsigned char bytes[SIZE];
	size_t i;
	int wrong = 0;

	if (cuMemcpyDtoH(bytes, p, size))
		return -1;
	for (i = 0; i < size; i++)
		wrong += bytes[i] != byte;
	return wrong;
}

static void open_plugin(const char *path, int flags,
			int (**take)(CUdeviceptr *, size_t, unsigned char),
			int (**give)(CUdeviceptr))
{
	void *plugin = flags ? dlopen(path, flags | RTLD_DEEPBIND)
			     : dlmopen(LM_ID_NEWLM, path, RTLD_NOW);

	*take = (int (*)(CUdeviceptr *, size_t, unsigned char))
		(plugin ? dlsym(plugin, "plugin_take") : NULL);
	*give = (int (*)(CUdeviceptr))
		(plugin ? dlsym(plugin, "plugin_give") : NULL);
}

static int flags_of(const char *word)
{
	if (!strcmp(word, "apart"))
		return 0;
	return !strcmp(word, "now") ? RTLD_NOW : RTLD_LAZY;
}

int main(int argc, char **argv)
{
	int (*take)(CUdeviceptr *p, size_t size, unsigned char byte);
	int (*give)(CUdeviceptr p);
	CUdeviceptr ours = 0, theirs = 0;
	CUcontext context;
	char line[16];

	if (argc != 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context) || cuMemAlloc(&ours, SIZE))
		return 2;
	open_plugin(argv[1], flags_of(argv[2]), &take, &give);
	if (!take || !give) {
		printf("error %s\n", dlerror());
		return 3;
	}
	printf("the plugin takes %d\n", take(&theirs, SIZE, 1));
	printf("the program frees it %d\n", cuMemFree(theirs));
	printf("the plugin once more %d\n", give(theirs));
	printf("the plugin frees the program's %d\n", give(ours));
	printf("the program once more %d\n", cuMemFree(ours));
	if (cuMemAlloc(&ours, SIZE) || cuMemsetD8(ours, 7, SIZE))
		return 4;
	take(&theirs, SIZE, 9);
	printf("ok ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 5;
	printf("differ %d %d\n", differ(ours, SIZE, 7),
	       strcmp(argv[2], "apart") ? differ(theirs, SIZE, 9) : 0);
	printf("the plugin frees it %d\n", give(ours));
	printf("the program the other %d\n", cuMemFree(theirs));
	return 0;
}

#endif
