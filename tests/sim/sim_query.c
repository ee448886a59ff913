/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says of a pointer. */
#include "sim_internal.h"

#include <string.h>

#define POOL_MAPPING ((CUdeviceptr)32 << 20)

SIM_API(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *size,
				  CUdeviceptr p))
{
	struct sim_range *r;

	SIM_ENTER(cuMemGetAddressRange_v2);
	r = sim_range_at(p);
	if (!r || r->freeing)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = r->span.base;
	if (size)
		*size = r->span.len;
	return CUDA_SUCCESS;
}

enum width { W32, W64 };

static enum width width_of(CUpointer_attribute a)
{
	switch ((int)a) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case 21:	/* hardware decompression */
		return W32;
	}
	return W64;
}

static bool is_host(const struct sim_range *r)
{
	return r->kind == SIM_HOST || r->kind == SIM_REGISTERED;
}

/* The pages around it; those of pools are of one size. */
static struct sim_span mapping_of(const struct sim_range *r, CUdeviceptr p)
{
	if (r->kind == SIM_POOLED)
		return (struct sim_span){ p & ~(POOL_MAPPING - 1),
					  POOL_MAPPING };
	if (r->physical)
		return (struct sim_span){ r->span.base, r->physical };
	if (r->block)
		return (struct sim_span){ r->span.base & ~(SIM_BLOCK - 1),
					  SIM_BLOCK };
	return r->span;
}

/* On memory mapped by hand the range is what was reserved. */
static bool range_value(CUpointer_attribute a, const struct sim_range *r,
			const struct sim_reserve *res, CUdeviceptr p,
			uint64_t *out)
{
	const struct sim_span *s = res ? &res->span : r ? &r->span : NULL;

	switch ((int)a) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*out = s->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*out = s->len;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = r != NULL;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*out = r ? mapping_of(r, p).base : 0;
		return r != NULL;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*out = r ? mapping_of(r, p).len : 0;
		return r != NULL;
	}
	return false;
}

static unsigned access_of(const struct sim_range *r, CUdeviceptr p)
{
	struct sim_ctx *ctx = sim_ctx_peek();

	if (r->pool && ctx)
		return sim_pool_access(r->pool, ctx->dev);
	if (r->kind != SIM_MAPPED)
		return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return ctx ? sim_vmm_access(r, (size_t)ctx->dev, p) : 0;
}

static bool memory_value(CUpointer_attribute a, const struct sim_range *r,
			 CUdeviceptr p, uint64_t *out)
{
	switch ((int)a) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*out = SIM_KEY(r->ctx);
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = is_host(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*out = p;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*out = p;
		return is_host(r) || r->kind == SIM_MANAGED;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*out = r->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*out = r->id;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*out = r->kind == SIM_MANAGED;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*out = (uint64_t)(int64_t)r->dev;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*out = r->kind == SIM_NATIVE || r->kind == SIM_IPC;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*out = r->phys ? (uint64_t)r->phys->prop.requestedHandleTypes :
		       0;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*out = r->phys ? r->phys->prop.allocFlags.gpuDirectRDMACapable
		       : r->kind == SIM_NATIVE;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*out = access_of(r, p);
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*out = SIM_KEY(r->pool);
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*out = r->phys ? r->phys->handle : r->id;
		return true;
	case 21:	/* hardware decompression */
		*out = 0;
		return true;
	}
	return false;
}

static bool value_of(CUpointer_attribute a, CUdeviceptr p, uint64_t *out)
{
	const struct sim_reserve *res = sim_reserve_at(p, 1);
	const struct sim_range *r = sim_range_at(p);

	if (r && r->freeing)
		r = NULL;
	*out = 0;
	if (!r && !res)
		return false;
	return range_value(a, r, res, p, out) ||
	       (r && memory_value(a, r, p, out));
}

static void store(void *data, CUpointer_attribute a, uint64_t value)
{
	if (width_of(a) == W32)
		*(uint32_t *)data = (uint32_t)value;
	else
		*(uint64_t *)data = value;
}

static bool known(CUpointer_attribute a)
{
	return (int)a >= CU_POINTER_ATTRIBUTE_CONTEXT && (int)a <= 21 &&
	       a != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

SIM_API(cuPointerGetAttribute, (void *data, CUpointer_attribute a,
				CUdeviceptr p))
{
	uint64_t value;

	SIM_ENTER(cuPointerGetAttribute);
	if (!data || !known(a) || !value_of(a, p, &value))
		return CUDA_ERROR_INVALID_VALUE;
	store(data, a, value);
	return CUDA_SUCCESS;
}

/* What all are of an address that is nobody's: one of the host. */
static uint64_t value_of_none(CUpointer_attribute a, CUdeviceptr p)
{
	if (a == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		return (uint64_t)(int64_t)-2;
	if (a == CU_POINTER_ATTRIBUTE_HOST_POINTER && !sim_range_at(p) &&
	    !sim_reserve_at(p, 1))
		return p;
	return 0;
}

/* What does not apply is zero here, and no error. */
SIM_API(cuPointerGetAttributes, (unsigned int n, CUpointer_attribute *a,
				 void **data, CUdeviceptr p))
{
	uint64_t value;
	unsigned i;

	SIM_ENTER(cuPointerGetAttributes);
	if (!n || !a || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++)
		if (!data[i] || !known(a[i]))
			return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		if (!value_of(a[i], p, &value))
			value = value_of_none(a[i], p);
		store(data[i], a[i], value);
	}
	return CUDA_SUCCESS;
}

SIM_API(cuPointerSetAttribute, (const void *value, CUpointer_attribute a,
				CUdeviceptr p))
{
	struct sim_range *r;

	SIM_ENTER(cuPointerSetAttribute);
	r = sim_range_at(p);
	if (!value || !r || r->freeing || is_host(r) ||
	    a != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->kind == SIM_MAPPED)
		return CUDA_ERROR_NOT_SUPPORTED;
	r->sync_memops = *(const unsigned *)value != 0;
	return CUDA_SUCCESS;
}
