/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_pool - blocks of host memory: mapped, populated, pinned, given back.
 *
 * Blocks are prepared by threads in the order of the list while the first
 * ones are already in use.  They are left out of forks and core dumps.  A
 * block that cannot be pinned is used pageable.  Knows nothing of segments.
 * Rank POOL.
 */
#ifndef VS_BACKUP_HOST_POOL_H
#define VS_BACKUP_HOST_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/context.h"
#include "base/why.h"

/* Bytes of one block; the last of a list may be smaller. */
#define VS_HOST_BLOCK ((size_t)64 << 20)

struct vs_host_block {
	char *base;
	size_t size;
	bool pinned;
	unsigned long context;	/* serial of the one that it is pinned in */
	unsigned pieces;	/* backups that lie in it; under the caller's
				   lock */
	struct vs_host_block *next;	/* of those that stay pinned */
};

/* Bytes that may still be taken: VSLEEP_HOST_LIMIT less what is taken, else
 * MemAvailable; never more than the cgroup leaves. */
size_t vs_host_pool_budget(void);

/* Bytes taken now. */
size_t vs_host_pool_taken(void);

/* Count @bytes more, or less, as taken: those that somebody else has moved to
 * the host. */
void vs_host_pool_charge(ptrdiff_t bytes);

/* A list of blocks being prepared; @context, pinned, registers them. */
struct vs_host_batch;

/* VS_NOHOST: so many bytes may not be taken. */
enum vs_status vs_host_pool_check(size_t bytes, struct vs_why *why);

/* Map blocks for @bytes, which were checked, and start preparing them.  Of
 * lists that are prepared at once, @all bytes together, each has its share of
 * the threads.  VS_NOHOST: not to be had, nothing is taken. */
enum vs_status vs_host_pool_prepare(size_t bytes, size_t all,
				    struct vs_context *context,
				    struct vs_host_batch **out,
				    struct vs_why *why);
/* Wait for block @index; NULL with @why when it could not be populated. */
struct vs_host_block *vs_host_pool_wait(struct vs_host_batch *batch,
					size_t index, struct vs_why *why);
/* Wait for the threads and free the list; the blocks stay, or with @undo are
 * given back. */
void vs_host_pool_finish(struct vs_host_batch *batch, bool undo);

/* What cannot be unpinned stays taken, and is tried again by the next
 * check. */
void vs_host_pool_give_back(struct vs_host_block *block);

#endif
