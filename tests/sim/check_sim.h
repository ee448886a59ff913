/* SPDX-License-Identifier: Apache-2.0 */
/* check_sim - what the tests of the simulated driver have in common. */
#ifndef VS_TESTS_CHECK_SIM_H
#define VS_TESTS_CHECK_SIM_H

#include <check.h>
#include <stdint.h>
#include <string.h>

#include "base/cuda.h"
#include "sim.h"

#define MIB		((size_t)1 << 20)
#define BLOCK		(2 * MIB)

#define ck_cu(expr, code) ck_assert_int_eq((int)(expr), (int)(code))
#define ck_ok(expr) ck_cu(expr, CUDA_SUCCESS)

/* Where a test wants a fault, no sanitizer may step in. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_segv=0";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "handle_segv=0";
}

/* Context on the device, current. */
static inline CUcontext start(CUdevice dev)
{
	CUcontext ctx;

	ck_ok(cuInit(0));
	ck_ok(cuDevicePrimaryCtxRetain(&ctx, dev));
	ck_ok(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline struct sim_ledger ledger(void)
{
	struct sim_ledger l;

	sim_ledger_get(&l);
	return l;
}

static inline CUstream stream(unsigned flags)
{
	CUstream s;

	ck_ok(cuStreamCreate(&s, flags));
	return s;
}

static inline CUevent event(void)
{
	CUevent e;

	ck_ok(cuEventCreate(&e, 0));
	return e;
}

static inline CUresult launch(CUstream s, const char *name, void **args)
{
	CUmodule m;
	CUfunction f;

	ck_ok(cuModuleLoadData(&m, "\177ELF"));
	ck_ok(cuModuleGetFunction(&f, m, name));
	return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
}

static inline CUresult fill(CUstream s, CUdeviceptr p, uint64_t n,
			    uint32_t value)
{
	return launch(s, "fill", (void *[]){ &p, &n, &value });
}

/* A kernel that waits for *flag; flag is memory that the device can see. */
static inline CUresult block(CUstream s, uint32_t *flag)
{
	CUdeviceptr p = (uintptr_t)flag, none = 0;

	return launch(s, "wait_flag", (void *[]){ &p, &none });
}

static inline void raise_flag(uint32_t *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static inline uint32_t *flag_new(void)
{
	void *p;

	ck_ok(cuMemHostAlloc(&p, 4096, 0));
	memset(p, 0, 4096);
	return p;
}

static inline CUdeviceptr words(size_t n)
{
	CUdeviceptr p;

	ck_ok(cuMemAlloc_v2(&p, n * 4));
	ck_ok(cuMemsetD32_v2(p, 0, n));
	ck_ok(cuCtxSynchronize());
	return p;
}

static inline uint32_t word(CUdeviceptr p)
{
	uint32_t value;

	ck_ok(cuMemcpyDtoH_v2(&value, p, 4));
	return value;
}

#endif
