/* SPDX-License-Identifier: Apache-2.0 */
/* What an image holds.  PTX is read for names and sizes; a binary is not. */
#include "sim_module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How a fat binary, its wrapper and an ELF file begin. */
static const char *const binaries[] = {
	"\x50\xed\x55\xba", "\xb1\x43\x62\x46", "\177ELF",
};

/* A copy of the text, or NULL for a binary. */
CUresult sim_image_text(const void *image, char **out)
{
	size_t i;

	*out = NULL;
	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < sizeof(binaries) / sizeof(*binaries); i++)
		if (strncmp(image, binaries[i], 4) == 0)
			return CUDA_SUCCESS;
	if (!strstr(image, ".version"))
		return CUDA_ERROR_INVALID_IMAGE;
	*out = strdup(image);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static size_t ident(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '$')
		n++;
	return n;
}

/* Name of the ith kernel of the text, NULL past the last. */
const char *sim_text_entry(const char *text, size_t i, size_t *len)
{
	const char *p = text;

	while ((p = strstr(p, ".entry")) != NULL) {
		p += strlen(".entry");
		while (isspace((unsigned char)*p))
			p++;
		*len = ident(p);
		if (*len && i-- == 0)
			return p;
	}
	return NULL;
}

bool sim_text_has_entry(const char *text, const char *name)
{
	const char *p;
	size_t i, len;

	for (i = 0; (p = sim_text_entry(text, i, &len)) != NULL; i++)
		if (len == strlen(name) && memcmp(p, name, len) == 0)
			return true;
	return false;
}

static size_t type_size(const char *type, size_t len)
{
	while (len && !isdigit((unsigned char)*type)) {
		type++;
		len--;
	}
	return len ? (size_t)atoi(type) / 8 : 0;
}

/* One declaration from after ".global" on: ".align 4 .u32 name[8]". */
static size_t declared(const char *p, const char **name, size_t *len)
{
	size_t size = 0, n;

	for (;;) {
		while (isspace((unsigned char)*p))
			p++;
		if (isdigit((unsigned char)*p)) {
			p += strspn(p, "0123456789");
			continue;
		}
		if (*p != '.')
			break;
		n = ident(++p);
		if (strncmp(p, "align", 5) != 0 && type_size(p, n))
			size = type_size(p, n);
		p += n;
	}
	*name = p;
	*len = ident(p);
	p += *len;
	if (*p == '[')
		size *= strtoul(p + 1, NULL, 0);
	return *len ? size : 0;
}

static CUresult global_new(struct sim_module *m, const char *name, size_t len,
			   size_t size)
{
	struct sim_global *g = calloc(1, sizeof(*g));
	CUresult rc;

	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = sim_global_alloc(m->ctx, size, &g->range);
	if (rc != CUDA_SUCCESS) {
		free(g);
		return rc;
	}
	memset((void *)g->range->span.base, 0, size);
	g->name = strndup(name, len);
	g->next = m->globals;
	m->globals = g;
	return CUDA_SUCCESS;
}

CUresult sim_text_globals(struct sim_module *m)
{
	static const char *const spaces[] = { ".global", ".const" };
	const char *p, *name;
	size_t i, len, size;

	for (i = 0; i < 2; i++)
		for (p = m->text; (p = strstr(p, spaces[i])) != NULL; ) {
			p += strlen(spaces[i]);
			if (!isspace((unsigned char)*p))
				continue;	/* ld.global.u32 */
			size = declared(p, &name, &len);
			if (size)
				SIM_TRY(global_new(m, name, len, size));
		}
	return CUDA_SUCCESS;
}
