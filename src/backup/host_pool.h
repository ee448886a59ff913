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
#include <stdint.h>

#include "base/context.h"
#include "base/why.h"

/* Bytes of one block; the last of a list may be smaller. */
#define VS_HOST_BLOCK ((size_t)64 << 20)

/* A list of blocks being prepared. */
struct vs_host_batch;

enum vs_host_ready { VS_HOST_WAITING, VS_HOST_READY, VS_HOST_FAILED };

struct vs_host_block {
	char *base;
	size_t size;
	bool pinned;
	unsigned long context;	/* serial of the one that it is pinned in */
	enum vs_host_ready ready;	/* under the lock until it is */
	int error;		/* errno, where it could not be populated */
	struct vs_host_batch *batch;	/* that prepares it; or NULL */
	uint32_t used;		/* pages that are taken, a bit each; for
				   backup/pages, as the next two */
	struct vs_host_block *next, *prev;	/* others with pages left, or
						   that stay pinned */
};

/* Bytes that may still be taken: VSLEEP_HOST_LIMIT less what is taken, else
 * MemAvailable; never more than the cgroup leaves. */
size_t vs_host_pool_budget(void);

/* Bytes taken now. */
size_t vs_host_pool_taken(void);

/* Count @bytes more, or less, as taken: those that somebody else has moved to
 * the host. */
void vs_host_pool_charge(ptrdiff_t bytes);

/* VS_NOHOST: so many bytes may not be taken. */
enum vs_status vs_host_pool_check(size_t bytes, struct vs_why *why);

/* Map blocks for @bytes, which may be taken, and start preparing them.  Of
 * lists that are prepared at once, @all bytes together, each has its share of
 * the threads.  @context, pinned, registers them.  VS_NOHOST: not to be had,
 * nothing is taken. */
enum vs_status vs_host_pool_prepare(size_t bytes, size_t all,
				    struct vs_context *context,
				    struct vs_host_batch **out,
				    struct vs_why *why);
/* How many blocks of the list are wanted; the one at @index. */
size_t vs_host_pool_count(const struct vs_host_batch *batch);
struct vs_host_block *vs_host_pool_at(struct vs_host_batch *batch,
				      size_t index);
/* Only the first @count are wanted: the others go back at the finish. */
void vs_host_pool_limit(struct vs_host_batch *batch, size_t count);
/* Wait until @block, whether of a list or not, is ready.  VS_NOHOST: it could
 * not be populated. */
enum vs_status vs_host_pool_wait(struct vs_host_block *block,
				 struct vs_why *why);
/* Wait for the threads and free the list; the blocks that are wanted stay. */
void vs_host_pool_finish(struct vs_host_batch *batch);

/* @block is ready; it is pinned, if need be anew, in @context, which is
 * current: the one that it was pinned in may be no more. */
bool vs_host_pool_pinned(struct vs_host_block *block,
			 struct vs_context *context);

/* Around calls that queue copies, of as many threads as there are: the threads
 * that prepare blocks let them pass, and pin nothing meanwhile. */
void vs_host_pool_copy_begin(void);
void vs_host_pool_copy_end(void);

/* What cannot be unpinned stays taken, and is tried again by the next
 * check. */
void vs_host_pool_give_back(struct vs_host_block *block);

#endif
