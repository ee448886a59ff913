/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_copy.h"

#include <string.h>

struct set {
	struct sim_op op;
	uintptr_t at;
	size_t pitch, width, height;	/* width in elements */
	unsigned element, value;
};

static void run_set(struct sim_op *op, struct sim_line *line)
{
	const struct set *s = (struct set *)op;
	size_t x, y;

	(void)line;
	for (y = 0; y < s->height; y++) {
		void *row = (void *)(s->at + y * s->pitch);

		if (s->element == 1)
			memset(row, (int)s->value, s->width);
		for (x = 0; s->element == 2 && x < s->width; x++)
			((uint16_t *)row)[x] = (uint16_t)s->value;
		for (x = 0; s->element == 4 && x < s->width; x++)
			((uint32_t *)row)[x] = s->value;
		sim_managed_used((uintptr_t)row, s->width * s->element);
	}
}

struct sim_op *sim_op_set(uintptr_t at, size_t pitch, unsigned element,
			  unsigned value, size_t width, size_t height)
{
	struct set *s = sim_op_new(sizeof(*s), CU_GRAPH_NODE_TYPE_MEMSET);

	if (!s)
		return NULL;
	s->at = at;
	s->pitch = pitch;
	s->width = width;
	s->height = height;
	s->element = element;
	s->value = value;
	s->op.run = run_set;
	return &s->op;
}

static CUresult fill(bool pt, CUstream stream, CUdeviceptr at, size_t pitch,
		     unsigned element, unsigned value, size_t width,
		     size_t height, bool sync)
{
	struct sim_line *line;
	struct sim_op *op;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (at % element || (height > 1 && pitch < width * element))
		return CUDA_ERROR_INVALID_VALUE;
	if (sync)
		SIM_TRY(sim_unsafe());
	if (!width || !height)
		return CUDA_SUCCESS;
	SIM_TRY(sim_check_device(line->ctx, at, (height - 1) * pitch +
				 width * element, true));
	op = sim_op_set(at, pitch, element, value, width, height);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	SIM_TRY(sim_submit(line, op));
	if (sync && !sim_is_device(at) && !line->capture)
		return sim_line_wait(line);
	return CUDA_SUCCESS;
}

#define FILL_1D(bits, type)						\
SIM_TWINS(cuMemsetD##bits##_v2, cuMemsetD##bits##_v2_ptds,		\
	  (CUdeviceptr at, type value, size_t n),			\
	  fill(pt, NULL, at, 0, bits / 8, value, n, 1, true))		\
SIM_TWINS(cuMemsetD##bits##Async, cuMemsetD##bits##Async_ptsz,		\
	  (CUdeviceptr at, type value, size_t n, CUstream stream),	\
	  fill(pt, stream, at, 0, bits / 8, value, n, 1, false))

#define FILL_2D(bits, type)						\
SIM_TWINS(cuMemsetD2D##bits##_v2, cuMemsetD2D##bits##_v2_ptds,		\
	  (CUdeviceptr at, size_t pitch, type value, size_t w, size_t h), \
	  fill(pt, NULL, at, pitch, bits / 8, value, w, h, true))	\
SIM_TWINS(cuMemsetD2D##bits##Async, cuMemsetD2D##bits##Async_ptsz,	\
	  (CUdeviceptr at, size_t pitch, type value, size_t w, size_t h, \
	   CUstream stream),						\
	  fill(pt, stream, at, pitch, bits / 8, value, w, h, false))

FILL_1D(8, unsigned char)
FILL_1D(16, unsigned short)
FILL_1D(32, unsigned int)
FILL_2D(8, unsigned char)
FILL_2D(16, unsigned short)
FILL_2D(32, unsigned int)
