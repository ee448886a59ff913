/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_plan - what saving, loading and verifying have in common: items
 * shared out to lanes, one for each device, that work side by side.
 */
#ifndef VS_BACKUP_STORE_PLAN_H
#define VS_BACKUP_STORE_PLAN_H

#include <stdatomic.h>

#include "backup/backup.h"
#include "backup/page_hash.h"
#include "backup/pipeline.h"
#include "backup/ring.h"
#include "base/lock.h"

/* A device beyond the last lane shares that one. */
#define VS_STORE_LANES 16

/* The items of one device, in their order. */
struct vs_store_lane {
	CUdevice device;
	struct vs_store_plan *plan;
	struct vs_pipeline pipeline;
	struct vs_context *context;	/* of its first item */
	size_t pages;			/* of its items */
	size_t need;			/* pages that still need a place */
	bool blind;			/* what some pages are cannot be told */
	struct vs_ring *ring;		/* NULL: none yet, or no longer */
	bool ringless;			/* it could not be had */
	pthread_t thread;
	bool threaded;
	struct vs_host_batch *batch;	/* being prepared for those; or NULL */
};

struct vs_store_plan {
	struct vs_store_item *items;
	size_t count;
	size_t *first;			/* of an item, its first page in sums;
					   one more: how many */
	struct vs_page_sum *sums;	/* what the pages are on the device */
	uint8_t *todo;			/* what becomes of a page */
	uint32_t *slots;		/* of the spill, for pages without host
					   memory */
	size_t slot_count, slot_next;
	struct vs_store_meter *meter;
	vs_store_ready *ready;
	void *arg;
	struct vs_store_lane lanes[VS_STORE_LANES];
	size_t lane_count;
	struct vs_lock lock;
	atomic_bool stop;
	enum vs_status status;		/* of the first failure; under lock */
	struct vs_why why;		/* likewise */
};

/* Share out; with @pages there is room for what each page is. */
enum vs_status vs_store_plan_begin(struct vs_store_plan *plan,
				   struct vs_store_item *items, size_t count,
				   struct vs_store_meter *meter, bool pages,
				   struct vs_why *why);
void vs_store_plan_end(struct vs_store_plan *plan);

/* The lane of item @index; it is @lane. */
struct vs_store_lane *vs_store_plan_lane(struct vs_store_plan *plan,
					 size_t index);
bool vs_store_plan_has(const struct vs_store_lane *lane, size_t index);

/* One step of all lanes, side by side; a failure of one stops the others
 * where they look at plan->stop.  No copy is in flight when it returns. */
typedef enum vs_status vs_store_step(struct vs_store_lane *lane,
				     struct vs_why *why);
enum vs_status vs_store_plan_run(struct vs_store_plan *plan,
				 vs_store_step *step, struct vs_why *why);

/* The lane's copies are in @context from now on.  Where those of the context
 * before have failed the lane has, whatever the caller makes of that. */
enum vs_status vs_store_enter(struct vs_store_lane *lane,
			      struct vs_context *context, struct vs_why *why);

/* A ring in that context, made when it is first needed; NULL: it cannot be. */
struct vs_ring *vs_store_ring(struct vs_store_lane *lane, struct vs_why *why);

/* The bytes of @n pages of an item, from page @i on. */
static inline size_t vs_store_bytes_of(const struct vs_store_item *item,
				       size_t i, size_t n)
{
	size_t rest = item->size - i * VS_PAGE;

	return n * VS_PAGE < rest ? n * VS_PAGE : rest;
}

/* The far side of a page that goes by way of the ring. */
struct vs_far vs_store_far(const struct vs_page *page);

enum vs_status vs_store_copy_failed(struct vs_why *why, CUresult rc,
				    const char *what,
				    const struct vs_store_item *item);

#endif
