/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the device can reach. */
#include "sim_internal.h"

#include <sys/mman.h>

#define PAGE	((uintptr_t)4096)

static size_t pages(size_t size)
{
	return (size + PAGE - 1) & ~(PAGE - 1);
}

static CUresult host_alloc(void **out, size_t size, unsigned flags)
{
	const unsigned known = CU_MEMHOSTALLOC_PORTABLE |
		CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
	struct sim_range *r;
	struct sim_ctx *ctx;
	void *p;

	SIM_TRY(sim_ctx_current(&ctx));
	if (!out || !size || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_unsafe());
	if (pages(size) < size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = mmap(NULL, pages(size), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_range_new((uintptr_t)p, size, SIM_HOST);
	if (!r) {
		munmap(p, pages(size));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r->ctx = ctx;
	r->dev = ctx->dev;
	r->flags = flags;
	*out = p;
	return CUDA_SUCCESS;
}

SIM_SAME(cuMemHostAlloc, (void **out, size_t size, unsigned int flags),
	 host_alloc(out, size, flags))
SIM_SAME(cuMemAllocHost_v2, (void **out, size_t size),
	 host_alloc(out, size, 0))

void sim_host_drop(struct sim_range *r)
{
	if (r->kind == SIM_HOST)
		munmap((void *)r->span.base, pages(r->span.len));
	sim_range_drop(r);
}

/* Waits for the context's work, as the driver does. */
SIM_API(cuMemFreeHost, (void *p))
{
	struct sim_range *r;
	struct sim_ctx *ctx;

	SIM_ENTER(cuMemFreeHost);
	if (!p)
		return CUDA_SUCCESS;
	r = sim_range_at((uintptr_t)p);
	if (!r || r->kind != SIM_HOST || r->freeing ||
	    r->span.base != (uintptr_t)p) {
		sim_bad("cuMemFreeHost of %p, which is no allocation", p);
		return CUDA_ERROR_INVALID_VALUE;
	}
	SIM_TRY(sim_unsafe());
	ctx = r->ctx;
	r->freeing = true;
	ctx->pins++;
	sim_ctx_wait(ctx);
	ctx->pins--;
	sim_host_drop(r);
	sim_wake();
	return CUDA_SUCCESS;
}

/* Pages are what is registered, so neighbours on one page collide. */
static CUresult host_register(void *p, size_t size, unsigned flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE |
		CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
	uintptr_t from = (uintptr_t)p & ~(PAGE - 1);
	size_t span = pages((uintptr_t)p - from + size);
	struct sim_range *r;
	struct sim_ctx *ctx;

	SIM_TRY(sim_ctx_current(&ctx));
	if (!p || !size || span < size || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_unsafe());
	r = sim_range_over(from, span);
	if (r)
		return r->kind == SIM_HOST || r->kind == SIM_REGISTERED ?
		       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED :
		       CUDA_ERROR_INVALID_VALUE;
	if (sim_reserve_at(from, span) ||
	    msync((void *)from, span, MS_ASYNC) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_range_new((uintptr_t)p, size, SIM_REGISTERED);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->ctx = ctx;
	r->dev = ctx->dev;
	r->flags = flags;
	return CUDA_SUCCESS;
}

SIM_SAME(cuMemHostRegister, (void *p, size_t size, unsigned int flags),
	 host_register(p, size, flags))
SIM_SAME(cuMemHostRegister_v2, (void *p, size_t size, unsigned int flags),
	 host_register(p, size, flags))

SIM_API(cuMemHostUnregister, (void *p))
{
	struct sim_range *r;
	struct sim_ctx *ctx;

	SIM_ENTER(cuMemHostUnregister);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_range_at((uintptr_t)p);
	if (!r || r->kind != SIM_REGISTERED ||
	    r->span.base != (uintptr_t)p) {
		sim_bad("cuMemHostUnregister of %p, not registered", p);
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	}
	SIM_TRY(sim_unsafe());
	sim_host_drop(r);
	return CUDA_SUCCESS;
}

static struct sim_range *host_at(const void *p)
{
	struct sim_range *r = sim_range_at((uintptr_t)p);

	if (r && (r->kind == SIM_HOST || r->kind == SIM_REGISTERED))
		return r;
	return NULL;
}

SIM_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr *out, void *p,
				       unsigned int flags))
{
	SIM_ENTER(cuMemHostGetDevicePointer_v2);
	if (!out || flags || !host_at(p))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

SIM_API(cuMemHostGetFlags, (unsigned int *flags, void *p))
{
	SIM_ENTER(cuMemHostGetFlags);
	if (!flags || !host_at(p))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = host_at(p)->flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}
