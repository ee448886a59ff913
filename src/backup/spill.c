/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/spill.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK ((size_t)4096)	/* that O_DIRECT asks for; at most, mostly */

static struct vs_lock spill_lock = VS_LOCK(VS_RANK_POOL);
/* Changed under spill_lock, while no slot is taken. */
static int file = -1;
static int direct = -1;	/* the same without the page cache; -1: cannot */
static struct stat made;	/* what file was when it was made */
/* Under spill_lock. */
static bool *used;	/* slots, of which the file has @length */
static size_t length;
static _Atomic size_t taken;

size_t vs_spill_bytes(void)
{
	return atomic_load(&taken) * VS_PAGE;
}

static enum vs_status unusable(const char *what, struct vs_why *why)
{
	return vs_why_set(why, VS_NOHOST, "VSLEEP_SPILL_DIR=%.128s: %s",
			  vs_config.spill_dir, what);
}

static enum vs_status refuse_folder(const struct stat *st, struct vs_why *why)
{
	if (st->st_uid && st->st_uid != geteuid())
		return unusable("must belong to this user or to root", why);
	if (st->st_mode & S_IWOTH && !(st->st_mode & S_ISVTX))
		return unusable("must not be writable by all (chmod o-w, or "
				"+t)", why);
	return VS_OK;
}

/* The folder, open; a symbolic link to one will do. */
static enum vs_status open_folder(int *out, struct vs_why *why)
{
	enum vs_status st;
	struct stat info;
	int fd;

	if (*vs_config.spill_dir != '/')
		return unusable("must be an absolute path", why);
	do {
		fd = open(vs_config.spill_dir,
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return unusable(errno == ENOENT ? "there must be such a folder"
				: errno == ENOTDIR ? "must be a folder"
				: strerror(errno), why);
	if (fstat(fd, &info))
		st = unusable(strerror(errno), why);
	else
		st = refuse_folder(&info, why);
	if (!st && faccessat(fd, ".", W_OK | X_OK, 0))
		st = unusable(errno == EACCES ? "must be writable" :
			      strerror(errno), why);
	if (st)
		close(fd);
	else
		*out = fd;
	return st;
}

bool vs_spill_wanted(void)
{
	static atomic_bool said;
	struct vs_why why;
	int folder;

	if (!*vs_config.spill_dir)
		return false;
	if (!open_folder(&folder, &why)) {
		close(folder);
		return true;
	}
	if (!atomic_exchange(&said, true))
		vs_log_warn("%s", why.text);
	return false;
}

/* A program may close descriptors that it has not opened, and open others in
 * their place: those are not ours to write to. */
static bool still_ours(int fd)
{
	struct stat now;

	return fd >= 0 && !fstat(fd, &now) && now.st_dev == made.st_dev &&
	       now.st_ino == made.st_ino;
}

static void close_file(void)
{
	if (still_ours(direct))
		close(direct);
	if (still_ours(file))
		close(file);
	direct = file = -1;
	free(used);
	used = NULL;
	length = 0;
}

/* Without this the space would be taken for as long as the child lives.  Frees
 * nothing: a thread that is not here may have been in malloc. */
static void child_forgets(void)
{
	used = NULL;
	close_file();
	atomic_store(&taken, 0);
}

static int make_named(int folder)
{
	char name[64];
	int fd, i;

	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), ".vsleep-%d-%d", (int)getpid(),
			 i);
		fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL |
			    O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 && unlinkat(folder, name, 0)) {
			close(fd);
			return -1;
		}
		if (fd >= 0 || (errno != EEXIST && errno != EINTR))
			return fd;
	}
	return -1;
}

static enum vs_status make_file(struct vs_why *why)
{
	static bool at_fork;
	char self[32];
	enum vs_status st;
	int folder, fd;

	st = open_folder(&folder, why);
	if (st)
		return st;
	fd = openat(folder, ".", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC,
		    0600);
	if (fd < 0)
		fd = make_named(folder);
	if (fd < 0)
		st = unusable(strerror(errno), why);
	close(folder);
	if (!st && fstat(fd, &made)) {
		st = unusable(strerror(errno), why);
		close(fd);
	}
	if (st)
		return st;
	file = fd;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	direct = open(self, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (!at_fork)
		at_fork = !pthread_atfork(NULL, NULL, child_forgets);
	return VS_OK;
}

/* Before anything is changed. */
static enum vs_status check_room(size_t count, struct vs_why *why)
{
	size_t need = count * VS_PAGE, have;
	struct statvfs fs;
	struct rlimit limit;

