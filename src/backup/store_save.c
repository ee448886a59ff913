/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/host_pool.h"
#include "backup/look.h"
#include "backup/spill.h"
#include "base/config.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Of plan->todo: nothing is known yet; the backup has the bytes; they are zero;
 * they are to be copied; they are, or are about to be. */
enum { UNKNOWN, UNCHANGED, ZERO, COPY, COPIED };

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static uint8_t judge_page(const struct vs_store_lane *lane,
			  const struct vs_page *page,
			  const struct vs_page_sum *sum)
{
	if (lane->blind)
		return COPY;
	if (sum->zero)
		return ZERO;
	return vs_backup_same(page, sum) ? UNCHANGED : COPY;
}

/* A page that is copied has its place from here on, or is counted. */
static void find_place(struct vs_store_lane *lane, struct vs_backup *backup,
		       size_t i)
{
	struct vs_page *page = &backup->pages[i];
	struct vs_host_block *block;
	uint32_t index;

	page->valid = false;
	if (vs_backup_placed(page))
		return;
	if (vs_pages_take(&block, &index))
		vs_backup_place(backup, i, block, index);
	else
		lane->need++;
}

/* Of item @index. */
static void judge_pages(struct vs_store_lane *lane, size_t index, size_t from,
			size_t count)
{
	struct vs_store_plan *plan = lane->plan;
	struct vs_backup *backup = plan->items[index].backup;
	size_t i, at = plan->first[index] + from, size;

	for (i = from; i < from + count; i++, at++) {
		if (plan->todo[at] != UNKNOWN)
			continue;
		plan->todo[at] = judge_page(lane, &backup->pages[i],
					    &plan->sums[at]);
		size = vs_backup_page_size(backup, i);
		if (plan->todo[at] == COPY) {
			find_place(lane, backup, i);
			continue;
		}
		atomic_fetch_add(plan->todo[at] == ZERO ? &plan->meter->zero :
				 &plan->meter->unchanged, size);
		atomic_fetch_add(&plan->meter->done, size);
	}
}

static enum vs_status make_backups(struct vs_store_plan *plan,
				   struct vs_why *why)
{
	struct vs_store_item *item, *end = plan->items + plan->count;

	for (item = plan->items; item < end; item++) {
		if (!item->backup)
			item->backup = vs_backup_make(item->size);
		if (!item->backup)
			return vs_why_set(why, VS_NOHOST, "no memory for a "
					  "backup of %zu MiB",
					  item->size >> 20);
	}
	return VS_OK;
}

/* The last pages that host memory lacks for go to the spill, device by device
 * in the same proportion; @need: those that do not. */
static enum vs_status spill_rest(struct vs_store_plan *plan, size_t *need,
				 struct vs_why *why)
{
	size_t room = vs_host_pool_budget(), all = *need, host, i;
	size_t ring = plan->lane_count * min(VS_RING_MOST, room / 4);
	enum vs_status st;

	if (ring < plan->lane_count * VS_RING_LEAST)
		ring = plan->lane_count * VS_RING_LEAST;
	host = room > ring ? (room - ring) / VS_PAGE : 0;
	for (i = 0, *need = 0; i < plan->lane_count; i++) {
		plan->lanes[i].need = plan->lanes[i].need * host / all;
		*need += plan->lanes[i].need;
	}
	plan->slots = calloc(all - *need, sizeof(*plan->slots));
	if (!plan->slots)
		return vs_why_set(why, VS_NOHOST, "no memory for a list of "
				  "%zu pages", all - *need);
	st = vs_spill_take(all - *need, plan->slots, why);
	if (!st)
		plan->slot_count = all - *need;
	return st;
}

/* Host memory, or what else there is, for all pages that have none; checked
 * before it is taken. */
static enum vs_status prepare(struct vs_store_plan *plan, struct vs_why *why)
{
	struct vs_store_lane *lane, *end = plan->lanes + plan->lane_count;
	enum vs_status st;
	size_t need = 0;

