/* SPDX-License-Identifier: Apache-2.0 */
/* What a function says of itself. */
#include "sim_module.h"

#include <string.h>

static CUresult func_attribute(int *out, CUfunction_attribute a,
			       CUfunction handle)
{
	static const int values[] = {
		[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
		[CU_FUNC_ATTRIBUTE_NUM_REGS] = 16,
		[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90,
		[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90,
		[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152,
		[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1,
		[15] = 0,
	};
	struct sim_func *f;

	SIM_TRY(sim_func_get(handle, &f));
	if (!out || (unsigned)a >= sizeof(values) / sizeof(*values))
		return CUDA_ERROR_INVALID_VALUE;
	*out = values[a];
	return CUDA_SUCCESS;
}

SIM_SAME(cuFuncGetAttribute, (int *out, CUfunction_attribute a, CUfunction f),
	 func_attribute(out, a, f))
SIM_SAME(cuKernelGetAttribute, (int *out, CUfunction_attribute a, CUkernel k,
				CUdevice dev),
	 sim_dev_ok(dev) ? func_attribute(out, a, (CUfunction)k) :
	 CUDA_ERROR_INVALID_DEVICE)

static CUresult accept(CUfunction handle)
{
	struct sim_func *f;

	return sim_func_get(handle, &f);
}

SIM_SAME(cuFuncSetAttribute, (CUfunction f,
			      CUfunction_attribute a SIM_UNUSED,
			      int value SIM_UNUSED), accept(f))
SIM_SAME(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache c SIM_UNUSED),
	 accept(f))
SIM_SAME(cuFuncSetSharedMemConfig, (CUfunction f,
				    CUsharedconfig c SIM_UNUSED), accept(f))
SIM_SAME(cuFuncLoad, (CUfunction f), accept(f))
SIM_SAME(cuKernelSetAttribute, (CUfunction_attribute a SIM_UNUSED,
				int value SIM_UNUSED, CUkernel k,
				CUdevice dev SIM_UNUSED),
	 accept((CUfunction)k))
SIM_SAME(cuKernelSetCacheConfig, (CUkernel k, CUfunc_cache c SIM_UNUSED,
				  CUdevice dev SIM_UNUSED),
	 accept((CUfunction)k))

SIM_API(cuFuncIsLoaded, (CUfunctionLoadingState *state, CUfunction handle))
{
	SIM_ENTER(cuFuncIsLoaded);
	SIM_TRY(accept(handle));
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

SIM_API(cuFuncGetModule, (CUmodule *out, CUfunction handle))
{
	struct sim_func *f;

	SIM_ENTER(cuFuncGetModule);
	SIM_TRY(sim_func_get(handle, &f));
	if (!out || !f->module)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmodule)f->module;
	return CUDA_SUCCESS;
}

static CUresult func_name(const char **out, CUfunction handle)
{
	struct sim_func *f;

	SIM_TRY(sim_func_get(handle, &f));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = f->kernel->name;
	return CUDA_SUCCESS;
}

SIM_SAME(cuFuncGetName, (const char **out, CUfunction f), func_name(out, f))
SIM_SAME(cuKernelGetName, (const char **out, CUkernel k),
	 func_name(out, (CUfunction)k))

static CUresult param_info(CUfunction handle, size_t which, size_t *off,
			   size_t *size)
{
	size_t i, at = 0, n = 0;
	struct sim_func *f;

	SIM_TRY(sim_func_get(handle, &f));
	if (!off || which >= strlen(f->kernel->params))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i <= which; i++) {
		n = sim_param_size(f->kernel->params[i]);
		at = (at + n - 1) / n * n + n;
	}
	*off = at - n;
	if (size)
		*size = n;
	return CUDA_SUCCESS;
}

SIM_SAME(cuFuncGetParamInfo, (CUfunction f, size_t i, size_t *off,
			      size_t *size), param_info(f, i, off, size))
SIM_SAME(cuKernelGetParamInfo, (CUkernel k, size_t i, size_t *off,
				size_t *size),
	 param_info((CUfunction)k, i, off, size))

static CUresult max_blocks(int *out, CUfunction f, int block)
{
	SIM_TRY(accept(f));
	if (!out || block <= 0 || block > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 2048 / block > 32 ? 32 : 2048 / block;
	return CUDA_SUCCESS;
}

SIM_SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor,
	 (int *out, CUfunction f, int block, size_t shared SIM_UNUSED),
	 max_blocks(out, f, block))
SIM_SAME(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	 (int *out, CUfunction f, int block, size_t shared SIM_UNUSED,
	  unsigned int flags SIM_UNUSED),
	 max_blocks(out, f, block))

static CUresult best_block(int *grid, int *block, CUfunction f, int limit)
{
	SIM_TRY(accept(f));
	if (!grid || !block)
		return CUDA_ERROR_INVALID_VALUE;
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = 264;
	return CUDA_SUCCESS;
}

SIM_SAME(cuOccupancyMaxPotentialBlockSize,
	 (int *grid, int *block, CUfunction f,
	  CUoccupancyB2DSize fn SIM_UNUSED, size_t shared SIM_UNUSED,
	  int limit),
	 best_block(grid, block, f, limit))
SIM_SAME(cuOccupancyMaxPotentialBlockSizeWithFlags,
	 (int *grid, int *block, CUfunction f,
	  CUoccupancyB2DSize fn SIM_UNUSED, size_t shared SIM_UNUSED,
	  int limit, unsigned int flags SIM_UNUSED),
	 best_block(grid, block, f, limit))

SIM_API(cuModuleGetFunctionCount, (unsigned int *count, CUmodule handle))
{
	struct sim_module *m;
	size_t len;

	SIM_ENTER(cuModuleGetFunctionCount);
	m = sim_handle_get(SIM_KEY(handle), SIM_MODULE);
	if (!count || !m)
		return CUDA_ERROR_INVALID_VALUE;
	*count = 0;
	while (m->text && sim_text_entry(m->text, *count, &len))
		++*count;
	return CUDA_SUCCESS;
}

SIM_API(cuModuleEnumerateFunctions, (CUfunction *out, unsigned int n,
				     CUmodule handle))
{
	struct sim_module *m;
	struct sim_func *f;
	const char *p;
	char name[256];
	unsigned i;
	size_t len;

	SIM_ENTER(cuModuleEnumerateFunctions);
	m = sim_handle_get(SIM_KEY(handle), SIM_MODULE);
	if (!out || !m)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n && m->text; i++) {
		p = sim_text_entry(m->text, i, &len);
		if (!p || len >= sizeof(name))
			break;
		memcpy(name, p, len);
		name[len] = '\0';
		SIM_TRY(sim_module_func(m, name, &f));
		out[i] = (CUfunction)f;
	}
	return CUDA_SUCCESS;
}
