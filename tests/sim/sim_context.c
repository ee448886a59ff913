/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: primary and created ones, and what ends with them. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sim_ctx *contexts;
static struct sim_ctx *spare;	/* so that a handle's value comes back soon */
static uint64_t last_gen;

struct sim_ctx *sim_ctx_list(void)
{
	return contexts;
}

static void set_defaults(struct sim_ctx *ctx, unsigned flags, unsigned api)
{
	static const size_t limits[] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
		[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
		[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0,
	};

	memcpy(ctx->limits, limits, sizeof(limits));
	ctx->flags = flags;
	ctx->api = api;
	ctx->cache = CU_FUNC_CACHE_PREFER_NONE;
	ctx->shared = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
	ctx->sticky = CUDA_SUCCESS;
	ctx->peers = 0;
	ctx->id = sim_next_id();
	ctx->live = true;
	ctx->next = contexts;
	contexts = ctx;
	sim_handle_add(SIM_KEY(ctx), SIM_CONTEXT, ctx);
}

static CUresult create(CUcontext *out, int dev, unsigned flags, unsigned api,
		       bool primary)
{
	struct sim_ctx *ctx = primary ? NULL : spare;

	if (ctx)
		spare = NULL;
	else
		ctx = malloc(sizeof(*ctx));
	if (!ctx || sim_take(dev, sim_config.context)) {
		free(ctx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memset(ctx, 0, sizeof(*ctx));
	ctx->dev = dev;
	ctx->heap.dev = dev;
	ctx->globals.dev = dev;
	ctx->globals.paid = true;
	ctx->primary = primary;
	ctx->gen = primary ? 0 : ++last_gen;
	set_defaults(ctx, flags, api);
	*out = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

/* End everything that the context owns.  Drops the lock while work ends. */
static void end(struct sim_ctx *ctx)
{
	struct sim_ctx **p;

	sim_capture_forget(ctx);
	sim_green_forget(ctx);
	ctx->live = false;
	sim_handle_drop(SIM_KEY(ctx));
	sim_ctx_stop(ctx);
	while (ctx->pins)
		sim_wait();
	sim_event_forget(ctx);
	sim_module_forget(ctx);
	sim_mem_forget(ctx);
	sim_give(ctx->dev, sim_config.context);
	for (p = &contexts; *p; p = &(*p)->next)
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
}

static void end_created(struct sim_ctx *ctx)
{
	end(ctx);
	free(spare);
	spare = ctx;
}

static void push(struct sim_ctx *ctx, struct sim_green *green)
{
	sim_tls.stack[sim_tls.depth].ctx = ctx;
	sim_tls.stack[sim_tls.depth].green = green;
	sim_tls.stack[sim_tls.depth++].gen = ctx->gen;
	sim_green_enter(green);
}

static CUcontext top(void)
{
	struct sim_green *green = sim_tls.stack[sim_tls.depth - 1].green;

	return green ? (CUcontext)green :
		       (CUcontext)sim_tls.stack[sim_tls.depth - 1].ctx;
}

struct sim_ctx *sim_ctx_peek(void)
{
	struct sim_ctx *ctx;

	if (sim_tls.depth == 0)
		return NULL;
	ctx = sim_tls.stack[sim_tls.depth - 1].ctx;
	if (!sim_handle_get(SIM_KEY(ctx), SIM_CONTEXT) ||
	    ctx->gen != sim_tls.stack[sim_tls.depth - 1].gen)
		return NULL;
	return ctx;
}

CUresult sim_ctx_alive(struct sim_ctx *ctx)
{
	if (!ctx->live)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return ctx->sticky;
}

/* As sim_ctx_current, but a lost context may still be asked. */
static CUresult current_or_lost(struct sim_ctx **out)
{
	if (sim_tls.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = sim_ctx_peek();
	if (*out)
		return CUDA_SUCCESS;
	sim_bad("call with destroyed context %p current",
		(void *)sim_tls.stack[sim_tls.depth - 1].ctx);
	return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_ctx_current(struct sim_ctx **out)
{
	SIM_TRY(current_or_lost(out));
	return (*out)->sticky;
}

CUresult sim_ctx_get(CUcontext handle, struct sim_ctx **out)
{
	if (!handle)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = sim_handle_get(SIM_KEY(handle), SIM_CONTEXT);
	if (!*out && sim_green_of(handle))
		*out = sim_green_owner(sim_green_of(handle));
	if (*out)
		return CUDA_SUCCESS;
	sim_bad("use of context %p that is not alive", (void *)handle);
	return CUDA_ERROR_INVALID_CONTEXT;
}

static void pop(void)
{
	sim_tls.depth--;
	sim_green_leave(sim_tls.stack[sim_tls.depth].green);
}

static CUresult ctx_create(CUcontext *pctx, unsigned flags, CUdevice dev,
			   unsigned api)
{
	if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim_tls.depth == SIM_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(create(pctx, dev, flags, api, false));
	push((struct sim_ctx *)*pctx, NULL);
	return CUDA_SUCCESS;
}

SIM_SAME(cuCtxCreate, (CUcontext *pctx, unsigned int flags, CUdevice dev),
	 ctx_create(pctx, flags, dev, 3010))
SIM_SAME(cuCtxCreate_v2, (CUcontext *pctx, unsigned int flags, CUdevice dev),
	 ctx_create(pctx, flags, dev, 3020))
SIM_SAME(cuCtxCreate_v3, (CUcontext *pctx, CUexecAffinityParam *params,
			  int n, unsigned int flags, CUdevice dev),
	 params || n ? CUDA_ERROR_NOT_SUPPORTED :
	 ctx_create(pctx, flags, dev, 3020))
SIM_SAME(cuCtxCreate_v4, (CUcontext *pctx, CUctxCreateParams *params,
			  unsigned int flags, CUdevice dev),
	 params ? CUDA_ERROR_NOT_SUPPORTED :
	 ctx_create(pctx, flags, dev, 3020))

static CUresult ctx_destroy(CUcontext handle)
{
	struct sim_ctx *ctx;

	SIM_TRY(sim_ctx_get(handle, &ctx));
	if (ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_ctx_peek() == ctx)
		pop();
	end_created(ctx);
	return CUDA_SUCCESS;
}

SIM_SAME(cuCtxDestroy, (CUcontext ctx), ctx_destroy(ctx))
SIM_SAME(cuCtxDestroy_v2, (CUcontext ctx), ctx_destroy(ctx))

static CUresult ctx_push(CUcontext handle)
{
	struct sim_ctx *ctx;

	SIM_TRY(sim_ctx_get(handle, &ctx));
	if (sim_tls.depth == SIM_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	push(ctx, sim_green_of(handle));
	return CUDA_SUCCESS;
}

SIM_SAME(cuCtxPushCurrent, (CUcontext ctx), ctx_push(ctx))
SIM_SAME(cuCtxPushCurrent_v2, (CUcontext ctx), ctx_push(ctx))

static CUresult ctx_pop(CUcontext *out)
{
	if (sim_tls.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out)
		*out = top();
	pop();
	return CUDA_SUCCESS;
}

SIM_SAME(cuCtxPopCurrent, (CUcontext *out), ctx_pop(out))
SIM_SAME(cuCtxPopCurrent_v2, (CUcontext *out), ctx_pop(out))

SIM_API(cuCtxSetCurrent, (CUcontext handle))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxSetCurrent);
	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	if (sim_tls.depth)
		pop();
	if (handle)
		push(ctx, sim_green_of(handle));
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCurrent, (CUcontext *out))
{
	SIM_ENTER(cuCtxGetCurrent);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	if (sim_tls.depth)
		*out = top();
	return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *dev, CUcontext handle)
{
	struct sim_ctx *ctx;

	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(current_or_lost(&ctx));
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	*dev = ctx->dev;
	return CUDA_SUCCESS;
}

SIM_SAME(cuCtxGetDevice, (CUdevice *dev), get_device(dev, NULL))
SIM_SAME(cuCtxGetDevice_v2, (CUdevice *dev, CUcontext ctx),
	 get_device(dev, ctx))

SIM_API(cuCtxGetApiVersion, (CUcontext handle, unsigned int *version))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetApiVersion);
	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(current_or_lost(&ctx));
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = ctx->api;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetId, (CUcontext handle, unsigned long long *id))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetId);
	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(current_or_lost(&ctx));
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext handle)
{
	struct sim_ctx *ctx;

	if (handle)
		SIM_TRY(sim_ctx_get(handle, &ctx));
	else
		SIM_TRY(sim_ctx_current(&ctx));
	SIM_TRY(ctx->sticky);
	SIM_TRY(sim_capture_ctx(ctx));
	ctx->pins++;
	sim_ctx_wait(ctx);
	ctx->pins--;
	sim_wake();
	return ctx->sticky;
}

SIM_SAME(cuCtxSynchronize, (void), synchronize(NULL))
SIM_SAME(cuCtxSynchronize_v2, (CUcontext ctx), synchronize(ctx))

static struct sim_ctx *primary_of(int dev)
{
	struct sim_ctx *ctx = sim_device[dev].primary;

	return ctx && ctx->live ? ctx : NULL;
}

CUresult sim_primary_retain(CUdevice dev, struct sim_ctx **out)
{
	struct sim_device *d = &sim_device[dev];
	CUcontext made;

	if (!d->primary) {
		SIM_TRY(create(&made, dev, d->primary_flags, 3020, true));
		d->primary = (struct sim_ctx *)made;
	} else if (!d->primary->live) {
		SIM_TRY(sim_take(dev, sim_config.context));
		set_defaults(d->primary, d->primary_flags, 3020);
	}
	d->primary_refs++;
	*out = d->primary;
	return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxRetain, (CUcontext *pctx, CUdevice dev))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuDevicePrimaryCtxRetain);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	SIM_TRY(sim_primary_retain(dev, &ctx));
	*pctx = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

