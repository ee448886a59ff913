/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drv - the driver API for the test programs: how they reach it, checked
 * calls, one context, the kernels of kernels_ptx.h.
 *
 * A call is written CK(CU(cuMemAlloc)(&p, n)).  How CU() finds the function is
 * chosen at build: bound by the linker (default), DRV_DLOPEN (dlopen with
 * RTLD_LOCAL, dlsym for each name) or DRV_GETPROC (only cuGetProcAddress comes
 * from dlsym, everything else from it).
 */
#ifndef VS_TEST_DRV_H
#define VS_TEST_DRV_H

#include "kernels_ptx.h"
#include "prog.h"

#include <cuda.h>

#if defined(DRV_DLOPEN) || defined(DRV_GETPROC)

#include <dlfcn.h>

#define DRV_CALLS(X)							\
	X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain)		\
	X(cuCtxSetCurrent) X(cuCtxSynchronize)				\
	X(cuModuleLoadData) X(cuModuleGetFunction)			\
	X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo)			\
	X(cuMemHostAlloc) X(cuMemFreeHost)				\
	X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync)			\
	X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemsetD8)			\
	X(cuMemsetD8Async) X(cuMemsetD32Async)				\
	X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize)	\
	X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventRecord)		\
	X(cuEventDestroy) X(cuLaunchKernel)

#define DRV_MEMBER(fn) __typeof__(&fn) real_##fn;
static struct { DRV_CALLS(DRV_MEMBER) } drv_api;
#define CU(fn) drv_api.real_##fn

#define DRV_TEXT_(x) #x
#define DRV_TEXT(x) DRV_TEXT_(x)

static inline void *drv_symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(3);
	}
	return p;
}

#endif

#ifdef DRV_DLOPEN
#define DRV_FIND(fn)							\
	drv_api.real_##fn = (__typeof__(&fn))				\
		drv_symbol(lib, DRV_TEXT(fn));

static inline void drv_find(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	DRV_CALLS(DRV_FIND)
}
#elif defined(DRV_GETPROC)

/*
 * The version asked for: from here on no name used here has changed its
 * prototype in cuda.h.  A later one would give other functions for some.
 */
#define DRV_VERSION 12000

/* The form of 11.3, whose name cuda.h gives to the later one. */
typedef CUresult (*drv_getproc_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*drv_getproc_v2)(const char *, void **, int, cuuint64_t,
				   CUdriverProcAddressQueryResult *);

/* Turn about: by the form with four arguments, by the one with five. */
static inline void *drv_ask(drv_getproc_v1 v1, drv_getproc_v2 v2,
			    const char *name)
{
	static unsigned turn;
	CUdriverProcAddressQueryResult how = CU_GET_PROC_ADDRESS_SUCCESS;
	void *p = NULL;
	CUresult rc;

	if (turn++ % 2)
		rc = v1(name, &p, DRV_VERSION, CU_GET_PROC_ADDRESS_DEFAULT);
	else
		rc = v2(name, &p, DRV_VERSION, CU_GET_PROC_ADDRESS_DEFAULT,
			&how);
	if (rc || how || !p) {
		fprintf(stderr, "no %s: error %d, status %d\n", name, rc, how);
		exit(3);
	}
	return p;
}

#define DRV_FIND(fn)							\
	drv_api.real_##fn = (__typeof__(&fn))drv_ask(v1, v2, #fn);

static inline void drv_find(void)
{
	CUdriverProcAddressQueryResult how;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	drv_getproc_v1 v1;
	drv_getproc_v2 v2;
	void *own = NULL;

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	v1 = (drv_getproc_v1)drv_symbol(lib, "cuGetProcAddress");
	v2 = (drv_getproc_v2)drv_symbol(lib, "cuGetProcAddress_v2");
	if (v2("cuGetProcAddress", &own, DRV_VERSION, 0, &how) || !own) {
		fprintf(stderr, "cuGetProcAddress does not find itself\n");
		exit(3);
	}
	v2 = (drv_getproc_v2)own;
	own = NULL;
	if (v2("cuGetProcAddress", &own, 11030, 0, &how) || !own) {
		fprintf(stderr, "cuGetProcAddress 11.3 is not found\n");
		exit(3);
	}
	v1 = (drv_getproc_v1)own;
	DRV_CALLS(DRV_FIND)
}
#else
#define CU(fn) fn
static inline void drv_find(void)
{
}
#endif

