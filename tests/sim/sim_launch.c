/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_module.h"

#include <string.h>

#define PARAMS_MAX	64

struct launch {
	struct sim_op op;
	const struct sim_kernel *kernel;
	unsigned dims[6];
	void *args[];		/* then what they point at */
};

static __thread struct sim_ctx *running;

void sim_kernel_fault(void)
{
	pthread_mutex_lock(&sim_lock);
	running->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&sim_lock);
}

/* Memory that is there, but that this device may not touch. */
static bool forbidden(struct sim_ctx *ctx, uintptr_t p)
{
	struct sim_range *r = sim_range_at(p);

	if (!r)
		return false;
	if (r->kind == SIM_MAPPED)
		return !sim_vmm_access(r, (size_t)ctx->dev, p);
	return r->kind == SIM_NATIVE && r->dev != ctx->dev &&
	       !(ctx->peers & 1u << r->dev);
}

static void run_kernel(struct sim_op *op, struct sim_line *line)
{
	struct launch *l = (struct launch *)op;
	const struct sim_kernel *k = l->kernel;
	bool bad = false;
	size_t i;

	pthread_mutex_lock(&sim_lock);
	for (i = 0; k->params[i]; i++)
		if (k->params[i] == 'p')
			bad |= forbidden(line->ctx, *(uintptr_t *)l->args[i]);
	if (bad)
		line->ctx->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&sim_lock);
	if (bad)
		return;
	running = line->ctx;
	if (k->fn_grid)
		k->fn_grid(l->args, l->dims);
	else
		k->fn(l->args);
	sim_managed_used_any();
}

/* The buffer of CU_LAUNCH_PARAM_BUFFER_POINTER, NULL without one. */
static unsigned char *buffer_of(void **extra)
{
	size_t i;

	for (i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			return extra[i + 1];
	return NULL;
}

static bool dims_ok(const unsigned *d)
{
	return d[0] && d[1] && d[2] && d[3] && d[4] && d[5] &&
	       (uint64_t)d[3] * d[4] * d[5] <= 1024;
}

CUresult sim_op_kernel(const struct sim_func *f, const struct sim_launch *sl,
		       struct sim_op **out)
{
	const char *params = f->kernel->params;
	unsigned char *from = buffer_of(sl->extra), *to;
	size_t n = strlen(params), i, off = 0;
	struct launch *l;

	if (!dims_ok(sl->dims) || (n && !from && !sl->params))
		return CUDA_ERROR_INVALID_VALUE;
	l = sim_op_new(sizeof(*l) + n * (sizeof(void *) + sizeof(uint64_t)),
		       CU_GRAPH_NODE_TYPE_KERNEL);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->kernel = f->kernel;
	l->op.run = run_kernel;
	memcpy(l->dims, sl->dims, sizeof(l->dims));
	to = (unsigned char *)&l->args[n];
	for (i = 0; i < n; i++, to += sizeof(uint64_t)) {
		size_t size = sim_param_size(params[i]);

		off = (off + size - 1) / size * size;
		memcpy(to, from ? from + off : sl->params[i], size);
		off += size;
		l->args[i] = to;
	}
	*out = &l->op;
	return CUDA_SUCCESS;
}

CUresult sim_func_get(CUfunction handle, struct sim_func **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_FUNCTION);
	if (!*out)
		*out = sim_handle_get(SIM_KEY(handle), SIM_KERNEL);
	if (*out)
		return CUDA_SUCCESS;
	if (handle)
		sim_bad("use of function %p that is not alive",
			(void *)handle);
	return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult launch(bool pt, CUfunction func, const unsigned *dims,
		       CUstream stream, void **params, void **extra)
{
	struct sim_launch l = { dims, params, extra };
	struct sim_line *line;
	struct sim_func *f;
	struct sim_ctx *ctx;
	struct sim_op *op;

	SIM_TRY(sim_ctx_current(&ctx));
	SIM_TRY(sim_func_get(func, &f));
	SIM_TRY(sim_line_get(stream, pt, &line));
	if (f->module && f->module->ctx != line->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(sim_op_kernel(f, &l, &op));
	return sim_submit(line, op);
}

#define SEVEN	unsigned int gx, unsigned int gy, unsigned int gz,	\
		unsigned int bx, unsigned int by, unsigned int bz,	\
		unsigned int shared __attribute__((unused))
#define DIMS	((unsigned[6]){ gx, gy, gz, bx, by, bz })

SIM_TWINS(cuLaunchKernel, cuLaunchKernel_ptsz,
	  (CUfunction f, SEVEN, CUstream stream, void **params, void **extra),
	  launch(pt, f, DIMS, stream, params, extra))
SIM_TWINS(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
	  (CUfunction f, SEVEN, CUstream stream, void **params),
	  launch(pt, f, DIMS, stream, params, NULL))

static CUresult launch_ex(bool pt, const CUlaunchConfig *c, CUfunction f,
			  void **params, void **extra)
{
	if (!c || (c->numAttrs && !c->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(pt, f, (unsigned[6]){ c->gridDimX, c->gridDimY,
		      c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ },
		      c->hStream, params, extra);
}

SIM_TWINS(cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
	  (const CUlaunchConfig *c, CUfunction f, void **params, void **extra),
	  launch_ex(pt, c, f, params, extra))
