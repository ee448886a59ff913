/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_module *modules;

struct sim_module *sim_modules(void)
{
	return modules;
}

/* Takes text. */
CUresult sim_module_new(struct sim_ctx *ctx, char *text,
			struct sim_module **out)
{
	struct sim_module *m = calloc(1, sizeof(*m));
	CUresult rc = CUDA_SUCCESS;

	if (!m) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->ctx = ctx;
	m->text = text;
	m->next = modules;
	modules = m;
	sim_handle_add(SIM_KEY(m), SIM_MODULE, m);
	if (text)
		rc = sim_text_globals(m);
	if (rc != CUDA_SUCCESS)
		sim_module_free(m);
	else
		*out = m;
	return rc;
}

void sim_module_free(struct sim_module *m)
{
	struct sim_module **p = &modules;

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	while (m->funcs) {
		struct sim_func *f = m->funcs;

		m->funcs = f->next;
		sim_handle_drop(SIM_KEY(f));
		free(f);
	}
	while (m->globals) {
		struct sim_global *g = m->globals;

		m->globals = g->next;
		sim_native_free(g->range);
		free(g->name);
		free(g);
	}
	sim_handle_drop(SIM_KEY(m));
	free(m->text);
	free(m);
}

void sim_module_forget(struct sim_ctx *ctx)
{
	struct sim_module *m, *next;

	for (m = modules; m; m = next) {
		next = m->next;
		if (m->ctx == ctx)
			sim_module_free(m);
	}
	sim_array_forget(ctx);
}

static CUresult load(CUmodule *out, char *text)
{
	struct sim_ctx *ctx;
	struct sim_module *m;
	CUresult rc = sim_ctx_current(&ctx);

	if (rc != CUDA_SUCCESS) {
		free(text);
		return rc;
	}
	SIM_TRY(sim_module_new(ctx, text, &m));
	*out = (CUmodule)m;
	return CUDA_SUCCESS;
}

static CUresult load_data(CUmodule *out, const void *image)
{
	char *text;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_image_text(image, &text));
	return load(out, text);
}

SIM_SAME(cuModuleLoadData, (CUmodule *out, const void *image),
	 load_data(out, image))
SIM_SAME(cuModuleLoadDataEx,
	 (CUmodule *out, const void *image, unsigned int n SIM_UNUSED,
	  CUjit_option *options SIM_UNUSED, void **values SIM_UNUSED),
	 load_data(out, image))
SIM_SAME(cuModuleLoadFatBinary, (CUmodule *out, const void *image),
	 load_data(out, image))

CUresult sim_file_read(const char *path, char **out)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t len = 0;
	CUresult rc;

	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (getdelim(&text, &len, '\0', f) <= 0) {
		fclose(f);
		free(text);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	fclose(f);
	rc = sim_image_text(text, out);
	free(text);
	return rc;
}

SIM_API(cuModuleLoad, (CUmodule *out, const char *path))
{
	char *text;

	SIM_ENTER(cuModuleLoad);
	if (!out || !path)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_file_read(path, &text));
	return load(out, text);
}

static CUresult module_get(CUmodule handle, struct sim_module **out)
{
	*out = sim_handle_get(SIM_KEY(handle), SIM_MODULE);
	if (*out)
		return CUDA_SUCCESS;
	if (handle)
		sim_bad("use of module %p that is not alive", (void *)handle);
	return CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuModuleUnload, (CUmodule handle))
{
	struct sim_module *m;
	struct sim_ctx *ctx;

	SIM_ENTER(cuModuleUnload);
	SIM_TRY(module_get(handle, &m));
	ctx = m->ctx;
	SIM_TRY(ctx->sticky);
	if (m->globals) {
		ctx->pins++;
		sim_ctx_wait(ctx);
		ctx->pins--;
		sim_wake();
		SIM_TRY(module_get(handle, &m));
	}
	sim_module_free(m);
	return CUDA_SUCCESS;
}

CUresult sim_module_func(struct sim_module *m, const char *name,
			 struct sim_func **out)
{
	const struct sim_kernel *k = sim_kernel_find(name);
	struct sim_func *f;

	if (!k || (m->text && !sim_text_has_entry(m->text, name)))
		return CUDA_ERROR_NOT_FOUND;
	for (f = m->funcs; f && f->kernel != k; f = f->next)
		;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return CUDA_ERROR_OUT_OF_MEMORY;
		f->module = m;
		f->kernel = k;
		f->next = m->funcs;
		m->funcs = f;
		sim_handle_add(SIM_KEY(f), SIM_FUNCTION, f);
	}
	*out = f;
	return CUDA_SUCCESS;
}

SIM_API(cuModuleGetFunction, (CUfunction *out, CUmodule handle,
			      const char *name))
{
	struct sim_module *m;
	struct sim_func *f;

	SIM_ENTER(cuModuleGetFunction);
	SIM_TRY(module_get(handle, &m));
	if (!out || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_module_func(m, name, &f));
	*out = (CUfunction)f;
	return CUDA_SUCCESS;
}

CUresult sim_module_global(struct sim_module *m, const char *name,
			   CUdeviceptr *at, size_t *size)
{
	struct sim_global *g;

	for (g = m->globals; g; g = g->next)
		if (strcmp(g->name, name) == 0)
			break;
	if (!g)
		return CUDA_ERROR_NOT_FOUND;
	if (at)
		*at = g->range->span.base;
	if (size)
		*size = g->range->span.len;
	return CUDA_SUCCESS;
}

SIM_API(cuModuleGetGlobal_v2, (CUdeviceptr *at, size_t *size, CUmodule handle,
			       const char *name))
{
	struct sim_module *m;

	SIM_ENTER(cuModuleGetGlobal_v2);
	SIM_TRY(module_get(handle, &m));
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_module_global(m, name, at, size);
}

SIM_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode *mode))
{
	SIM_ENTER(cuModuleGetLoadingMode);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
