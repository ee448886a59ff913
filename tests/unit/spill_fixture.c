/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "spill_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CALLS(X) \
	X(open, EMFILE, EINTR) \
	X(openat, EMFILE, EINTR, EOPNOTSUPP) \
	X(unlinkat, EIO) \
	X(faccessat, EACCES) \
	X(fstatvfs, EIO) \
	X(fallocate, ENOSPC, EINTR, EOPNOTSUPP) \
	X(ftruncate, EIO) \
	X(fdatasync, EIO) \
	X(pwrite, EIO, EINTR, ENOSPC, EINVAL) \
	X(pread, EIO, EINTR, EINVAL) \
	X(realloc, ENOMEM) \
	X(syscall, EIO)

#define X(name, ...) NR_##name,
enum { CALLS(X) NR_COUNT };
#undef X
#define X(name, ...) #name,
const char *const spill_calls[] = { CALLS(X) NULL };
#undef X
#define X(name, ...) { __VA_ARGS__ },
static const int codes[NR_COUNT][5] = { CALLS(X) };
#undef X

char spill_folder[64];
size_t spill_most = SIZE_MAX;
static atomic_ulong counts[NR_COUNT];
static int target = -1, target_code;
static unsigned target_nth;
static bool target_lasts;

static int number(const char *name)
{
	int i;

	for (i = 0; strcmp(name, spill_calls[i]); i++)
		;
	return i;
}

const int *spill_codes(const char *name)
{
	return codes[number(name)];
}

void spill_fault(const char *name, unsigned nth, int code, bool lasting)
{
	int i;

	for (i = 0; i < NR_COUNT; i++)
		atomic_store(&counts[i], 0);
	target = name ? number(name) : -1;
	target_nth = nth;
	target_code = code;
	target_lasts = lasting;
}

unsigned long spill_count(const char *name)
{
	return atomic_load(&counts[number(name)]);
}

static bool strikes(int call)
{
	unsigned long n = atomic_fetch_add(&counts[call], 1) + 1;

	if (call != target ||
	    (n != target_nth && !(target_lasts && n > target_nth)))
		return false;
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

static size_t most(size_t size)
{
	return size < spill_most ? size : spill_most;
}

WRAP(int, unlinkat, (int dir, const char *name, int flags),
     (dir, name, flags), -1)
WRAP(int, faccessat, (int dir, const char *name, int mode, int flags),
     (dir, name, mode, flags), -1)
WRAP(int, fstatvfs, (int fd, struct statvfs *out), (fd, out), -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t size),
     (fd, mode, at, size), -1)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), -1)
WRAP(int, fdatasync, (int fd), (fd), -1)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at),
     (fd, data, most(size), at), -1)
WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t at),
     (fd, data, most(size), at), -1)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)

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

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return strikes(NR_openat) ? -1 :
	       __real_openat(dir, path, flags, mode);
}

/* fstat is one of these, see base/glibc.h. */
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

void spill_set_up(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(spill_folder, sizeof(spill_folder), "%.40s/spill-XXXXXX",
		 base ? base : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(spill_folder));
	vs_config_read();
	vs_config.spill_dir = spill_folder;
}

void spill_tear_down(void)
{
	rmdir(spill_folder);
}

int spill_descriptor(void)
{
	char link[32], path[256];
	ssize_t n;
	int fd;

	for (fd = 0; fd < 256; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, path, sizeof(path) - 1);
		if (n <= 0)
			continue;
		path[n] = 0;
		if (!strncmp(path, spill_folder, strlen(spill_folder)))
			return fd;
	}
	return -1;
}

size_t spill_files(void)
{
	DIR *dir = opendir(spill_folder);
	struct dirent *entry;
	size_t count = 0;

	while ((entry = readdir(dir)))
		count += *entry->d_name != '.' || entry->d_name[1] == 'v';
	closedir(dir);
	return count;
}

void spill_assert_nothing(void)
{
	ck_assert_uint_eq(vs_spill_bytes(), 0);
	ck_assert_int_eq(spill_descriptor(), -1);
}
