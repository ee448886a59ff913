/* SPDX-License-Identifier: Apache-2.0 */
/* Copies described by structures, and arrays, which are plain memory here. */
#include "sim_copy.h"

#include <stdlib.h>
#include <string.h>

struct array {
	struct sim_range *range;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	size_t pitch;		/* bytes of a row */
	size_t slice;
};

static CUresult array_get(CUarray handle, struct array **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_ARRAY);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* What one side of a structure says; pitch and height as given. */
static CUresult side(struct sim_side *out, CUmemorytype type, const void *host,
		     CUdeviceptr device, CUarray array, size_t pitch,
		     size_t height)
{
	struct array *a;

	out->pitch = pitch;
	out->slice = pitch * height;
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		out->at = (uintptr_t)host;
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_DEVICE:
		out->at = device;
		out->device = true;
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_UNIFIED:
		out->at = device;
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_ARRAY:
		SIM_TRY(array_get(array, &a));
		out->at = a->range->span.base;
		out->pitch = a->pitch;
		out->slice = a->slice;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static void shift(struct sim_side *s, size_t x, size_t y, size_t z)
{
	s->at += x + y * s->pitch + z * s->slice;
}

static CUresult shaped(bool pt, CUstream stream, struct sim_copy *c)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (c->height > 1 && (c->dst.pitch < c->width ||
			      c->src.pitch < c->width))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_copy(line, c);
}

static CUresult copy2d(bool pt, CUstream stream, const CUDA_MEMCPY2D *p,
		       bool sync)
{
	struct sim_copy c = { .depth = 1, .sync = sync };

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	c.width = p->WidthInBytes;
	c.height = p->Height;
	SIM_TRY(side(&c.dst, p->dstMemoryType, p->dstHost, p->dstDevice,
		     p->dstArray, p->dstPitch ? p->dstPitch : c.width, 0));
	SIM_TRY(side(&c.src, p->srcMemoryType, p->srcHost, p->srcDevice,
		     p->srcArray, p->srcPitch ? p->srcPitch : c.width, 0));
	shift(&c.dst, p->dstXInBytes, p->dstY, 0);
	shift(&c.src, p->srcXInBytes, p->srcY, 0);
	return shaped(pt, stream, &c);
}

SIM_TWINS(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *p),
	  copy2d(pt, NULL, p, true))
SIM_TWINS(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds,
	  (const CUDA_MEMCPY2D *p), copy2d(pt, NULL, p, true))
SIM_TWINS(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz,
	  (const CUDA_MEMCPY2D *p, CUstream stream),
	  copy2d(pt, stream, p, false))

/* Both structures of three dimensions have these names in common. */
#define FILL_3D(c, p)							\
	do {								\
		if (!(p))						\
			return CUDA_ERROR_INVALID_VALUE;		\
		(c)->width = (p)->WidthInBytes;				\
		(c)->height = (p)->Height;				\
		(c)->depth = (p)->Depth;				\
		SIM_TRY(side(&(c)->dst, (p)->dstMemoryType, (p)->dstHost, \
			     (p)->dstDevice, (p)->dstArray,		\
			     (p)->dstPitch ? (p)->dstPitch : (c)->width, \
			     (p)->dstHeight ? (p)->dstHeight : (c)->height)); \
		SIM_TRY(side(&(c)->src, (p)->srcMemoryType, (p)->srcHost, \
			     (p)->srcDevice, (p)->srcArray,		\
			     (p)->srcPitch ? (p)->srcPitch : (c)->width, \
			     (p)->srcHeight ? (p)->srcHeight : (c)->height)); \
		shift(&(c)->dst, (p)->dstXInBytes, (p)->dstY, (p)->dstZ); \
		shift(&(c)->src, (p)->srcXInBytes, (p)->srcY, (p)->srcZ); \
	} while (0)

static CUresult fill_3d(struct sim_copy *c, const CUDA_MEMCPY3D *p)
{
	FILL_3D(c, p);
	return CUDA_SUCCESS;
}

static CUresult copy3d(bool pt, CUstream stream, const CUDA_MEMCPY3D *p,
		       bool sync)
{
	struct sim_copy c = { .sync = sync };

	SIM_TRY(fill_3d(&c, p));
	return shaped(pt, stream, &c);
}

SIM_TWINS(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *p),
	  copy3d(pt, NULL, p, true))
SIM_TWINS(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
	  (const CUDA_MEMCPY3D *p, CUstream stream),
	  copy3d(pt, stream, p, false))

