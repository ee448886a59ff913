/* SPDX-License-Identifier: Apache-2.0 */
/* sim_module - loaded images, their functions, and the kernels behind them. */
#ifndef VS_TESTS_SIM_MODULE_H
#define VS_TESTS_SIM_MODULE_H

#include "sim_internal.h"

struct sim_kernel {
	const char *name;
	const char *params;	/* b h w q: bytes; p: pointer, 8 bytes */
	void (*fn)(void **args);
	void (*fn_grid)(void **args, const unsigned *dims);
};

struct sim_func {
	struct sim_func *next;
	struct sim_module *module;	/* NULL: a library's kernel */
	struct sim_library *library;
	const struct sim_kernel *kernel;
};

struct sim_global {
	struct sim_global *next;
	char *name;
	struct sim_range *range;
};

struct sim_module {
	struct sim_module *next;
	struct sim_ctx *ctx;
	struct sim_library *library;	/* whose it is, or NULL */
	char *text;			/* NULL: a binary, of any content */
	struct sim_func *funcs;
	struct sim_global *globals;
};

struct sim_library {
	char *text;
	struct sim_func *kernels;
};

struct sim_launch {
	const unsigned *dims;		/* grid x y z, block x y z */
	void **params;
	void **extra;
};

/* sim_kernel.c */
const struct sim_kernel *sim_kernel_find(const char *name);
size_t sim_param_size(char letter);
void sim_kernel_fault(void);		/* by a kernel: its context is lost */

/* sim_launch.c */
CUresult sim_func_get(CUfunction handle, struct sim_func **out);
CUresult sim_op_kernel(const struct sim_func *f, const struct sim_launch *l,
		       struct sim_op **out);

/* sim_image.c */
bool sim_text_has_entry(const char *text, const char *name);
const char *sim_text_entry(const char *text, size_t i, size_t *len);
CUresult sim_image_text(const void *image, char **out);
CUresult sim_text_globals(struct sim_module *m);

/* sim_module.c */
CUresult sim_module_new(struct sim_ctx *ctx, char *text,
			struct sim_module **out);
CUresult sim_module_func(struct sim_module *m, const char *name,
			 struct sim_func **out);
CUresult sim_module_global(struct sim_module *m, const char *name,
			   CUdeviceptr *at, size_t *size);
void sim_module_free(struct sim_module *m);
struct sim_module *sim_modules(void);
CUresult sim_file_read(const char *path, char **out);

#endif
