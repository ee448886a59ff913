/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup - the bytes of one span, page by page; for the files of backup/.
 *
 * The hash of a page describes the bytes at its place, never those on the
 * device.  Only the thread of the operation changes a backup; how much it
 * holds may be asked by any.
 */
#ifndef VS_BACKUP_BACKUP_H
#define VS_BACKUP_BACKUP_H

#include <stdatomic.h>

#include "backup/pages.h"
#include "backup/store.h"

enum vs_place {
	VS_PLACE_NONE,
	VS_PLACE_HOST,	/* page @index of @block */
	VS_PLACE_FILE,	/* slot @index of the spill */
	VS_PLACE_ZERO,	/* nowhere: all its bytes are zero */
};

struct vs_page {
	uint64_t hash[2];
	struct vs_host_block *block;
	uint32_t index;
	uint8_t place;		/* enum vs_place */
	bool valid;		/* the bytes are there, */
	bool hashed;		/* and this is their hash */
};

struct vs_backup {
	size_t size;
	size_t count;
	bool saved;		/* its owner knows of it: saved once, or made
				   ahead of that */
	_Atomic size_t held;	/* bytes of pages that are in host memory */
	unsigned pass;		/* of backup/slice: the last one, and */
	size_t looked;		/* pages that it has looked at */
	struct vs_page pages[];
};

/* For @size bytes, with no page anywhere; NULL: no memory. */
struct vs_backup *vs_backup_make(size_t size);

/* The bytes of page @i. */
size_t vs_backup_page_size(const struct vs_backup *backup, size_t i);

/* Page @i, which has no place, gets one, taken for it. */
void vs_backup_place(struct vs_backup *backup, size_t i,
		     struct vs_host_block *block, uint32_t index);
void vs_backup_place_in_file(struct vs_backup *backup, size_t i,
			     uint32_t slot);
/* It has one. */
static inline bool vs_backup_placed(const struct vs_page *page)
{
	return page->place == VS_PLACE_HOST || page->place == VS_PLACE_FILE;
}

/* The page @n behind it is also @n behind it in host memory. */
static inline bool vs_backup_follows(const struct vs_page *page, size_t n)
{
	return page->place == VS_PLACE_HOST &&
	       page[n].place == VS_PLACE_HOST &&
	       page[n].block == page->block &&
	       page[n].index == page->index + n;
}

/* Its place has the bytes that @sum describes; never true of zeros. */
static inline bool vs_backup_same(const struct vs_page *page,
				  const struct vs_page_sum *sum)
{
	return page->valid && page->hashed && page->place != VS_PLACE_ZERO &&
	       page->hash[0] == sum->hash[0] && page->hash[1] == sum->hash[1];
}

/* From now on it has. */
static inline void vs_backup_set(struct vs_page *page,
				 const struct vs_page_sum *sum)
{
	page->hash[0] = sum->hash[0];
	page->hash[1] = sum->hash[1];
	page->hashed = true;
	page->valid = true;
}

/* Its place is given up, and what is known of its bytes. */
void vs_backup_clear(struct vs_backup *backup, size_t i);

#endif