static CUresult copy3d_peer(bool pt, CUstream stream,
			    const CUDA_MEMCPY3D_PEER *p, bool sync)
{
	struct sim_copy c = { .sync = sync };

	FILL_3D(&c, p);
	if (p->dstContext)
		SIM_TRY(sim_ctx_get(p->dstContext, &c.dst.ctx));
	if (p->srcContext)
		SIM_TRY(sim_ctx_get(p->srcContext, &c.src.ctx));
	return shaped(pt, stream, &c);
}

SIM_TWINS(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *p),
	  copy3d_peer(pt, NULL, p, true))
SIM_TWINS(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz,
	  (const CUDA_MEMCPY3D_PEER *p, CUstream stream),
	  copy3d_peer(pt, stream, p, false))

/* The copy of a memcpy node; used by graphs. */
CUresult sim_copy_from_3d(struct sim_ctx *ctx, const CUDA_MEMCPY3D *p,
			  struct sim_op **out)
{
	struct sim_copy c = { .sync = false };
	bool dst_pageable, src_pageable;

	SIM_TRY(fill_3d(&c, p));
	if (!c.width || !c.height || !c.depth)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_copy_check(ctx, &c, &dst_pageable, &src_pageable));
	*out = sim_op_copy(&c, false);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static size_t element(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

static CUresult array_create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	size_t height = d->Height ? d->Height : 1;
	size_t depth = d->Depth ? d->Depth : 1;
	struct array *a;
	struct sim_ctx *ctx;
	CUresult rc;

	SIM_TRY(sim_ctx_current(&ctx));
	if (!out || !d->Width || !element(d->Format) ||
	    (d->NumChannels != 1 && d->NumChannels != 2 &&
	     d->NumChannels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_unsafe());
	a = calloc(1, sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->desc = *d;
	a->pitch = d->Width * element(d->Format) * d->NumChannels;
	a->slice = a->pitch * height;
	rc = sim_native_alloc(ctx, a->slice * depth, SIM_GLOBAL, &a->range);
	if (rc != CUDA_SUCCESS) {
		free(a);
		return rc;
	}
	sim_handle_add(SIM_KEY(a), SIM_ARRAY, a);
	*out = (CUarray)a;
	return CUDA_SUCCESS;
}

SIM_API(cuArrayCreate_v2, (CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d))
{
	CUDA_ARRAY3D_DESCRIPTOR full;

	SIM_ENTER(cuArrayCreate_v2);
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	memset(&full, 0, sizeof(full));
	full.Width = d->Width;
	full.Height = d->Height;
	full.Format = d->Format;
	full.NumChannels = d->NumChannels;
	return array_create(out, &full);
}

SIM_SAME(cuArray3DCreate_v2, (CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d),
	 d ? array_create(out, d) : CUDA_ERROR_INVALID_VALUE)

SIM_API(cuArrayDestroy, (CUarray handle))
{
	struct array *a;
	struct sim_ctx *ctx;

	SIM_ENTER(cuArrayDestroy);
	SIM_TRY(sim_ctx_current(&ctx));
	SIM_TRY(array_get(handle, &a));
	SIM_TRY(sim_unsafe());
	sim_handle_drop(SIM_KEY(a));
	ctx = a->range->ctx;
	ctx->pins++;
	sim_ctx_wait(ctx);
	ctx->pins--;
	sim_native_free(a->range);
	free(a);
	sim_wake();
	return CUDA_SUCCESS;
}

SIM_API(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *d, CUarray handle))
{
	struct array *a;

	SIM_ENTER(cuArrayGetDescriptor_v2);
	SIM_TRY(array_get(handle, &a));
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	d->Width = a->desc.Width;
	d->Height = a->desc.Height;
	d->Format = a->desc.Format;
	d->NumChannels = a->desc.NumChannels;
	return CUDA_SUCCESS;
}

SIM_API(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *d,
				    CUarray handle))
{
	struct array *a;

	SIM_ENTER(cuArray3DGetDescriptor_v2);
	SIM_TRY(array_get(handle, &a));
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	*d = a->desc;
	return CUDA_SUCCESS;
}

static void forget_array(void *obj, void *ctx)
{
	struct array *a = obj;

	if (a->range->ctx != ctx)
		return;
	sim_handle_drop(SIM_KEY(a));
	sim_native_free(a->range);
	free(a);
}

void sim_array_forget(struct sim_ctx *ctx)
{
	sim_handle_each(SIM_ARRAY, forget_array, ctx);
}
