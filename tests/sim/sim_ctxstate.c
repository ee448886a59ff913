/* SPDX-License-Identifier: Apache-2.0 */
/* What a context remembers: flags, limits, peers. */
#include "sim_internal.h"

SIM_API(cuCtxGetFlags, (unsigned int *flags))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetFlags);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = ctx->flags;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxSetFlags, (unsigned int flags))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxSetFlags);
	SIM_TRY(sim_ctx_current(&ctx));
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	ctx->flags = flags;
	return CUDA_SUCCESS;
}

static bool limit_ok(CUlimit limit)
{
	return limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

SIM_API(cuCtxSetLimit, (CUlimit limit, size_t value))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxSetLimit);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!limit_ok(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	ctx->limits[limit] = value;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetLimit, (size_t *value, CUlimit limit))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetLimit);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!limit_ok(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = ctx->limits[limit];
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCacheConfig, (CUfunc_cache *config))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetCacheConfig);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = ctx->cache;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxSetCacheConfig, (CUfunc_cache config))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxSetCacheConfig);
	SIM_TRY(sim_ctx_current(&ctx));
	ctx->cache = config;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetSharedMemConfig, (CUsharedconfig *config))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetSharedMemConfig);
	SIM_TRY(sim_ctx_current(&ctx));
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = ctx->shared;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxSetSharedMemConfig, (CUsharedconfig config))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxSetSharedMemConfig);
	SIM_TRY(sim_ctx_current(&ctx));
	ctx->shared = config;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxGetStreamPriorityRange, (int *least, int *greatest))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxGetStreamPriorityRange);
	SIM_TRY(sim_ctx_current(&ctx));
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxResetPersistingL2Cache, (void))
{
	struct sim_ctx *ctx;

	SIM_ENTER(cuCtxResetPersistingL2Cache);
	return sim_ctx_current(&ctx);
}

static CUresult peer(CUcontext handle, struct sim_ctx **ctx, unsigned *bit)
{
	struct sim_ctx *other;

	SIM_TRY(sim_ctx_current(ctx));
	SIM_TRY(sim_ctx_get(handle, &other));
	if (other->dev == (*ctx)->dev)
		return CUDA_ERROR_INVALID_DEVICE;
	*bit = 1u << other->dev;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxEnablePeerAccess, (CUcontext handle, unsigned int flags))
{
	struct sim_ctx *ctx;
	unsigned bit;

	SIM_ENTER(cuCtxEnablePeerAccess);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(peer(handle, &ctx, &bit));
	if (ctx->peers & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	ctx->peers |= bit;
	return CUDA_SUCCESS;
}

SIM_API(cuCtxDisablePeerAccess, (CUcontext handle))
{
	struct sim_ctx *ctx;
	unsigned bit;

	SIM_ENTER(cuCtxDisablePeerAccess);
	SIM_TRY(peer(handle, &ctx, &bit));
	if (!(ctx->peers & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	ctx->peers &= ~bit;
	return CUDA_SUCCESS;
}