static inline void drv_check(CUresult rc, const char *what, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s: error %d\n", line, what, rc);
	exit(3);
}

#define CK(call) drv_check((call), #call, __LINE__)

struct drv {
	CUdevice device;
	CUcontext context;
	CUfunction fill, add, pattern, check, spin, wait_flag;
	CUdeviceptr bad;		/* one u64, for check */
};

static struct drv drv;

/* Device 0, its primary context, the kernels. */
static inline void drv_open(void)
{
	CUmodule module;

	drv_find();
	CK(CU(cuInit)(0));
	CK(CU(cuDeviceGet)(&drv.device, (int)prog_env("DEVICE", 0)));
	CK(CU(cuDevicePrimaryCtxRetain)(&drv.context, drv.device));
	CK(CU(cuCtxSetCurrent)(drv.context));
	CK(CU(cuModuleLoadData)(&module, kernels_ptx));
	CK(CU(cuModuleGetFunction)(&drv.fill, module, "fill"));
	CK(CU(cuModuleGetFunction)(&drv.add, module, "add"));
	CK(CU(cuModuleGetFunction)(&drv.pattern, module, "pattern"));
	CK(CU(cuModuleGetFunction)(&drv.check, module, "check"));
	CK(CU(cuModuleGetFunction)(&drv.spin, module, "spin"));
	CK(CU(cuModuleGetFunction)(&drv.wait_flag, module, "wait_flag"));
	CK(CU(cuMemAlloc)(&drv.bad, sizeof(uint64_t)));
	CK(CU(cuMemsetD8)(drv.bad, 0, sizeof(uint64_t)));
}

static inline void drv_launch(CUfunction f, CUstream s, uint64_t words,
			      void **args)
{
	unsigned blocks = words > 262144 ? 1024 : (unsigned)(words / 256 + 1);

	CK(CU(cuLaunchKernel)(f, blocks, 1, 1, 256, 1, 1, 0, s, args, NULL));
}

static inline void drv_fill(CUstream s, CUdeviceptr p, uint64_t words,
			    uint32_t value)
{
	void *args[] = { &p, &words, &value };

	drv_launch(drv.fill, s, words, args);
}

static inline void drv_add(CUstream s, CUdeviceptr p, uint64_t words,
			   uint32_t value)
{
	void *args[] = { &p, &words, &value };

	drv_launch(drv.add, s, words, args);
}

static inline void drv_pattern(CUstream s, CUdeviceptr p, uint64_t words,
			       uint32_t seed)
{
	void *args[] = { &p, &words, &seed };

	drv_launch(drv.pattern, s, words, args);
}

/* Words that differ from the pattern are added to drv.bad. */
static inline void drv_compare(CUstream s, CUdeviceptr p, uint64_t words,
			       uint32_t seed)
{
	void *args[] = { &p, &words, &seed, &drv.bad };

	drv_launch(drv.check, s, words, args);
}

static inline void drv_spin(CUstream s, uint64_t ns)
{
	CUdeviceptr out = 0;
	void *args[] = { &ns, &out };

	CK(CU(cuLaunchKernel)(drv.spin, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

/* What drv_compare found since the last call; waits for the whole context. */
static inline uint64_t drv_bad(void)
{
	uint64_t bad;

	CK(CU(cuCtxSynchronize)());
	CK(CU(cuMemcpyDtoH)(&bad, drv.bad, sizeof(bad)));
	CK(CU(cuMemsetD8)(drv.bad, 0, sizeof(bad)));
	return bad;
}

#endif
