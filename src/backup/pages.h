/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages - which pages of the host blocks are taken.
 *
 * A block goes back with its last page.  Pages of blocks that are being
 * prepared are not here yet.  Rank STORE.
 */
#ifndef VS_BACKUP_PAGES_H
#define VS_BACKUP_PAGES_H

#include "backup/host_pool.h"
#include "backup/page_hash.h"

/* Pages that a block has. */
static inline uint32_t vs_pages_in(const struct vs_host_block *block)
{
	return (uint32_t)(block->size / VS_PAGE);
}

/* @block is prepared: what is not used of it may be taken from now on. */
void vs_pages_join(struct vs_host_block *block);

/* How many may be taken. */
size_t vs_pages_left(void);

/* Take one, the next in its block where that is possible; false: none. */
bool vs_pages_take(struct vs_host_block **block, uint32_t *index);

/* It is free again; from any thread. */
void vs_pages_drop(struct vs_host_block *block, uint32_t index);

#endif