	for (lane = plan->lanes; lane < end; lane++)
		need += lane->need;
	st = vs_host_pool_check(need * VS_PAGE, why);
	if (st && *vs_config.spill_dir)
		st = spill_rest(plan, &need, why);
	for (lane = plan->lanes; !st && lane < end; lane++)
		if (lane->need)
			st = vs_host_pool_prepare(lane->need * VS_PAGE,
						  need * VS_PAGE,
						  lane->context, &lane->batch,
						  why);
	return st;
}

/* The next page of those being prepared. */
struct cursor {
	struct vs_store_lane *lane;
	size_t block;
	uint32_t page;
};

static void take_next(struct cursor *c, struct vs_backup *backup, size_t i)
{
	struct vs_store_plan *plan = c->lane->plan;
	struct vs_host_block *block;

	if (!c->lane->need) {
		vs_backup_place_in_file(backup, i,
					plan->slots[plan->slot_next++]);
		return;
	}
	c->lane->need--;
	block = vs_host_pool_at(c->lane->batch, c->block);
	if (c->page == vs_pages_in(block)) {
		block = vs_host_pool_at(c->lane->batch, ++c->block);
		c->page = 0;
	}
	block->used |= (uint32_t)1 << c->page;
	vs_backup_place(backup, i, block, c->page++);
}

static void place_rest(struct vs_store_plan *plan)
{
	struct vs_store_lane *lane;
	struct vs_backup *backup;
	size_t i, k;

	for (lane = plan->lanes; lane < plan->lanes + plan->lane_count;
	     lane++) {
		struct cursor cursor = { .lane = lane };

		for (i = 0; i < plan->count; i++) {
			backup = plan->items[i].backup;
			if (!vs_store_plan_has(lane, i))
				continue;
			for (k = 0; k < backup->count; k++)
				if (plan->todo[plan->first[i] + k] == COPY &&
				    !vs_backup_placed(&backup->pages[k]))
					take_next(&cursor, backup, k);
		}
	}
}

/* Pages from @i on that are copied together. */
static size_t run_length(const struct vs_backup *backup, const uint8_t *todo,
			 size_t i, size_t end)
{
	const struct vs_page *page = &backup->pages[i];
	size_t n = 1;

	while (i + n < end && todo[i + n] == COPY &&
	       vs_backup_follows(page, n))
		n++;
	return n;
}

/* Page by page, by way of the ring. */
static enum vs_status save_far(struct vs_store_lane *lane,
			       const struct vs_store_item *item, size_t i,
			       size_t n, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	size_t size;

	for (; !st && n; i++, n--) {
		size = vs_backup_page_size(item->backup, i);
		st = vs_ring_out(lane->ring, item->base + i * VS_PAGE, size,
				 vs_store_far(&item->backup->pages[i]), why);
		if (!st)
			st = vs_pipeline_queued(&lane->pipeline, size, why);
	}
	return st;
}

/* To host memory, whether pinned or not. */
static CUresult copy_run(struct vs_store_lane *lane,
			 const struct vs_store_item *item, size_t i, size_t n)
{
	const struct vs_page *page = &item->backup->pages[i];

	return vs_real.cuMemcpyDtoHAsync_v2(page->block->base +
					    page->index * VS_PAGE,
					    item->base + i * VS_PAGE,
					    vs_store_bytes_of(item, i, n),
					    lane->pipeline.stream);
}

/* What is not pinned.  Where the ring cannot be had the driver copies to
 * pageable memory itself. */
static enum vs_status save_run(struct vs_store_lane *lane,
			       const struct vs_store_item *item, size_t i,
			       size_t n, struct vs_why *why)
{
	struct vs_store_meter *meter = lane->plan->meter;
	bool file = item->backup->pages[i].place == VS_PLACE_FILE;
	size_t size = vs_store_bytes_of(item, i, n);
	CUresult rc;

	atomic_fetch_add(&meter->copied, size);
	if (!file)
		atomic_fetch_add(&meter->pageable, size);
	if (vs_store_ring(lane, why))
		return save_far(lane, item, i, n, why);
	if (file)
		return vs_why_set(why, VS_NOHOST, "host memory: no %zu MiB "
				  "that the spill could be reached through",
				  VS_RING_LEAST >> 20);
	rc = copy_run(lane, item, i, n);
	if (rc)
		return vs_store_copy_failed(why, rc, "copy out of", item);
	return vs_pipeline_queued(&lane->pipeline, size, why);
}

