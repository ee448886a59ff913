/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/pages.h"
#include "base/lock.h"

_Static_assert(VS_HOST_BLOCK / VS_PAGE == 32, "a bit for each page");

static struct vs_lock pages_lock = VS_LOCK(VS_RANK_STORE);
static struct vs_host_block *partly;	/* with pages left; under the lock, */
static size_t left;			/* likewise: those pages */

static uint32_t all(const struct vs_host_block *block)
{
	return (uint32_t)(((uint64_t)1 << vs_pages_in(block)) - 1);
}

static void link_block(struct vs_host_block *block)
{
	block->prev = NULL;
	block->next = partly;
	if (partly)
		partly->prev = block;
	partly = block;
}

static void unlink_block(struct vs_host_block *block)
{
	if (block->prev)
		block->prev->next = block->next;
	else
		partly = block->next;
	if (block->next)
		block->next->prev = block->prev;
	block->next = block->prev = NULL;
}

void vs_pages_join(struct vs_host_block *block)
{
	uint32_t missing = all(block) & ~block->used;

	vs_lock_take(&pages_lock);
	left += (size_t)__builtin_popcount(missing);
	if (missing)
		link_block(block);
	vs_lock_drop(&pages_lock);
}

size_t vs_pages_left(void)
{
	size_t count;

	vs_lock_take(&pages_lock);
	count = left;
	vs_lock_drop(&pages_lock);
	return count;
}

bool vs_pages_take(struct vs_host_block **block, uint32_t *index)
{
	struct vs_host_block *b;

	vs_lock_take(&pages_lock);
	b = partly;
	if (b) {
		*block = b;
		*index = (uint32_t)__builtin_ctz(~b->used);
		b->used |= (uint32_t)1 << *index;
		left--;
		if (b->used == all(b))
			unlink_block(b);
	}
	vs_lock_drop(&pages_lock);
	return b != NULL;
}

void vs_pages_drop(struct vs_host_block *block, uint32_t index)
{
	bool last;

	vs_lock_take(&pages_lock);
	if (block->used == all(block))
		link_block(block);
	block->used &= ~((uint32_t)1 << index);
	left++;
	last = !block->used;
	if (last) {
		unlink_block(block);
		left -= vs_pages_in(block);
	}
	vs_lock_drop(&pages_lock);
	if (last)
		vs_host_pool_give_back(block);
}
