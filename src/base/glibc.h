/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc - the library runs on glibc 2.30 wherever it was built.
 *
 * A preload whose version of glibc is not there ends the process.  Since 2.33
 * glibc has moved functions from its other libraries into libc.so.6, each
 * under a new version beside the old one: the old one is named here.  Before
 * 2.30 a loader wants to find it in the library where the linker did.  The
 * compiler includes this before all else; tests/lint/symbols.sh finds what is
 * missing.
 */
#ifndef VS_BASE_GLIBC_H
#define VS_BASE_GLIBC_H

#include <config.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __GLIBC_PREREQ(2, 33)
/* Functions since 2.33; for 64 bits the kernel's struct is glibc's. */
#define fstatat(dir, path, st, flags)					\
	((int)syscall(SYS_newfstatat, dir, path, st, flags))
#define stat(path, st)	fstatat(AT_FDCWD, path, st, 0)
#define lstat(path, st)	fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW)
#define fstat(fd, st)	fstatat(fd, "", st, AT_EMPTY_PATH)
#endif

#define VS_SYMVER(name, old, version)					\
	__asm__(".symver " #name ", " #old "@GLIBC_" version);
#ifdef __aarch64__
#define VS_OLD(name, x86_64)	VS_SYMVER(name, name, "2.17")
#define VS_PLAIN(name)		VS_SYMVER(__isoc23_##name, name, "2.17")
#else
#define VS_OLD(name, x86_64)	VS_SYMVER(name, name, x86_64)
#define VS_PLAIN(name)		VS_SYMVER(__isoc23_##name, name, "2.2.5")
#endif

/* A sanitizer puts functions of its own in their place. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
VS_OLD(dladdr, "2.2.5")
VS_OLD(dlclose, "2.2.5")
VS_OLD(dlerror, "2.2.5")
VS_OLD(dlinfo, "2.3.3")
VS_OLD(dlopen, "2.2.5")
VS_OLD(dlvsym, "2.2.5")
VS_OLD(pthread_attr_setstacksize, "2.2.5")
VS_OLD(pthread_condattr_setclock, "2.3.3")
VS_OLD(pthread_create, "2.2.5")
VS_OLD(pthread_detach, "2.2.5")
VS_OLD(pthread_getaffinity_np, "2.3.4")
VS_OLD(pthread_getspecific, "2.2.5")
VS_OLD(pthread_join, "2.2.5")
VS_OLD(pthread_key_create, "2.2.5")
VS_OLD(pthread_key_delete, "2.2.5")
VS_OLD(pthread_kill, "2.2.5")
VS_OLD(pthread_mutex_timedlock, "2.2.5")
VS_OLD(pthread_mutex_trylock, "2.2.5")
VS_OLD(pthread_mutexattr_destroy, "2.2.5")
VS_OLD(pthread_mutexattr_init, "2.2.5")
VS_OLD(pthread_mutexattr_settype, "2.2.5")
VS_OLD(pthread_once, "2.2.5")
VS_OLD(pthread_rwlock_rdlock, "2.2.5")
VS_OLD(pthread_rwlock_unlock, "2.2.5")
VS_OLD(pthread_rwlock_wrlock, "2.2.5")
VS_OLD(pthread_setaffinity_np, "2.3.4")
VS_OLD(pthread_setname_np, "2.12")
VS_OLD(pthread_setspecific, "2.2.5")
VS_OLD(pthread_sigmask, "2.2.5")
VS_OLD(pthread_timedjoin_np, "2.3.3")
VS_OLD(pthread_tryjoin_np, "2.3.3")
VS_OLD(sem_destroy, "2.2.5")
VS_OLD(sem_init, "2.2.5")
VS_OLD(sem_post, "2.2.5")
VS_OLD(sem_timedwait, "2.2.5")
VS_OLD(sem_trywait, "2.2.5")
VS_OLD(sem_wait, "2.2.5")
#endif

/* Since 2.38 <stdlib.h> means other functions, which read 0b too. */
#if __GLIBC_PREREQ(2, 38)
VS_PLAIN(strtol)
VS_PLAIN(strtoul)
VS_PLAIN(strtoll)
VS_PLAIN(strtoull)
VS_PLAIN(sscanf)
#endif

#endif
