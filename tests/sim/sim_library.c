/* SPDX-License-Identifier: Apache-2.0 */
/* Images loaded for no context in particular; each gets a module on demand. */
#include "sim_module.h"

#include <stdlib.h>
#include <string.h>

static CUresult library_get(CUlibrary handle, struct sim_library **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_LIBRARY);
	if (*out)
		return CUDA_SUCCESS;
	if (handle)
		sim_bad("use of library %p that is not alive",
			(void *)handle);
	return CUDA_ERROR_INVALID_HANDLE;
}

/* Takes text. */
static CUresult library_new(CUlibrary *out, char *text)
{
	struct sim_library *l = calloc(1, sizeof(*l));

	if (!l) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	l->text = text;
	sim_handle_add(SIM_KEY(l), SIM_LIBRARY, l);
	*out = (CUlibrary)l;
	return CUDA_SUCCESS;
}

#define OPTIONS								\
	CUjit_option *jit SIM_UNUSED, void **jit_values SIM_UNUSED,	\
	unsigned int n_jit SIM_UNUSED, CUlibraryOption *lib SIM_UNUSED,	\
	void **lib_values SIM_UNUSED, unsigned int n_lib SIM_UNUSED

SIM_API(cuLibraryLoadData, (CUlibrary *out, const void *image, OPTIONS))
{
	char *text;

	SIM_ENTER(cuLibraryLoadData);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_image_text(image, &text));
	return library_new(out, text);
}

SIM_API(cuLibraryLoadFromFile, (CUlibrary *out, const char *path, OPTIONS))
{
	char *text;

	SIM_ENTER(cuLibraryLoadFromFile);
	if (!out || !path)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_file_read(path, &text));
	return library_new(out, text);
}

SIM_API(cuLibraryUnload, (CUlibrary handle))
{
	struct sim_module *m, *next;
	struct sim_library *l;

	SIM_ENTER(cuLibraryUnload);
	SIM_TRY(library_get(handle, &l));
	for (m = sim_modules(); m; m = next) {
		next = m->next;
		if (m->library == l)
			sim_module_free(m);
	}
	while (l->kernels) {
		struct sim_func *f = l->kernels;

		l->kernels = f->next;
		sim_handle_drop(SIM_KEY(f));
		free(f);
	}
	sim_handle_drop(SIM_KEY(l));
	free(l->text);
	free(l);
	return CUDA_SUCCESS;
}

static CUresult kernel_of(struct sim_library *l, const char *name,
			  struct sim_func **out)
{
	const struct sim_kernel *k = sim_kernel_find(name);
	struct sim_func *f;

	if (!k || (l->text && !sim_text_has_entry(l->text, name)))
		return CUDA_ERROR_NOT_FOUND;
	for (f = l->kernels; f && f->kernel != k; f = f->next)
		;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return CUDA_ERROR_OUT_OF_MEMORY;
		f->library = l;
		f->kernel = k;
		f->next = l->kernels;
		l->kernels = f;
		sim_handle_add(SIM_KEY(f), SIM_KERNEL, f);
	}
	*out = f;
	return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetKernel, (CUkernel *out, CUlibrary handle,
			     const char *name))
{
	struct sim_library *l;
	struct sim_func *f;

	SIM_ENTER(cuLibraryGetKernel);
	SIM_TRY(library_get(handle, &l));
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(kernel_of(l, name, &f));
	*out = (CUkernel)f;
	return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetKernelCount, (unsigned int *count, CUlibrary handle))
{
	struct sim_library *l;
	size_t len;

	SIM_ENTER(cuLibraryGetKernelCount);
	SIM_TRY(library_get(handle, &l));
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = 0;
	while (l->text && sim_text_entry(l->text, *count, &len))
		++*count;
	return CUDA_SUCCESS;
}

/* Its module in the current context. */
static CUresult module_of(struct sim_library *l, struct sim_module **out)
{
	struct sim_ctx *ctx;
	struct sim_module *m;
	char *text = NULL;

	SIM_TRY(sim_ctx_current(&ctx));
	for (m = sim_modules(); m; m = m->next)
		if (m->library == l && m->ctx == ctx) {
			*out = m;
			return CUDA_SUCCESS;
		}
	if (l->text) {
		text = strdup(l->text);
		if (!text)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	SIM_TRY(sim_module_new(ctx, text, out));
	(*out)->library = l;
	return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetModule, (CUmodule *out, CUlibrary handle))
{
	struct sim_library *l;
	struct sim_module *m;

	SIM_ENTER(cuLibraryGetModule);
	SIM_TRY(library_get(handle, &l));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(module_of(l, &m));
	*out = (CUmodule)m;
	return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetGlobal, (CUdeviceptr *at, size_t *size, CUlibrary handle,
			     const char *name))
{
	struct sim_library *l;
	struct sim_module *m;

	SIM_ENTER(cuLibraryGetGlobal);
	SIM_TRY(library_get(handle, &l));
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(module_of(l, &m));
	return sim_module_global(m, name, at, size);
}

SIM_API(cuKernelGetFunction, (CUfunction *out, CUkernel handle))
{
	struct sim_module *m;
	struct sim_func *f, *own;

	SIM_ENTER(cuKernelGetFunction);
	SIM_TRY(sim_func_get((CUfunction)handle, &f));
	if (!out || !f->library)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(module_of(f->library, &m));
	SIM_TRY(sim_module_func(m, f->kernel->name, &own));
	*out = (CUfunction)own;
	return CUDA_SUCCESS;
}

SIM_API(cuKernelGetLibrary, (CUlibrary *out, CUkernel handle))
{
	struct sim_func *f;

	SIM_ENTER(cuKernelGetLibrary);
	SIM_TRY(sim_func_get((CUfunction)handle, &f));
	if (!out || !f->library)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUlibrary)f->library;
	return CUDA_SUCCESS;
}
