/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/host_pool.h"
#include "base/driver.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

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

/*
 * A run over items.  An event follows every WINDOW bytes, and the one before
 * it is waited for then, so that the meter tells the truth and the link never
 * idles.  Where the context changes everything is waited for: at most one
 * stream has copies in flight.
 */
#define WINDOW ((size_t)256 << 20)

struct run {
	struct vs_context *context;
	CUstream stream;
	CUevent event;		/* NULL: none; behind the last full window */
	struct vs_context_scope scope;
	size_t queued;		/* bytes behind the event */
	size_t window;		/* bytes in front of it */
	struct vs_store_meter *meter;
	/* saving: blocks are filled one after the other */
	struct vs_host_batch *batch;
	size_t index;		/* of the block being filled */
	size_t at;		/* offset in it */
};

static enum vs_status run_failed(struct run *run, CUresult rc,
				 struct vs_why *why)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "copies on device %d: %s",
			  run->context->device,
			  vs_driver_error(rc, error, sizeof(error)));
}

/* Host memory may go only when no copy can still reach it: a failed wait is
 * no proof of that, a lost context is. */
static void run_drain(struct run *run)
{
	struct timespec nap = { .tv_nsec = 100000 };

	if (!vs_real.cuStreamSynchronize(run->stream))
		return;
	while (vs_real.cuStreamQuery(run->stream) == CUDA_ERROR_NOT_READY)
		nanosleep(&nap, NULL);
}

static enum vs_status run_leave(struct run *run, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	CUresult rc;

	if (!run->context)
		return VS_OK;
	rc = vs_real.cuStreamSynchronize(run->stream);
	if (rc) {
		st = run_failed(run, rc, why);
		run_drain(run);
	}
	atomic_fetch_add(&run->meter->done, run->window + run->queued);
	run->window = run->queued = 0;
	if (run->event)
		vs_real.cuEventDestroy_v2(run->event);
	run->event = NULL;
	vs_context_leave(&run->scope);
	run->context = NULL;
	return st;
}

static enum vs_status run_enter(struct run *run, struct vs_context *context,
				struct vs_why *why)
{
	enum vs_status st;

	if (run->context == context)
		return VS_OK;
	st = run_leave(run, why);
	if (!st)
		st = vs_context_enter(context, &run->scope, why);
	if (st)
		return st;
	st = vs_context_stream(context, &run->stream, why);
	if (st)
		vs_context_leave(&run->scope);
	else
		run->context = context;
	return st;
}

/* The window that is full goes in front of the event. */
static CUresult run_turn(struct run *run)
{
	CUresult rc = CUDA_SUCCESS;

	if (!run->event)
		rc = vs_real.cuEventCreate(&run->event,
					   CU_EVENT_DISABLE_TIMING);
	else
		rc = vs_real.cuEventSynchronize(run->event);
	if (rc)
		return rc;
	atomic_fetch_add(&run->meter->done, run->window);
	run->window = run->queued;
	run->queued = 0;
	return vs_real.cuEventRecord(run->event, run->stream);
}

static enum vs_status run_queued(struct run *run, size_t size,
				 struct vs_why *why)
{
	CUresult rc;

	run->queued += size;
	if (run->queued < WINDOW)
		return VS_OK;
	rc = run_turn(run);
	return rc ? run_failed(run, rc, why) : VS_OK;
}

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

static enum vs_status save_piece(struct run *run, struct vs_store_item *item,
				 size_t done, struct vs_why *why)
{
	struct piece *piece = &item->backup->pieces[item->backup->count];
	struct vs_host_block *block;
	CUresult rc;

	block = vs_host_pool_wait(run->batch, run->index, why);
	if (!block)
		return VS_NOHOST;
	piece->block = block;
	piece->at = run->at;
	piece->size = VS_HOST_BLOCK - run->at;
	if (piece->size > item->size - done)
		piece->size = item->size - done;
	rc = vs_real.cuMemcpyDtoHAsync_v2(block->base + piece->at,
					  item->base + done, piece->size,
					  run->stream);
	if (rc)
		return copy_failed(why, rc, "copy out of", item);
	item->backup->count++;
	block->pieces++;
	if (!block->pinned)
		run->meter->pageable += piece->size;
	run->at += piece->size;
	if (run->at == VS_HOST_BLOCK) {
		run->at = 0;
		run->index++;
	}
	return run_queued(run, piece->size, why);
}

static enum vs_status save_item(struct run *run, struct vs_store_item *item,
				struct vs_why *why)
{
	enum vs_status st;
	size_t done = 0;

	st = run_enter(run, item->context, why);
	if (st)
		return st;
	item->backup = make_backup(run->at, item->size);
	if (!item->backup)
		return vs_why_set(why, VS_NOHOST, "no memory for a backup");
	while (!st && done < item->size) {
		st = save_piece(run, item, done, why);
		if (!st)
			done += item->backup->pieces[item->backup->count -
						     1].size;
	}
	return st;
}

enum vs_status vs_store_save(struct vs_store_item *items, size_t count,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct run run = { .meter = meter };
	enum vs_status st, end;
	size_t i, total = 0;

	for (i = 0; i < count; i++) {
		items[i].backup = NULL;
		total += items[i].size;
	}
	if (!total)
		return VS_OK;
	st = vs_host_pool_prepare(total, items[0].context, &run.batch, why);
	if (st)
		return st;
	for (i = 0; !st && i < count; i++)
		st = save_item(&run, &items[i], why);
	end = run_leave(&run, st ? NULL : why);
	if (!st)
		st = end;
	for (i = 0; st && i < count; i++) {
		free(items[i].backup);
		items[i].backup = NULL;
	}
	vs_host_pool_finish(run.batch, st != VS_OK);
	if (!st)
		atomic_fetch_add(&stored, total);
	return st;
}

static enum vs_status load_piece(struct run *run,
				 const struct vs_store_item *item,
				 const struct piece *piece, size_t done,
				 struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemcpyHtoDAsync_v2(item->base + done,
					  piece->block->base + piece->at,
					  piece->size, run->stream);
	if (rc)
		return copy_failed(why, rc, "copy back to", item);
	return run_queued(run, piece->size, why);
}

static enum vs_status load_zeros(struct run *run,
				 const struct vs_store_item *item,
				 struct vs_why *why)
{
	CUresult rc;

	rc = vs_real.cuMemsetD8Async(item->base, 0, item->size, run->stream);
	if (rc)
		return copy_failed(why, rc, "zero fill of", item);
	return run_queued(run, item->size, why);
}

static enum vs_status load_item(struct run *run,
				const struct vs_store_item *item,
				struct vs_why *why)
{
	const struct vs_backup *backup = item->backup;
	enum vs_status st;
	size_t i, done = 0;

	st = run_enter(run, item->context, why);
	if (!st && !backup)
		return load_zeros(run, item, why);
	for (i = 0; !st && i < backup->count; i++) {
		st = load_piece(run, item, &backup->pieces[i], done, why);
		done += backup->pieces[i].size;
	}
	return st;
}

enum vs_status vs_store_load(struct vs_store_item *items, size_t count,
			     vs_store_ready *ready, void *arg,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct run run = { .meter = meter };
	enum vs_status st = VS_OK, end;
	size_t i;

	for (i = 0; !st && i < count; i++) {
		st = ready(arg, i, why);
		if (!st)
			st = load_item(&run, &items[i], why);
	}
	end = run_leave(&run, st ? NULL : why);
	return st ? st : end;
}
