/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that other processes may map.
 *
 * An exported descriptor is the memory file, opened anew, with its position on
 * a page that says which stretch is meant and which processes imported it.
 */
#include "sim_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC	UINT64_C(0x7673696d73686172)
#define PAGE	((size_t)4096)
#define USERS	16

struct sim_shared {
	uint64_t magic;
	off_t self;			/* where this page is */
	off_t off;
	size_t size;
	int dev;
	CUmemAllocationProp prop;
	atomic_int users[USERS];	/* processes that imported it */
};

_Static_assert(sizeof(struct sim_shared) <= PAGE, "one page");

/* Our memory that is released here but still used elsewhere. */
struct lingering {
	struct lingering *next;
	struct sim_phys *phys;
};

static struct lingering *lingering;

/* Describe a stretch of our memory file. */
static struct sim_shared *shared_new(off_t off, size_t size, int dev)
{
	off_t self = sim_phys_new(PAGE);
	struct sim_shared *s;

	s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, sim_phys_fd(),
		 self);
	if (s == MAP_FAILED)
		return NULL;
	madvise(s, PAGE, MADV_DONTFORK);
	s->magic = MAGIC;
	s->self = self;
	s->off = off;
	s->size = size;
	s->dev = dev;
	return s;
}

/* The description that a descriptor of a memory file has at this place. */
static struct sim_shared *shared_map(int fd, off_t at)
{
	struct sim_shared *s;
	struct stat st;

	if (at < 0 || at % (off_t)PAGE || fstat(fd, &st) != 0 ||
	    !S_ISREG(st.st_mode) || at + (off_t)PAGE > st.st_size)
		return NULL;
	s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
	if (s == MAP_FAILED)
		return NULL;
	madvise(s, PAGE, MADV_DONTFORK);
	if (s->magic == MAGIC && s->self == at)
		return s;
	munmap(s, PAGE);
	return NULL;
}

static void shared_unmap(struct sim_shared *s)
{
	munmap(s, PAGE);
}

static bool shared_enter(struct sim_shared *s)
{
	int me = getpid(), i;

	for (i = 0; i < USERS; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&s->users[i], &none, me))
			return true;
	}
	return false;
}

static void shared_leave(struct sim_shared *s)
{
	int i;

	for (i = 0; i < USERS; i++) {
		int me = getpid();

		if (atomic_compare_exchange_strong(&s->users[i], &me, 0))
			return;
	}
}

/* A descriptor of this process that means this memory. */
static bool open_here(const struct sim_shared *s)
{
	struct stat ours, st;
	struct dirent *e;
	bool found = false;
	DIR *dir;

	if (fstat(sim_phys_fd(), &ours) != 0)
		return false;
	dir = opendir("/proc/self/fd");
	while (dir && !found && (e = readdir(dir)) != NULL) {
		int fd = atoi(e->d_name);

		found = fd != sim_phys_fd() && fstat(fd, &st) == 0 &&
			st.st_ino == ours.st_ino && st.st_dev == ours.st_dev &&
			lseek(fd, 0, SEEK_CUR) == s->self;
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool used_elsewhere(struct sim_shared *s)
{
	int i;

	for (i = 0; i < USERS; i++) {
		int pid = atomic_load(&s->users[i]);

		if (pid && kill(pid, 0) != 0 && errno == ESRCH)
			atomic_store(&s->users[i], 0);
		else if (pid)
			return true;
	}
	return open_here(s);
}

static bool listed(const struct sim_phys *p)
{
	struct lingering *l;

	for (l = lingering; l && l->phys != p; l = l->next)
		;
	return l != NULL;
}

/* Nothing here names the memory: may it go?  If not, it is looked at again. */
bool sim_shared_busy(struct sim_phys *p)
{
	struct lingering *l;

	if (!p->shared || p->imported || !used_elsewhere(p->shared))
		return false;
	if (listed(p))
		return true;
	l = malloc(sizeof(*l));
	if (l) {
		l->phys = p;
		l->next = lingering;
		lingering = l;
	}
	return true;
}

void sim_export_settle(void)
{
	struct lingering **l = &lingering;

	while (*l) {
		struct lingering *one = *l;
		struct sim_phys *p = one->phys;

		if (!p->refs && !p->maps && used_elsewhere(p->shared)) {
			l = &one->next;
			continue;
		}
		*l = one->next;
		free(one);
		sim_phys_settle(p);
	}
}

void sim_shared_drop(struct sim_phys *p)
{
	if (p->imported)
		shared_leave(p->shared);
	else
		sim_phys_punch(p->shared->self, PAGE);
	shared_unmap(p->shared);
	p->shared = NULL;
}

static int open_again(int fd, off_t at)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0)
		lseek(again, at, SEEK_SET);
	return again;
}

SIM_API(cuMemExportToShareableHandle,
	(void *out, CUmemGenericAllocationHandle handle,
	 CUmemAllocationHandleType type, unsigned long long flags))
{
	struct sim_phys *p;
	int fd;

	SIM_ENTER(cuMemExportToShareableHandle);
	p = sim_handle_get(handle, SIM_PHYS);
	if (!p)
		sim_bad("export of handle %#llx that is not alive", handle);
	if (!out || flags || !p || p->imported ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(p->prop.requestedHandleTypes & type))
		return CUDA_ERROR_INVALID_VALUE;
	if (!p->shared) {
		p->shared = shared_new(p->off, p->size, p->dev);
		if (!p->shared)
			return CUDA_ERROR_OUT_OF_MEMORY;
		p->shared->prop = p->prop;
	}
	fd = open_again(sim_phys_fd(), p->shared->self);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

SIM_API(cuMemImportFromShareableHandle,
	(CUmemGenericAllocationHandle *out, void *os_handle,
	 CUmemAllocationHandleType type))
{
	int from = (int)(intptr_t)os_handle;
	struct sim_shared *s;
	struct sim_phys *p;

	SIM_ENTER(cuMemImportFromShareableHandle);
	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	s = shared_map(from, lseek(from, 0, SEEK_CUR));
	if (!s)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->dev >= sim_config.devices || !shared_enter(s)) {
		shared_unmap(s);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	p = sim_phys_create(s->dev, s->size, &s->prop);
	if (!p)
		goto undo_enter;
	p->off = s->off;
	p->imported = true;
	p->shared = s;
	p->fd = fcntl(from, F_DUPFD_CLOEXEC, 0);
	*out = p->handle;
	return CUDA_SUCCESS;

undo_enter:
	shared_leave(s);
	shared_unmap(s);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
