/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/host_pool.h"
#include "backup/pipeline.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>

struct piece {
	struct vs_host_block *block;
	size_t at;	/* offset in the block */
	size_t size;
};

struct vs_backup {
	size_t size;
	size_t count;
	struct piece pieces[];
};

static struct vs_lock store_lock = VS_LOCK(VS_RANK_STORE);
static _Atomic size_t stored;

size_t vs_store_bytes(void)
{
	return atomic_load(&stored);
}

void vs_store_drop(struct vs_backup *backup)
{
	struct vs_host_block *block;
	bool last;
	size_t i;

	if (!backup)
		return;
	for (i = 0; i < backup->count; i++) {
		block = backup->pieces[i].block;
		vs_lock_take(&store_lock);
		last = !--block->pieces;
		vs_lock_drop(&store_lock);
		if (last)
			vs_host_pool_give_back(block);
	}
	atomic_fetch_sub(&stored, backup->size);
	free(backup);
}

static enum vs_status copy_failed(struct vs_why *why, CUresult rc,
				  const char *what,
				  const struct vs_store_item *item)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "%s 0x%llx, %zu MiB: %s", what,
			  item->base, item->size >> 20,
			  vs_driver_error(rc, error, sizeof(error)));
}

#define LANES 16

/* The items of one device, in their order; a device beyond the last lane
 * shares that one. */
struct lane {
	CUdevice device;
	struct plan *plan;
	struct vs_pipeline pipeline;
	struct vs_context *context;	/* of its first item */
	size_t total;			/* bytes */
	pthread_t thread;
	bool threaded;
	/* saving: blocks are filled one after the other */
	struct vs_host_batch *batch;
	size_t index;			/* of the block being filled */
	size_t at;			/* offset in it */
};

/* One save or load: the lanes work side by side, and stop when one fails. */
struct plan {
	struct vs_store_item *items;
	size_t count;
	size_t total;
	struct vs_store_meter *meter;
	vs_store_ready *ready;
	void *arg;
	enum vs_status (*move)(struct lane *lane, size_t index,
			       struct vs_why *why);
	struct lane lanes[LANES];
	size_t lane_count;
	struct vs_lock lock;
	atomic_bool stop;
	enum vs_status status;		/* of the first failure; under lock */
	struct vs_why why;		/* likewise */
};

static struct vs_backup *make_backup(size_t at, size_t size)
{
	size_t count = (at + size + VS_HOST_BLOCK - 1) / VS_HOST_BLOCK;
	struct vs_backup *backup;

	backup = calloc(1, sizeof(*backup) +
			   count * sizeof(backup->pieces[0]));
	if (backup)
		backup->size = size;
	return backup;
}

static struct lane *lane_of(struct plan *plan, CUdevice device)
{
	struct lane *lane;
	size_t i;

	for (i = 0; i < plan->lane_count; i++)
		if (plan->lanes[i].device == device)
			return &plan->lanes[i];
	if (i == LANES)
		return &plan->lanes[LANES - 1];
	lane = &plan->lanes[plan->lane_count++];
	lane->device = device;
	lane->plan = plan;
	lane->pipeline.done = &plan->meter->done;
	return lane;
}

static void share_out(struct plan *plan)
{
	struct lane *lane;
	size_t i;

	for (i = 0; i < plan->count; i++) {
		lane = lane_of(plan, plan->items[i].context->device);
		if (!lane->context)
			lane->context = plan->items[i].context;
		lane->total += plan->items[i].size;
		plan->total += plan->items[i].size;
	}
}

static void lane_failed(struct lane *lane, enum vs_status st,
			const struct vs_why *why)
{
	struct plan *plan = lane->plan;

	vs_lock_take(&plan->lock);
	if (!plan->status) {
		plan->status = st;
		plan->why = *why;
	}
	vs_lock_drop(&plan->lock);
	atomic_store(&plan->stop, true);
}

static void run_lane(struct lane *lane)
{
	struct plan *plan = lane->plan;
	enum vs_status st = VS_OK;
	struct vs_why why;
	size_t i;

	for (i = 0; i < plan->count && !st && !atomic_load(&plan->stop); i++)
		if (lane_of(plan, plan->items[i].context->device) == lane)
			st = plan->move(lane, i, &why);
	if (st)
		lane_failed(lane, st, &why);
	st = vs_pipeline_leave(&lane->pipeline, &why);
	if (st)
		lane_failed(lane, st, &why);
}

static void *lane_thread(void *arg)
{
	vs_context_relax();
	run_lane(arg);
	return NULL;
}

/* A lane without a thread of its own has to wait for its turn. */
static enum vs_status run_lanes(struct plan *plan, struct vs_why *why)
{
	struct lane *lane, *end = plan->lanes + plan->lane_count;

	for (lane = plan->lanes + 1; lane < end; lane++)
		lane->threaded = !vs_thread_start(&lane->thread,
						  "vsleep-copy", lane_thread,
						  lane);
	for (lane = plan->lanes; lane < end; lane++)
		if (!lane->threaded)
			run_lane(lane);
	for (lane = plan->lanes; lane < end; lane++)
		if (lane->threaded)
			pthread_join(lane->thread, NULL);
	if (plan->status && why)
		*why = plan->why;
	return plan->status;
}

