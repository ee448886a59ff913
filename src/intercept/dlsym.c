/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/dlsym.h"
#include "intercept/deepbind.h"
#include "intercept/resolve.h"
#include "base/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) real;

static void *none(void *handle, const char *name)
{
	(void)handle;
	(void)name;
	return NULL;
}

/* Nothing may touch dlerror after a look-up that failed.  The handle tells
 * only about new names, for which vs_dlsym_target has filled the table. */
static void *look_up(void *handle, const char *name)
{
	void *pointer = vs_driver_dlsym(handle, name);

	if (!pointer)
		return NULL;
	return vs_resolve_pointer(name, pointer,
				  handle == vs_driver_handle());
}

static void *real_address(void)
{
	void *address = atomic_load_explicit(&real, memory_order_relaxed);

	if (address)
		return address;
	address = vs_driver_dlsym(RTLD_NEXT, "dlsym");
	if (!address)
		return (void *)none;
	atomic_store_explicit(&real, address, memory_order_relaxed);
	return address;
}

void *vs_dlsym_target(void *handle, const char *name)
{
	vs_deepbind_look();
	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT ||
	    !vs_resolve_like_driver(name))
		return real_address();
	if (vs_driver_row(name) >= 0)
		return (void *)look_up;
	if (vs_driver_load() && handle == vs_driver_handle())
		return (void *)look_up;
	return real_address();
}
