/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways out of the process that run functions of the program before the exit
 * handler that sleep/exit.c has put in front: handlers of quick_exit, which
 * nobody can take back, and destructors of thread_local objects.
 */
#include <config.h>

#include "intercept/hooks.h"
#include "sleep/exit.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int thread_atexit(void (*destructor)(void *), void *object,
			  void *library);

/* The C++ ABI's; no header of the C library has them. */
extern void *__dso_handle __attribute__((visibility("hidden")));
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object,
			     void *library);

static void leave(const char *name, int status)
{
	void (*real)(int) = (void (*)(int))vs_driver_dlsym(RTLD_NEXT, name);

	vs_exit_now();
	if (real)
		real(status);
	_exit(status);
}

VS_EXPORT void exit(int status)
{
	leave("exit", status);
	__builtin_unreachable();
}

VS_EXPORT void quick_exit(int status)
{
	leave("quick_exit", status);
	__builtin_unreachable();
}

static thread_atexit *find_thread_atexit(void)
{
	static _Atomic(thread_atexit *) real;
	thread_atexit *found = atomic_load(&real);

	if (!found) {
		found = (thread_atexit *)
			vs_driver_dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
		atomic_store(&real, found);
	}
	return found;
}

/* Before an allocator of the program's may be what registers. */
__attribute__((constructor)) static void load(void)
{
	find_thread_atexit();
}

static void process_exits(void *unused)
{
	(void)unused;
	vs_exit_now();
}

/*
 * The last that is registered runs first, so each needs one of ours behind
 * it.  The main thread runs its list where the process exits, also when main
 * returns, and not where it ends alone; another thread may just end.
 */
VS_EXPORT int __cxa_thread_atexit_impl(void (*destructor)(void *),
				       void *object, void *library)
{
	thread_atexit *real = find_thread_atexit();
	int rc;

	if (!real)
		return -1;
	rc = real(destructor, object, library);
	if (!rc && syscall(SYS_gettid) == getpid())
		real(process_exits, NULL, &__dso_handle);
	return rc;
}
