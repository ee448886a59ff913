/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/resolve.h"
#include "intercept/hooks.h"

#include <stdio.h>

static void *const wrappers[VS_ROW_COUNT] = {
#define VS_OWN(sym)			[VS_ROW_##sym] = (void *)sym,
#define VS_OWN2(sym, suffix)		VS_OWN(sym) VS_OWN(sym##suffix)
#define VS_GATED(sym, params, args)	VS_OWN(sym)
#define VS_GATED2(sym, suffix, params, args)	VS_OWN2(sym, suffix)
#include "intercept/hooks.def"
};

/* tailjump-*.S counts on these. */
_Static_assert(offsetof(struct vs_driver_slot, target) == 0, "target");
_Static_assert(offsetof(struct vs_driver_slot, calls) == 8, "calls");
_Static_assert(sizeof(struct vs_driver_slot) == 64, "slot");
_Static_assert(VS_DRIVER_SLOTS == 64, "slots");

static bool is_wrapper(const void *pointer)
{
	int row;

	for (row = 0; row < VS_ROW_COUNT; row++)
		if (wrappers[row] == pointer)
			return true;
	return false;
}

/* The first that comes for a pointer takes a slot; nobody gives one back. */
static void *counted(const char *name, void *pointer)
{
	struct vs_driver_slot *slot;
	void *target;
	int i;

	for (i = 0; i < VS_DRIVER_SLOTS; i++) {
		slot = &vs_driver_slots[i];
		target = NULL;
		if (__atomic_compare_exchange_n(&slot->target, &target,
						pointer, false,
						__ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			snprintf(slot->name, sizeof(slot->name), "%s", name);
		else if (target != pointer)
			continue;
		return (void *)(vs_tailjump_slots + i * VS_RESOLVE_STRIDE);
	}
	vs_driver_unhooked(name);
	return pointer;
}

bool vs_resolve_like_driver(const char *name)
{
	return name && name[0] == 'c' && name[1] == 'u' &&
	       name[2] >= 'A' && name[2] <= 'Z';
}

void *vs_resolve_pointer(const char *name, void *pointer, bool driver)
{
	/* The order to search in comes last: a row alone says nothing. */
	int row = vs_driver_load() ? vs_driver_find(pointer) : -1;

	if (row >= 0)
		return wrappers[row] ? wrappers[row] : pointer;
	if (is_wrapper(pointer) || !vs_resolve_like_driver(name))
		return pointer;
	if (vs_driver_row(name) < 0)
		return driver ? counted(name, pointer) : pointer;
	vs_driver_unhooked(name);
	return pointer;
}

VS_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn,
				    int version, cuuint64_t flags)
{
	CUresult rc = VS_REAL(cuGetProcAddress, (symbol, pfn, version, flags));

	if (!rc && pfn && *pfn)
		*pfn = vs_resolve_pointer(symbol, *pfn, true);
	return rc;
}

VS_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn,
				       int version, cuuint64_t flags,
				       CUdriverProcAddressQueryResult *status)
{
	CUresult rc = VS_REAL(cuGetProcAddress_v2,
			      (symbol, pfn, version, flags, status));

	if (!rc && pfn && *pfn)
		*pfn = vs_resolve_pointer(symbol, *pfn, true);
	return rc;
}
