/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of each device, shared between processes through a file where one
 * is named.  The file lock goes with its holder, so a killed process leaves
 * nothing locked; its row is dropped by whoever looks next.
 */
#include "sim_internal.h"
#include "sim_share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWS	SIM_SHARE_ROWS

static struct sim_row *rows;	/* ROWS of them, shared; under flock */
static struct sim_row *mine;
static int share_fd = -1;

static void lock(void)
{
	while (flock(share_fd, LOCK_EX) != 0 && errno == EINTR)
		;
}

static void unlock(void)
{
	flock(share_fd, LOCK_UN);
}

static void die(const char *path)
{
	fprintf(stderr, "sim: VSLEEP_SIM_SHARE=%s: %s\n", path,
		strerror(errno));
	abort();
}

void sim_share_open(const char *path)
{
	size_t len = ROWS * sizeof(*rows), i;

	share_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (share_fd < 0)
		die(path);
	lock();
	if (ftruncate(share_fd, (off_t)len) != 0)
		die(path);
	rows = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, share_fd,
		    0);
	if (rows == MAP_FAILED)
		die(path);
	for (i = 0; i < ROWS && !mine; i++)
		if (rows[i].pid == 0 ||
		    sim_share_born(rows[i].pid) != rows[i].born)
			mine = &rows[i];
	if (!mine) {
		errno = ENOSPC;
		die(path);
	}
	memset(mine, 0, sizeof(*mine));
	mine->pid = getpid();
	mine->born = sim_share_born(mine->pid);
	unlock();
}

void sim_share_close(void)
{
	if (share_fd < 0)
		return;
	lock();
	memset(mine, 0, sizeof(*mine));
	unlock();
	munmap(rows, ROWS * sizeof(*rows));
	close(share_fd);
	mine = rows = NULL;
	share_fd = -1;
}

/* Under flock. */
static size_t used_by_others(int dev)
{
	size_t sum = 0, i;

	for (i = 0; i < ROWS; i++) {
		struct sim_row *r = &rows[i];

		if (r->pid == 0 || r == mine)
			continue;
		if (sim_share_born(r->pid) != r->born)
			memset(r, 0, sizeof(*r));
		sum += r->used[dev];
	}
	return sum;
}

/* What others have taken of our reserve is gone, as our row says. */
static void begin(int dev)
{
	struct sim_device *d = &sim_device[dev];
	size_t gone;

	if (!rows)
		return;
	lock();
	gone = d->reserve - mine->reserve[dev];
	d->reserve -= gone;
	d->used -= gone;
}

static void end(int dev)
{
	if (!rows)
		return;
	mine->used[dev] = sim_device[dev].used;
	mine->reserve[dev] = sim_device[dev].reserve;
	unlock();
}

/* Up to @bytes, in whole blocks, of what one keeps in reserve. */
static size_t seize(size_t *used, size_t *reserve, size_t bytes)
{
	size_t n = (bytes + SIM_BLOCK - 1) / SIM_BLOCK * SIM_BLOCK;

	if (n > *reserve)
		n = *reserve;
	*reserve -= n;
	*used -= n;
	return n < bytes ? n : bytes;
}

/* Between begin and end, as all of it. */
static void evict(int dev, size_t bytes)
{
	struct sim_device *d = &sim_device[dev];
	size_t i;

	bytes -= seize(&d->used, &d->reserve, bytes);
	for (i = 0; rows && bytes && i < ROWS; i++)
		if (rows[i].pid && &rows[i] != mine)
			bytes -= seize(&rows[i].used[dev],
				       &rows[i].reserve[dev], bytes);
}

size_t sim_used_by_all(int dev)
{
	size_t used;

	begin(dev);
	used = sim_device[dev].used;
	if (rows)
		used += used_by_others(dev);
	end(dev);
	return used;
}

/* Memory kept in reserve goes to who needs some. */
CUresult sim_take(int dev, size_t bytes)
{
	CUresult rc = CUDA_SUCCESS;
	struct sim_device *d;
	size_t used, others;

	if (dev < 0)
		return CUDA_SUCCESS;
	d = &sim_device[dev];
	sim_export_settle();
	begin(dev);
	others = rows ? used_by_others(dev) : 0;
	used = d->used + others;
	if (bytes <= d->limit && used > d->limit - bytes) {
		evict(dev, used - (d->limit - bytes));
		others = rows ? used_by_others(dev) : 0;
		used = d->used + others;
	}
	if (bytes > d->limit || used > d->limit - bytes)
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	else
		d->used += bytes;
	end(dev);
	return rc;
}

void sim_give(int dev, size_t bytes)
{
	if (dev < 0)
		return;
	begin(dev);
	sim_device[dev].used -= bytes;
	end(dev);
}

/* Taken bytes go there, */
void sim_reserve_put(int dev, size_t bytes)
{
	begin(dev);
	sim_device[dev].reserve += bytes;
	end(dev);
}

/* and are taken again; false when somebody has got them. */
bool sim_reserve_take(int dev, size_t bytes)
{
	bool there;

	begin(dev);
	there = sim_device[dev].reserve >= bytes;
	if (there)
		sim_device[dev].reserve -= bytes;
	end(dev);
	return there;
}
