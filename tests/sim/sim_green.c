/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: a handle that stands for the primary context, whose memory,
 * modules and streams all else has.  Every split of the device is granted.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define UNITS	132		/* multiprocessors */
#define PART	8

struct sim_green {
	struct sim_green *next;
	struct sim_ctx *owner;
	unsigned long long id;		/* its address is the CUgreenCtx */
	uint64_t user;			/* the thread that it is current to */
	unsigned uses;
};

static struct sim_green *greens;

struct sim_green *sim_green_of(CUcontext handle)
{
	return sim_handle_get(SIM_KEY(handle), SIM_GREEN);
}

struct sim_ctx *sim_green_owner(const struct sim_green *green)
{
	return green->owner;
}

void sim_green_enter(struct sim_green *green)
{
	if (!green)
		return;
	if (green->uses && green->user != sim_tid())
		sim_bad("green context %p current to two threads",
			(void *)green);
	green->user = sim_tid();
	green->uses++;
}

/* It may be gone. */
void sim_green_leave(struct sim_green *green)
{
	if (green && sim_green_of((CUcontext)green) && green->uses)
		green->uses--;
}

static void drop(struct sim_green **link)
{
	struct sim_green *green = *link;

	*link = green->next;
	sim_handle_drop(SIM_KEY(green));
	sim_handle_drop(SIM_KEY(&green->id));
	free(green);
}

void sim_green_forget(const struct sim_ctx *owner)
{
	struct sim_green **link = &greens;

	while (*link)
		if ((*link)->owner == owner)
			drop(link);
		else
			link = &(*link)->next;
}

static CUresult green_get(CUgreenCtx handle, struct sim_green **out)
{
	*out = handle ? sim_handle_get(SIM_KEY(handle), SIM_GREEN) : NULL;
	if (*out && SIM_KEY(&(*out)->id) == SIM_KEY(handle))
		return CUDA_SUCCESS;
	sim_bad("use of green context %p that is not alive", (void *)handle);
	return CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult fill(CUdevResource *out, unsigned count,
		     CUdevResourceType type)
{
	if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	memset(out, 0, sizeof(*out));
	out->type = type;
	out->sm.smCount = count;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDevResource, (CUdevice dev, CUdevResource *out,
				 CUdevResourceType type))
{
	SIM_ENTER(cuDeviceGetDevResource);
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return fill(out, UNITS, type);
}

SIM_API(cuDevSmResourceSplitByCount,
	(CUdevResource *result, unsigned int *count,
	 const CUdevResource *input, CUdevResource *rest,
	 unsigned int flags SIM_UNUSED, unsigned int least))
{
	unsigned each = (least + PART - 1) / PART * PART, left, i;

	SIM_ENTER(cuDevSmResourceSplitByCount);
	if (!count || !input || !each || input->sm.smCount < each)
		return CUDA_ERROR_INVALID_VALUE;
	left = input->sm.smCount;
	for (i = 0; left >= each && (!result || i < *count); i++) {
		if (result)
			fill(&result[i], each, CU_DEV_RESOURCE_TYPE_SM);
		left -= each;
	}
	*count = i;
	return rest ? fill(rest, left, CU_DEV_RESOURCE_TYPE_SM) :
		      CUDA_SUCCESS;
}

SIM_API(cuDevResourceGenerateDesc, (CUdevResourceDesc *out,
				    CUdevResource *resources,
				    unsigned int count))
{
	static char desc;

	SIM_ENTER(cuDevResourceGenerateDesc);
	if (!out || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdevResourceDesc)(void *)&desc;
	return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxCreate, (CUgreenCtx *out, CUdevResourceDesc desc,
			   CUdevice dev, unsigned int flags))
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxCreate);
	if (!out || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_dev_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	green = calloc(1, sizeof(*green));
	if (!green || sim_primary_retain(dev, &green->owner)) {
		free(green);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->id = sim_next_id();
	green->next = greens;
	greens = green;
	sim_handle_add(SIM_KEY(green), SIM_GREEN, green);
	sim_handle_add(SIM_KEY(&green->id), SIM_GREEN, green);
	*out = (CUgreenCtx)(void *)&green->id;
	return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxDestroy, (CUgreenCtx handle))
{
	struct sim_green *green, **link = &greens;
	int dev;

	SIM_ENTER(cuGreenCtxDestroy);
	SIM_TRY(green_get(handle, &green));
	dev = green->owner->dev;
	while (*link != green)
		link = &(*link)->next;
	drop(link);
	return sim_primary_release(dev);
}

SIM_API(cuCtxFromGreenCtx, (CUcontext *out, CUgreenCtx handle))
{
	struct sim_green *green;

	SIM_ENTER(cuCtxFromGreenCtx);
	SIM_TRY(green_get(handle, &green));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUcontext)green;
	return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxGetId, (CUgreenCtx handle, unsigned long long *id))
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxGetId);
	SIM_TRY(green_get(handle, &green));
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = green->id;
	return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxStreamCreate, (CUstream *out, CUgreenCtx handle,
				 unsigned int flags, int priority))
{
	struct sim_green *green;
	struct sim_line *line;

	SIM_ENTER(cuGreenCtxStreamCreate);
	SIM_TRY(green_get(handle, &green));
	if (!out || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	line = sim_line_new(green->owner, flags, priority);
	if (!line)
		return CUDA_ERROR_OUT_OF_MEMORY;
	line->green = green;
	sim_handle_add(SIM_KEY(line), SIM_STREAM, line);
	*out = (CUstream)line;
	return CUDA_SUCCESS;
}

CUresult sim_green_stream(const struct sim_line *line, CUgreenCtx *out)
{
	*out = line->green ? (CUgreenCtx)(void *)&line->green->id : NULL;
	return CUDA_SUCCESS;
}

static CUresult stream_green(CUstream stream, CUgreenCtx *out)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, false, &line));
	return out ? sim_green_stream(line, out) : CUDA_ERROR_INVALID_VALUE;
}

SIM_SAME(cuStreamGetGreenCtx, (CUstream stream, CUgreenCtx *out),
	 stream_green(stream, out))