/* All that goes to the block of page *@i, pinned, up to page @end; while these
 * calls are made nobody pins. */
static enum vs_status save_block(struct vs_store_lane *lane,
				 const struct vs_store_item *item,
				 uint8_t *todo, size_t *i, size_t end,
				 struct vs_why *why)
{
	const struct vs_page *pages = item->backup->pages;
	const struct vs_host_block *block = pages[*i].block;
	CUresult rc = CUDA_SUCCESS;
	size_t n, size = 0;

	vs_host_pool_copy_begin();
	for (; !rc && *i < end; *i += n) {
		n = 1;
		if (todo[*i] != COPY)
			continue;
		if (pages[*i].place != VS_PLACE_HOST ||
		    pages[*i].block != block)
			break;
		n = run_length(item->backup, todo, *i, end);
		memset(&todo[*i], COPIED, n);
		size += vs_store_bytes_of(item, *i, n);
		rc = copy_run(lane, item, *i, n);
	}
	vs_host_pool_copy_end();
	atomic_fetch_add(&lane->plan->meter->copied, size);
	if (rc)
		return vs_store_copy_failed(why, rc, "copy out of", item);
	return vs_pipeline_queued(&lane->pipeline, size, why);
}

static bool pinned(const struct vs_store_item *item, size_t i)
{
	const struct vs_page *page = &item->backup->pages[i];

	return page->place == VS_PLACE_HOST &&
	       vs_host_pool_pinned(page->block, item->context);
}

static enum vs_status save_next(struct vs_store_lane *lane,
				const struct vs_store_item *item,
				uint8_t *todo, size_t *i, struct vs_why *why)
{
	const struct vs_page *page = &item->backup->pages[*i];
	enum vs_status st = vs_store_enter(lane, item->context, why);
	size_t n, from = *i, end = item->backup->count;

	if (!st && page->place == VS_PLACE_HOST)
		st = vs_host_pool_wait(page->block, why);
	if (st)
		return st;
	if (pinned(item, from))
		return save_block(lane, item, todo, i, end, why);
	n = run_length(item->backup, todo, from, end);
	memset(&todo[from], COPIED, n);
	*i += n;
	return save_run(lane, item, from, n, why);
}

static enum vs_status save_item(struct vs_store_lane *lane, size_t index,
				struct vs_why *why)
{
	const struct vs_store_item *item = &lane->plan->items[index];
	uint8_t *todo = &lane->plan->todo[lane->plan->first[index]];
	enum vs_status st = VS_OK;
	size_t i = 0;

	while (!st && i < item->backup->count) {
		if (todo[i] == COPY)
			st = save_next(lane, item, todo, &i, why);
		else
			i++;
	}
	return st;
}

/* Of pages that have just been judged, what needs neither memory nor a ring;
 * the lane is in their context. */
static enum vs_status save_early(struct vs_store_lane *lane,
				 const struct vs_look_piece *piece,
				 struct vs_why *why)
{
	const struct vs_store_item *item = &lane->plan->items[piece->item];
	uint8_t *todo = &lane->plan->todo[lane->plan->first[piece->item]];
	size_t i = piece->page, end = i + piece->count;
	enum vs_status st = VS_OK;

	while (!st && i < end) {
		if (todo[i] == COPY && pinned(item, i))
			st = save_block(lane, item, todo, &i, end, why);
		else
			i++;
	}
	return st;
}

/*
 * What changed is copied to where it was while the device looks at the rest.
 * Where the look fails what is not known yet is copied, so that is no failure.
 * It comes before host memory is prepared: the threads that pin keep the driver
 * so busy that its calls would take longer than that.
 */
