/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "faults.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
#define X(name, ...) NR_##name,
#include "faults.def"
#undef X
	NR_COUNT
};

const char *const faults_names[] = {
#define X(name, ...) #name,
#include "faults.def"
#undef X
	NULL
};

static const int codes[NR_COUNT][4] = {
#define X(name, ...) [NR_##name] = { __VA_ARGS__ },
#include "faults.def"
#undef X
};

static atomic_ulong counts[NR_COUNT], struck;
static atomic_bool armed;
static int target = -1, target_code;
static unsigned target_nth;
static bool target_lasts;

static int number(const char *name)
{
	int i;

	for (i = 0; i < NR_COUNT; i++)
		if (!strcmp(name, faults_names[i]))
			return i;
	abort();
}

const int *faults_codes(const char *name)
{
	return codes[number(name)];
}

void faults_arm(const char *name, unsigned nth, int code, bool lasting)
{
	int i;

	for (i = 0; i < NR_COUNT; i++)
		atomic_store(&counts[i], 0);
	target = name ? number(name) : -1;
	target_nth = nth;
	target_code = code;
	target_lasts = lasting;
	atomic_store(&armed, true);
}

void faults_clear(void)
{
	atomic_store(&armed, false);
}

unsigned long faults_count(const char *name)
{
	return atomic_load(&counts[number(name)]);
}

unsigned long faults_struck(void)
{
	return atomic_load(&struck);
}

/* With errno set where it strikes. */
static bool strikes(int call)
{
	unsigned long n;

	if (!atomic_load(&armed))
		return false;
	n = atomic_fetch_add(&counts[call], 1) + 1;
	if (call != target ||
	    (n != target_nth && !(target_lasts && n > target_nth)))
		return false;
	atomic_fetch_add(&struck, 1);
	errno = target_code;
	return true;
}

#define WRAP(type, name, params, args, failure)				\
type __real_##name params;						\
type __wrap_##name params;						\
type __wrap_##name params						\
{									\
	return strikes(NR_##name) ? (failure) : __real_##name args;	\
}

WRAP(void *, mmap, (void *at, size_t size, int prot, int flags, int fd,
		    off_t offset), (at, size, prot, flags, fd, offset),
     MAP_FAILED)
WRAP(int, munmap, (void *at, size_t size), (at, size), -1)
WRAP(int, madvise, (void *at, size_t size, int advice), (at, size, advice),
     -1)
/* In place of pthread_create, which src/ binds to an old version. */
WRAP(int, vs_thread_start, (pthread_t *thread, const char *name,
			    void *(*body)(void *), void *arg),
     (thread, name, body, arg), errno)
WRAP(long, sysconf, (int name), (name), -1)
WRAP(ssize_t, read, (int fd, void *buf, size_t size), (fd, buf, size), -1)
WRAP(ssize_t, write, (int fd, const void *buf, size_t size),
     (fd, buf, size), -1)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP(int, socket, (int domain, int type, int protocol),
     (domain, type, protocol), -1)
WRAP(int, bind, (int fd, const struct sockaddr *address, socklen_t len),
     (fd, address, len), -1)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(int, accept4, (int fd, struct sockaddr *address, socklen_t *len,
		    int flags), (fd, address, len, flags), -1)
WRAP(int, eventfd, (unsigned int first, int flags), (first, flags), -1)
WRAP(int, pipe2, (int ends[2], int flags), (ends, flags), -1)
WRAP(int, poll, (struct pollfd *fds, nfds_t count, int timeout),
     (fds, count, timeout), -1)
WRAP(ssize_t, send, (int fd, const void *buf, size_t size, int flags),
     (fd, buf, size, flags), -1)
WRAP(ssize_t, recv, (int fd, void *buf, size_t size, int flags),
     (fd, buf, size, flags), -1)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return strikes(NR_open) ? -1 : __real_open(path, flags, mode);
}

long __real_syscall(long call, ...);
long __wrap_syscall(long call, ...);
long __wrap_syscall(long call, ...)
{
	long a[4];
	va_list args;
	int i;

	va_start(args, call);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	return strikes(NR_syscall) ? -1 :
	       __real_syscall(call, a[0], a[1], a[2], a[3]);
}
