/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages - a program that comes to CUDA step by step and then waits.
 *
 * Each argument is a step; "ok ready" follows, and a line ends it.
 *
 *   load        dlopen libcuda.so.1
 *   init        cuInit, looked up as programs do
 *   context     the primary context of device 0
 *   call=NAME   a function of the driver, with a 0
 *   copy=PATH   dlopen another copy of the driver
 *   apart       a copy of the driver in a linker namespace of its own
 *   deep=PATH   open a library with RTLD_DEEPBIND and call its use_cuda
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *driver;

static void *find(const char *name)
{
	return driver ? dlsym(driver, name) : NULL;
}

static int make_context(void)
{
	CUresult (*retain)(CUcontext *context, CUdevice device) =
		find("cuDevicePrimaryCtxRetain");
	CUresult (*set)(CUcontext context) = find("cuCtxSetCurrent");
	CUcontext context;

	return retain && set && !retain(&context, 0) && !set(context);
}

static int use_deeply(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
	int (*use)(void) = library ? dlsym(library, "use_cuda") : NULL;

	return use && use();
}

static int step(const char *name)
{
	CUresult (*init)(unsigned flags);

	if (!strcmp(name, "load"))
		return (driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL;
	if (!strcmp(name, "init"))
		return (init = find("cuInit")) && !init(0);
	if (!strcmp(name, "context"))
		return make_context();
	if (!strncmp(name, "call=", 5))
		return (init = find(name + 5)) && !init(0);
	if (!strncmp(name, "copy=", 5))
		return dlopen(name + 5, RTLD_NOW) != NULL;
	if (!strcmp(name, "apart"))
		return dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW) != NULL;
	if (!strncmp(name, "deep=", 5))
		return use_deeply(name + 5);
	return 0;
}

int main(int argc, char **argv)
{
	char line[64];
	int i;

	for (i = 1; i < argc; i++)
		if (!step(argv[i])) {
			const char *why = dlerror();

			printf("error %s %s\n", argv[i], why ? why : "");
			return 1;
		}
	printf("ok ready\n");
	fflush(stdout);
	return !fgets(line, sizeof(line), stdin);
}
