/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: one sparse file, of which every allocation has a stretch of
 * its own that is never used twice, and addresses at which stretches of it
 * are mapped.
 */
#include "sim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_SIZE	((off_t)1 << 50)
#define DIRT		((size_t)64 << 10)

static int fd = -1;
static off_t next_off;
static uint64_t fills;

void sim_phys_open(void)
{
	fd = memfd_create("sim-device-memory", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, FILE_SIZE) != 0) {
		fprintf(stderr, "sim: memory file: %s\n", strerror(errno));
		abort();
	}
	next_off = 0;
}

void sim_phys_close(void)
{
	close(fd);
	fd = -1;
}

int sim_phys_fd(void)
{
	return fd;
}

off_t sim_phys_new(size_t size)
{
	off_t off = next_off;

	next_off += (off_t)((size + SIM_BLOCK - 1) & ~(SIM_BLOCK - 1));
	return off;
}

/* What the last user left: 0xd1 in each odd byte, a count in the others. */
static uint64_t dirt(void)
{
	uint64_t n = ++fills & 0xff;

	return 0xd100d100d100d100u | n | n << 16 | n << 32 | n << 48;
}

void sim_fill_dirty(void *p, size_t len)
{
	uint64_t word = dirt();
	unsigned char *c = p;
	size_t n;

	if (!sim_config.dirty)
		return;
	for (n = 0; n < len && n < sizeof(word); n++)
		c[n] = (unsigned char)(word >> n * 8);
	for (; n < len; n *= 2)
		memcpy(c + n, c, len - n < n ? len - n : n);
}

/* Drops the lock while it writes; nobody may know the stretch yet. */
void sim_phys_dirty(off_t off, size_t size)
{
	uint64_t buf[DIRT / sizeof(uint64_t)], word = dirt();
	size_t i;

	if (!sim_config.dirty)
		return;
	pthread_mutex_unlock(&sim_lock);
	for (i = 0; i < DIRT / sizeof(*buf); i++)
		buf[i] = word;
	while (size) {
		ssize_t n = pwrite(fd, buf, size < DIRT ? size : DIRT, off);

		if (n <= 0)
			break;
		off += n;
		size -= (size_t)n;
	}
	pthread_mutex_lock(&sim_lock);
}

void sim_phys_punch(off_t off, size_t size)
{
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
		  (off_t)size);
}

/* Addresses with nothing behind; 0 when there are none. */
uintptr_t sim_space_new(size_t size, size_t align, uintptr_t hint)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uintptr_t at, base;
	void *p;

	if (hint) {
		p = mmap((void *)hint, size, PROT_NONE,
			 flags | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == (void *)hint)
			return hint;
		if (p != MAP_FAILED)
			munmap(p, size);
	}
	if (size + align < size)
		return 0;
	p = mmap(NULL, size + align, PROT_NONE, flags, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	at = (uintptr_t)p;
	base = (at + align - 1) & ~(align - 1);
	if (base > at)
		munmap(p, base - at);
	if (at + align > base)
		munmap((void *)(base + size), at + align - base);
	return base;
}

bool sim_space_map(uintptr_t at, size_t size, int from, off_t off, int prot)
{
	void *p = mmap((void *)at, size, prot, MAP_SHARED | MAP_FIXED, from,
		       off);

	if (p == MAP_FAILED)
		return false;
	/* a child does not see the device's memory */
	madvise(p, size, MADV_DONTFORK);
	return true;
}

void sim_space_clear(uintptr_t at, size_t size)
{
	mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
	     MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void sim_space_free(uintptr_t at, size_t size)
{
	munmap((void *)at, size);
}
