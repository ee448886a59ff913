/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store - where a span's bytes are while it has no device memory.
 *
 * A backup has the bytes of one span in pages of host memory.  It may be kept
 * when the span has been loaded: the next save then copies only the pages
 * whose hash has changed.  Pages that are zero are not copied, either way.
 * Saving and loading are plans over many spans; a plan either completes or
 * leaves all spans as they were.  Devices are worked on side by side, each by
 * a thread (the first by the caller's), and its spans in their order.  Maps no
 * device memory.  Rank STORE.
 */
#ifndef VS_BACKUP_STORE_H
#define VS_BACKUP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "base/cuda.h"
#include "base/why.h"

struct vs_backup;

struct vs_store_item {
	CUdeviceptr base;
	size_t size;
	struct vs_context *context;	/* pinned; copies run in it */
	struct vs_backup *backup;	/* save: in, an earlier one or NULL, and
					   out.  load: in; NULL: zeros */
};

/* Where a plan is, for progress, and what it has done; bytes.  It begins with
 * zeros. */
struct vs_store_meter {
	_Atomic uint64_t done;
	_Atomic uint64_t copied;
	_Atomic uint64_t pageable;	/* copied, but could not be pinned */
	_Atomic uint64_t unchanged;	/* save: the backup had them */
	_Atomic uint64_t zero;		/* not copied, since all zero */
};

/* Copy out what the backups do not have.  Device memory must be at rest.  On
 * failure, of which the first is told, backups that were there are still, with
 * what is unharmed of them; the others are NULL, and no more host memory is
 * taken than before. */
enum vs_status vs_store_save(struct vs_store_item *items, size_t count,
			     struct vs_store_meter *meter,
			     struct vs_why *why);

/* Makes the memory of item @index ready to be written; on the thread of its
 * device, with the item's context current. */
typedef enum vs_status vs_store_ready(void *arg, size_t index,
				      struct vs_why *why);

/* Copy all items back, zeros where there is no backup; @ready is called for
 * each before its copies, while those of the ones before it run.  Returns
 * with every copy finished, also on failure; backups are kept either way. */
enum vs_status vs_store_load(struct vs_store_item *items, size_t count,
			     vs_store_ready *ready, void *arg,
			     struct vs_store_meter *meter,
			     struct vs_why *why);

/* What a look at loaded items has found; bytes. */
struct vs_store_verdict {
	uint64_t verified;
	uint64_t unverified;	/* nothing is known to compare them with */
	bool differs;		/* this page of this item does, the first */
	size_t item, page;
};

/* Compare what items are on the device, loaded and at rest, with what their
 * backups were when they were saved.  Pages that cannot be looked at, for lack
 * of device memory say, are said in the log and are unverified.  VS_CUDA with
 * @out->differs: one is not the same.  Changes nothing. */
enum vs_status vs_store_verify(struct vs_store_item *items, size_t count,
			       struct vs_store_meter *meter,
			       struct vs_store_verdict *out,
			       struct vs_why *why);

/* Give a backup's host memory back; NULL is fine. */
void vs_store_drop(struct vs_backup *backup);

/* Host memory that a save of @size bytes takes at most, beside what @backup,
 * or NULL, has. */
size_t vs_store_need(const struct vs_backup *backup, size_t size);

/* Host memory that a backup holds, bytes; NULL: none.  And all of them. */
size_t vs_store_held(const struct vs_backup *backup);
size_t vs_store_bytes(void);

#endif
