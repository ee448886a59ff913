/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice - some pages of a span that is in use, copied out by way of a staging
 * block.
 *
 * The span may be written at any moment.  So its pages are copied to a block
 * of the same device, and what is hashed, compared and copied out is the block:
 * a page that changes meanwhile has another hash at the next look, and no
 * backup has bytes that its hash does not describe.  A page is not valid while
 * its place is written.
 *
 * The steps come in the order of their declaration.  Each queues work at most;
 * whoever calls them waits in between.  The context is pinned and current in
 * RELAXED capture mode, and the span stays mapped until the slice is over.
 */
#ifndef VS_BACKUP_SLICE_H
#define VS_BACKUP_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backup/page_hash.h"
#include "backup/store.h"

#define VS_SLICE_PAGES ((size_t)32)
#define VS_SLICE_BYTES (VS_SLICE_PAGES * VS_PAGE)

struct vs_slice {
	struct vs_store_item item;	/* the span, and its backup */
	CUdeviceptr staging;		/* VS_SLICE_BYTES */
	CUstream stream;		/* of nobody else */
	struct vs_page_hash *hash;	/* for VS_SLICE_PAGES; likewise */
	unsigned pass;			/* that looks at each page once */
	/* from the look on */
	size_t first, count;		/* pages */
	struct vs_page_sum sums[VS_SLICE_PAGES];
	uint8_t todo[VS_SLICE_PAGES];
	/* from the judgement on: pages to copy that have no place, */
	size_t lack;
	bool registers;			/* or one whose block has to be pinned,
					   or that goes back */
	size_t left;			/* bytes that are not copied, for lack
					   of host memory */
};

/* Bytes of @backup, or NULL, that this pass has looked at; it does not look at
 * the rest. */
size_t vs_slice_looked(const struct vs_backup *backup, unsigned pass);
void vs_slice_skip(struct vs_backup *backup, unsigned pass);

/* A backup of @size bytes with nothing in it; NULL: no memory. */
struct vs_backup *vs_slice_backup(size_t size);

/* Copy the next pages to the block, and hash them there. */
enum vs_status vs_slice_look(struct vs_slice *slice, struct vs_why *why);

/* VS_BUSY: what was queued is under way.  Else nothing is any more, also on
 * failure. */
enum vs_status vs_slice_wait(struct vs_slice *slice, struct vs_why *why);

/* What becomes of each page.  With ->lack or ->registers set the next step is
 * to find room, else it is to copy. */
void vs_slice_judge(struct vs_slice *slice);

/* Take host memory, @most bytes, for pages that lack it, prepared by a single
 * thread, and give back what holds zeros.  It is registered, or no longer: no
 * capture may run.  Pages that none can be had for stay as they are. */
void vs_slice_find_room(struct vs_slice *slice, size_t most);

/* Copy out of the block; false: there is nothing to copy. */
bool vs_slice_copy(struct vs_slice *slice, enum vs_status *st,
		   struct vs_why *why);

/* All of it went well: the pages are backed up, and have been looked at. */
void vs_slice_commit(struct vs_slice *slice, struct vs_store_meter *meter);

/* It did not, or shall not go on; nothing is under way.  What was about to be
 * overwritten is lost. */
void vs_slice_undo(struct vs_slice *slice);

#endif