	if (fstatvfs(file, &fs))
		return unusable(strerror(errno), why);
	have = (size_t)fs.f_bavail * fs.f_frsize;
	if (need > have)
		return vs_why_set(why, VS_NOHOST, "VSLEEP_SPILL_DIR=%.128s: "
				  "need %zu MiB, has %zu MiB",
				  vs_config.spill_dir, need >> 20, have >> 20);
	/* Slots that were freed in the middle are not counted. */
	need += length * VS_PAGE;
	if (!getrlimit(RLIMIT_FSIZE, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY && need > limit.rlim_cur)
		return vs_why_set(why, VS_NOHOST, "VSLEEP_SPILL_DIR=%.128s: "
				  "need a file of %zu MiB, may have %zu MiB "
				  "(RLIMIT_FSIZE)", vs_config.spill_dir,
				  need >> 20, (size_t)limit.rlim_cur >> 20);
	return VS_OK;
}

static int allocate(uint32_t slot, int mode)
{
	int rc;

	do {
		rc = fallocate(file, mode, (off_t)slot * (off_t)VS_PAGE,
			       (off_t)VS_PAGE);
	} while (rc && errno == EINTR);
	return rc;
}

static void release(const uint32_t *slots, size_t count)
{
	bool ours = still_ours(file);
	size_t i, before = length;

	for (i = 0; i < count; i++) {
		if (ours)
			allocate(slots[i], FALLOC_FL_PUNCH_HOLE |
					   FALLOC_FL_KEEP_SIZE);
		used[slots[i]] = false;
	}
	if (!atomic_load(&taken)) {
		close_file();
		return;
	}
	while (length && !used[length - 1])
		length--;
	/* Also where holes cannot be punched. */
	if (ours && length < before &&
	    ftruncate(file, (off_t)length * (off_t)VS_PAGE))
		vs_log_debug("VSLEEP_SPILL_DIR=%s: truncate failed: %s",
			     vs_config.spill_dir, strerror(errno));
}

static enum vs_status claim(size_t count, uint32_t *slots, struct vs_why *why)
{
	size_t i, slot = 0;

	for (i = 0; i < count; i++) {
		while (used[slot])
			slot++;
		if (slot >= length)
			length = slot + 1;
		slots[i] = (uint32_t)slot;
		used[slot] = true;
		if (!allocate(slots[i], 0) || errno == EOPNOTSUPP)
			continue;
		unusable(strerror(errno), why);
		release(slots, i + 1);
		return VS_NOHOST;
	}
	return VS_OK;
}

enum vs_status vs_spill_take(size_t count, uint32_t *slots,
			     struct vs_why *why)
{
	enum vs_status st = VS_OK;
	bool *grown;

	if (!count)
		return VS_OK;
	vs_lock_take(&spill_lock);
	if (file < 0)
		st = make_file(why);
	else if (!still_ours(file))
		st = unusable("the program has closed the file", why);
	if (st)
		goto out;
	if (count > UINT32_MAX - length)
		st = unusable("no file is that large", why);
	else
		st = check_room(count, why);
	if (st)
		goto close;
	grown = realloc(used, length + count);
	if (!grown) {
		st = unusable("no memory for a list", why);
		goto close;
	}
	used = grown;
	memset(used + length, 0, count);
	st = claim(count, slots, why);
	if (!st)
		atomic_fetch_add(&taken, count);
close:
	if (!atomic_load(&taken))
		close_file();
out:
	vs_lock_drop(&spill_lock);
	return st;
}

void vs_spill_free(const uint32_t *slots, size_t count)
{
	if (!count)
		return;
	vs_lock_take(&spill_lock);
	atomic_fetch_sub(&taken, count);
	release(slots, count);
	vs_lock_drop(&spill_lock);
}

static ssize_t transfer(int fd, bool out, char *data, size_t size, off_t at)
{
	return out ? pwrite(fd, data, size, at) : pread(fd, data, size, at);
}

/* What @fd moves of it until that fails, or the file ends. */
static size_t transfer_all(int fd, bool out, char *data, size_t size,
			   off_t at)
{
	size_t moved = 0;
	ssize_t n;

	while (moved < size) {
		n = transfer(fd, out, data + moved, size - moved,
			     at + (off_t)moved);
		if (n < 0 && errno == EINTR)
			continue;
		if (!n)
			errno = EIO;
		if (n <= 0)
			break;
		moved += (size_t)n;
	}
	return moved;
}

/*
 * Past the page cache in whole blocks.  What that leaves, for whatever
 * reason, goes through it: a true error comes back there.
 */
static enum vs_status move(uint32_t slot, bool out, char *data, size_t size,
			   struct vs_why *why)
{
	off_t at = (off_t)slot * (off_t)VS_PAGE;
	size_t moved = 0;

	if (!((uintptr_t)data % BLOCK) && size >= BLOCK && still_ours(direct))
		moved = transfer_all(direct, out, data, size / BLOCK * BLOCK,
				     at) / BLOCK * BLOCK;
	if (moved == size)
		return VS_OK;
	if (!still_ours(file))
		return unusable("the program has closed the file", why);
	moved += transfer_all(file, out, data + moved, size - moved,
			      at + (off_t)moved);
	/* The cache could lose it later, and tell nobody. */
	if (moved == size && (!out || !fdatasync(file)))
		return VS_OK;
	return vs_why_set(why, VS_NOHOST, "VSLEEP_SPILL_DIR=%.128s: %s failed: "
			  "%s", vs_config.spill_dir, out ? "write" : "read",
			  strerror(errno));
}

enum vs_status vs_spill_write(uint32_t slot, const void *data, size_t size,
			      struct vs_why *why)
{
	return move(slot, true, (char *)(uintptr_t)data, size, why);
}

enum vs_status vs_spill_read(uint32_t slot, void *data, size_t size,
			     struct vs_why *why)
{
	return move(slot, false, data, size, why);
}