static enum vs_status save_piece(struct lane *lane, struct vs_store_item *item,
				 size_t done, struct vs_why *why)
{
	struct piece *piece = &item->backup->pieces[item->backup->count];
	struct vs_host_block *block;
	CUresult rc;

	block = vs_host_pool_wait(lane->batch, lane->index, why);
	if (!block)
		return VS_NOHOST;
	piece->block = block;
	piece->at = lane->at;
	piece->size = VS_HOST_BLOCK - lane->at;
	if (piece->size > item->size - done)
		piece->size = item->size - done;
	rc = vs_real.cuMemcpyDtoHAsync_v2(block->base + piece->at,
					  item->base + done, piece->size,
					  lane->pipeline.stream);
	if (rc)
		return copy_failed(why, rc, "copy out of", item);
	item->backup->count++;
	block->pieces++;
	if (!block->pinned)
		atomic_fetch_add(&lane->plan->meter->pageable, piece->size);
	lane->at += piece->size;
	if (lane->at == VS_HOST_BLOCK) {
		lane->at = 0;
		lane->index++;
	}
	return vs_pipeline_queued(&lane->pipeline, piece->size, why);
}

static enum vs_status save_item(struct lane *lane, size_t index,
				struct vs_why *why)
{
	struct vs_store_item *item = &lane->plan->items[index];
	enum vs_status st;
	size_t done = 0;

	st = vs_pipeline_enter(&lane->pipeline, item->context, why);
	if (st)
		return st;
	item->backup = make_backup(lane->at, item->size);
	if (!item->backup)
		return vs_why_set(why, VS_NOHOST, "no memory for a backup");
	while (!st && done < item->size) {
		st = save_piece(lane, item, done, why);
		if (!st)
			done += item->backup->pieces[item->backup->count -
						     1].size;
	}
	return st;
}

static void finish_batches(struct plan *plan, bool undo)
{
	struct lane *lane;

	for (lane = plan->lanes; lane < plan->lanes + LANES; lane++)
		if (lane->batch)
			vs_host_pool_finish(lane->batch, undo);
}

static enum vs_status prepare_batches(struct plan *plan, struct vs_why *why)
{
	struct lane *lane, *end = plan->lanes + plan->lane_count;
	enum vs_status st = vs_host_pool_check(plan->total, why);

	for (lane = plan->lanes; !st && lane < end; lane++)
		st = vs_host_pool_prepare(lane->total, plan->total,
					  lane->context, &lane->batch, why);
	return st;
}

enum vs_status vs_store_save(struct vs_store_item *items, size_t count,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct plan plan = {
		.items = items, .count = count, .meter = meter,
		.move = save_item, .lock = VS_LOCK(VS_RANK_STORE),
	};
	enum vs_status st;
	size_t i;

	for (i = 0; i < count; i++)
		items[i].backup = NULL;
	share_out(&plan);
	if (!plan.total)
		return VS_OK;
	st = prepare_batches(&plan, why);
	if (!st)
		st = run_lanes(&plan, why);
	for (i = 0; st && i < count; i++) {
		free(items[i].backup);
		items[i].backup = NULL;
	}
	finish_batches(&plan, st != VS_OK);
	if (!st)
		atomic_fetch_add(&stored, plan.total);
	return st;
}

static enum vs_status load_piece(struct lane *lane,
				 const struct vs_store_item *item,
				 const struct piece *piece, size_t done,
				 struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemcpyHtoDAsync_v2(item->base + done,
					  piece->block->base + piece->at,
					  piece->size, lane->pipeline.stream);
	if (rc)
		return copy_failed(why, rc, "copy back to", item);
	return vs_pipeline_queued(&lane->pipeline, piece->size, why);
}

static enum vs_status load_zeros(struct lane *lane,
				 const struct vs_store_item *item,
				 struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemsetD8Async(item->base, 0, item->size,
				     lane->pipeline.stream);
	if (rc)
		return copy_failed(why, rc, "zero fill of", item);
	return vs_pipeline_queued(&lane->pipeline, item->size, why);
}

static enum vs_status load_item(struct lane *lane, size_t index,
				struct vs_why *why)
{
	const struct vs_store_item *item = &lane->plan->items[index];
	const struct vs_backup *backup = item->backup;
	enum vs_status st;
	size_t i, done = 0;

	st = vs_pipeline_enter(&lane->pipeline, item->context, why);
	if (!st)
		st = lane->plan->ready(lane->plan->arg, index, why);
	if (!st && !backup)
		return load_zeros(lane, item, why);
	for (i = 0; !st && i < backup->count; i++) {
		st = load_piece(lane, item, &backup->pieces[i], done, why);
		done += backup->pieces[i].size;
	}
	return st;
}

enum vs_status vs_store_load(struct vs_store_item *items, size_t count,
			     vs_store_ready *ready, void *arg,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct plan plan = {
		.items = items, .count = count, .meter = meter,
		.ready = ready, .arg = arg, .move = load_item,
		.lock = VS_LOCK(VS_RANK_STORE),
	};

	share_out(&plan);
	return run_lanes(&plan, why);
}