static enum vs_status look_lane(struct vs_store_lane *lane,
				struct vs_why *why)
{
	struct vs_store_plan *plan = lane->plan;
	struct vs_look_piece piece;
	struct vs_look *look = NULL;
	enum vs_status st = VS_OK, seen = vs_look_open(lane, &look, why);
	size_t i;

	while (!seen && !st && !atomic_load(&plan->stop)) {
		seen = vs_look_next(look, &piece, why);
		if (seen || !piece.count)
			break;
		judge_pages(lane, piece.item, piece.page, piece.count);
		st = save_early(lane, &piece, why);
	}
	vs_look_close(look);
	if (seen)
		vs_log_warn("pages of device %d that are not known are copied: "
			    "%s", lane->device, why->text);
	lane->blind = seen != VS_OK;
	for (i = 0; seen && i < plan->count; i++)
		if (vs_store_plan_has(lane, i))
			judge_pages(lane, i, 0, plan->items[i].backup->count);
	return st;
}

static enum vs_status save_lane(struct vs_store_lane *lane, struct vs_why *why)
{
	const struct vs_store_plan *plan = lane->plan;
	enum vs_status st = VS_OK;
	size_t i;

	for (i = 0; i < plan->count && !st && !atomic_load(&plan->stop); i++)
		if (vs_store_plan_has(lane, i))
			st = save_item(lane, i, why);
	return st;
}

/* The blocks being prepared join those that are, or go back. */
static void finish_batches(struct vs_store_plan *plan, bool stay)
{
	struct vs_host_batch *batch;
	size_t i, k;

	for (i = 0; i < plan->lane_count; i++) {
		batch = plan->lanes[i].batch;
		if (!batch)
			continue;
		if (!stay)
			vs_host_pool_limit(batch, 0);
		for (k = 0; k < vs_host_pool_count(batch); k++)
			vs_pages_join(vs_host_pool_at(batch, k));
		vs_host_pool_finish(batch);
	}
}

static void commit_item(struct vs_store_plan *plan, size_t index)
{
	struct vs_backup *backup = plan->items[index].backup;
	const struct vs_page_sum *sums = &plan->sums[plan->first[index]];
	const uint8_t *todo = &plan->todo[plan->first[index]];
	struct vs_page *page = backup->pages;
	bool told = !vs_store_plan_lane(plan, index)->blind;
	size_t i;

	backup->saved = true;
	for (i = 0; i < backup->count; i++, page++) {
		if (todo[i] == UNCHANGED)
			continue;
		if (todo[i] == ZERO) {
			vs_backup_clear(backup, i);
			page->place = VS_PLACE_ZERO;
		}
		vs_backup_set(page, &sums[i]);
		page->hashed = told;
	}
}

/* What was about to be overwritten is lost.  A backup that was there before
 * is its owner's still, if with nothing in it. */
static void undo_item(struct vs_store_plan *plan, size_t index)
{
	struct vs_backup *backup = plan->items[index].backup;
	size_t i;

	for (i = 0; backup && i < backup->count; i++)
		if (!backup->pages[i].valid)
			vs_backup_clear(backup, i);
	if (backup && backup->saved)
		return;
	vs_store_drop(backup);
	plan->items[index].backup = NULL;
}

enum vs_status vs_store_save(struct vs_store_item *items, size_t count,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct vs_store_plan plan;
	enum vs_status st;
	size_t i;

	if (!count)
		return VS_OK;
	st = vs_store_plan_begin(&plan, items, count, meter, true, why);
	if (st)
		return st;
	st = make_backups(&plan, why);
	if (!st)
		st = vs_store_plan_run(&plan, look_lane, why);
	if (!st)
		st = prepare(&plan, why);
	if (!st) {
		place_rest(&plan);
		st = vs_store_plan_run(&plan, save_lane, why);
	}
	for (i = 0; i < count; i++)
		if (st)
			undo_item(&plan, i);
		else
			commit_item(&plan, i);
	finish_batches(&plan, !st);
	vs_store_plan_end(&plan);
	return st;
}
