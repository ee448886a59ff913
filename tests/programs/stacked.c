/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacked - a preloaded library that does what others of its kind do: dlsym,
 * sigaction and signal are its own and go on to the next.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

typedef void (*handler)(int number);

static void *next(const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = (void *(*)(void *, const char *))
			dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!real)
		real = (void *(*)(void *, const char *))
			dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
	return real(RTLD_NEXT, name);
}

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = (void *(*)(void *, const char *))next("dlsym");
	return real(handle, name);
}

int sigaction(int number, const struct sigaction *action,
	      struct sigaction *old)
{
	static int (*real)(int, const struct sigaction *, struct sigaction *);

	if (!real)
		real = (int (*)(int, const struct sigaction *,
				struct sigaction *))next("sigaction");
	return real(number, action, old);
}

handler signal(int number, handler h)
{
	static handler (*real)(int, handler);

	if (!real)
		real = (handler (*)(int, handler))next("signal");
	return real(number, h);
}
