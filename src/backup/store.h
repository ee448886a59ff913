/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store - where a span's bytes are while it has no device memory.
 *
 * A backup is a list of pieces in host blocks.  Saving and loading are plans
 * over many spans; a plan either completes or leaves everything as it was.
 * Devices are worked on side by side, each by a thread (the first by the
 * caller's), and its spans in their order.  Maps no device memory.  Rank
 * STORE.
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
	struct vs_backup *backup;	/* save: out.  load: in; NULL: zeros */
};

/* Where a plan is, for progress. */
struct vs_store_meter {
	_Atomic uint64_t done;		/* bytes */
	_Atomic uint64_t pageable;	/* bytes that could not be pinned */
};

/* Copy all items out.  Device memory must be at rest.  On failure, of which
 * the first is told, every backup is NULL and no host memory is taken. */
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

/* Give a backup's host memory back; NULL is fine. */
void vs_store_drop(struct vs_backup *backup);

/* Bytes that live backups hold. */
size_t vs_store_bytes(void);

#endif
