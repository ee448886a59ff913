/* SPDX-License-Identifier: Apache-2.0 */
/* What a copy may touch, as the driver sees it when it is called. */
#include "sim_internal.h"

static bool enough(unsigned access, bool write)
{
	return write ? access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE : access;
}

/* Each granule has rights of its own. */
static bool reaches_pieces(struct sim_ctx *ctx, const struct sim_range *r,
			   uintptr_t p, size_t n, bool write)
{
	uintptr_t end = r->span.base + r->span.len;

	if (n < end - p)
		end = p + n;
	p -= (p - r->span.base) % sim_config.granularity;
	for (; p < end; p += sim_config.granularity)
		if (!enough(sim_vmm_access(r, (size_t)ctx->dev, p), write))
			return false;
	return true;
}

static bool reaches(struct sim_ctx *ctx, const struct sim_range *r,
		    uintptr_t p, size_t n, bool write)
{
	if (r->freeing)
		return false;
	if (r->kind != SIM_MAPPED)
		return true;
	if (r->pieces)
		return reaches_pieces(ctx, r, p, n, write);
	return enough(r->access[ctx->dev], write);
}

bool sim_is_device(uintptr_t p)
{
	struct sim_range *r = sim_range_at(p);

	return r && r->kind != SIM_HOST && r->kind != SIM_REGISTERED;
}

/* One copy may run on from one mapping into the next, from nothing else. */
CUresult sim_check_device(struct sim_ctx *ctx, uintptr_t p, size_t n,
			  bool write)
{
	bool first = true;

	while (n) {
		struct sim_range *r = sim_range_at(p);
		size_t room;

		if (!r || !reaches(ctx, r, p, n, write))
			return CUDA_ERROR_INVALID_VALUE;
		if (!first && r->kind != SIM_MAPPED)
			return CUDA_ERROR_INVALID_VALUE;
		room = r->span.base + r->span.len - p;
		if (room >= n)
			return CUDA_SUCCESS;
		if (r->kind != SIM_MAPPED)
			return CUDA_ERROR_INVALID_VALUE;
		first = false;
		p += room;
		n -= room;
	}
	return CUDA_SUCCESS;
}

CUresult sim_check_any(struct sim_ctx *ctx, uintptr_t p, size_t n, bool write,
		       bool *pageable)
{
	*pageable = false;
	if (!n)
		return CUDA_SUCCESS;
	if (sim_range_at(p))
		return sim_check_device(ctx, p, n, write);
	/* an address that only the device could have is not the host's */
	if (!p || sim_reserve_at(p, 1))
		return CUDA_ERROR_INVALID_VALUE;
	*pageable = true;
	return CUDA_SUCCESS;
}