CUresult sim_primary_release(CUdevice dev)
{
	struct sim_device *d;

	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	d = &sim_device[dev];
	if (d->primary_refs == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--d->primary_refs == 0 && primary_of(dev))
		end(d->primary);
	return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxRelease, (CUdevice dev), sim_primary_release(dev))
SIM_SAME(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), sim_primary_release(dev))

static CUresult primary_reset(CUdevice dev)
{
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (primary_of(dev))
		end(sim_device[dev].primary);
	return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxReset, (CUdevice dev), primary_reset(dev))
SIM_SAME(cuDevicePrimaryCtxReset_v2, (CUdevice dev), primary_reset(dev))

SIM_API(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int *flags,
				     int *active))
{
	SIM_ENTER(cuDevicePrimaryCtxGetState);
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_device[dev].primary_flags;
	*active = primary_of(dev) != NULL;
	return CUDA_SUCCESS;
}

static CUresult primary_flags(CUdevice dev, unsigned flags)
{
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_device[dev].primary_flags = flags;
	if (primary_of(dev))
		primary_of(dev)->flags = flags;
	return CUDA_SUCCESS;
}

SIM_SAME(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned int flags),
	 primary_flags(dev, flags))
SIM_SAME(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags),
	 primary_flags(dev, flags))

void sim_ctx_reset(void)
{
	int i;

	while (contexts) {
		if (contexts->primary)
			end(contexts);
		else
			end_created(contexts);
	}
	for (i = 0; i < SIM_DEVICES; i++) {
		free(sim_device[i].primary);
		sim_device[i].primary = NULL;
	}
	free(spare);
	spare = NULL;
}
