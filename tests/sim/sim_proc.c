/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: a base name, a CUDA version and flags give one of the
 * exported symbols.  A symbol is base[_vN][_ptds|_ptsz]; the newest one that
 * the version allows is handed out, of the per-thread ones where asked.
 */
#include "sim_internal.h"

#include <string.h>

struct sim_symbol {
	const char *name;
	int version;
	int (*fn)(void);
};

extern const struct sim_symbol sim_symbols[];
extern const size_t sim_n_symbols;

enum found { NONE, TOO_OLD, FOUND };

/* Length of the base name within a symbol; *pt: it has the other ending. */
static size_t base_len(const char *name, bool *pt)
{
	size_t len = strlen(name), n;

	*pt = false;
	if (len > 5 && (strcmp(name + len - 5, "_ptsz") == 0 ||
			strcmp(name + len - 5, "_ptds") == 0)) {
		*pt = true;
		len -= 5;
	}
	n = len;
	while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
		n--;
	if (n < len && n > 2 && name[n - 1] == 'v' && name[n - 2] == '_')
		return n - 2;
	return len;
}

static enum found lookup(const char *base, int version, bool per_thread,
			 void **out)
{
	const struct sim_symbol *best = NULL;
	enum found found = NONE;
	size_t i, len = strlen(base);

	for (i = 0; i < sim_n_symbols; i++) {
		const struct sim_symbol *s = &sim_symbols[i];
		bool pt;

		if (strncmp(s->name, base, len) != 0 ||
		    base_len(s->name, &pt) != len || pt != per_thread ||
		    s->version > sim_version)
			continue;
		if (found == NONE)
			found = TOO_OLD;
		if (s->version <= version &&
		    (!best || s->version > best->version))
			best = s;
	}
	if (!best)
		return found;
	memcpy(out, &best->fn, sizeof(*out));
	return FOUND;
}

static CUresult get(const char *symbol, void **out, int version,
		    cuuint64_t flags, CUdriverProcAddressQueryResult *status,
		    bool strict)
{
	const bool per_thread =
		flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	enum found found = NONE, legacy;
	void *fn = NULL;

	if (!symbol || !out || flags > 2 || version > sim_version)
		return CUDA_ERROR_INVALID_VALUE;
	if (per_thread)
		found = lookup(symbol, version, true, &fn);
	if (found != FOUND) {
		legacy = lookup(symbol, version, false, &fn);
		if (legacy > found)
			found = legacy;
	}
	*out = fn;
	if (status)
		*status = found == FOUND ? CU_GET_PROC_ADDRESS_SUCCESS :
			  found == TOO_OLD ?
			  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
			  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return strict && found != FOUND ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

/* The first form has no status, so it says by its result what is missing. */
SIM_API(cuGetProcAddress, (const char *symbol, void **out, int version,
			   cuuint64_t flags))
{
	SIM_ENTER_ANY(cuGetProcAddress);
	return get(symbol, out, version, flags, NULL, true);
}

SIM_API(cuGetProcAddress_v2, (const char *symbol, void **out, int version,
			      cuuint64_t flags,
			      CUdriverProcAddressQueryResult *status))
{
	SIM_ENTER_ANY(cuGetProcAddress_v2);
	return get(symbol, out, version, flags, status, false);
}

SIM_API(cuDriverGetVersion, (int *version))
{
	SIM_ENTER_ANY(cuDriverGetVersion);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim_version;
	return CUDA_SUCCESS;
}

SIM_API(cuGetExportTable, (const void **table, const CUuuid *id))
{
	SIM_ENTER_ANY(cuGetExportTable);
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
