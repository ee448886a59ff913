/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/host_pool.h"
#include "backup/store_plan.h"
#include "base/driver.h"

/* Pages from @i on that are filled by one call. */
static size_t run_length(const struct vs_backup *backup, size_t i)
{
	const struct vs_page *page = &backup->pages[i];
	size_t n = 1;

	while (i + n < backup->count && page[n].place == page->place &&
	       page[n].valid == page->valid &&
	       (page->place == VS_PLACE_ZERO || vs_backup_follows(page, n)))
		n++;
	return n;
}

static enum vs_status load_zeros(struct vs_store_lane *lane,
				 const struct vs_store_item *item, size_t at,
				 size_t size, struct vs_why *why)
{
	CUresult rc = vs_real.cuMemsetD8Async(item->base + at, 0, size,
					      lane->pipeline.stream);

	return rc ? vs_store_copy_failed(why, rc, "zero fill of", item) : VS_OK;
}

/* Page by page, by way of the ring. */
static enum vs_status load_far(struct vs_store_lane *lane,
			       const struct vs_store_item *item, size_t i,
			       size_t n, struct vs_why *why)
{
	enum vs_status st = VS_OK;

	for (; !st && n; i++, n--)
		st = vs_ring_in(lane->ring,
				vs_store_far(&item->backup->pages[i]),
				item->base + i * VS_PAGE,
				vs_backup_page_size(item->backup, i), why);
	return st;
}

static enum vs_status load_pages(struct vs_store_lane *lane,
				 const struct vs_store_item *item, size_t i,
				 size_t n, size_t size, struct vs_why *why)
{
	const struct vs_page *page = &item->backup->pages[i];
	bool file = page->place == VS_PLACE_FILE;
	CUresult rc;

	atomic_fetch_add(&lane->plan->meter->copied, size);
	if ((file || !vs_host_pool_pinned(page->block, item->context)) &&
	    vs_store_ring(lane, why))
		return load_far(lane, item, i, n, why);
	if (file)
		return vs_why_set(why, VS_NOHOST, "host memory: no %zu MiB "
				  "that the spill could be reached through",
				  VS_RING_LEAST >> 20);
	rc = vs_real.cuMemcpyHtoDAsync_v2(item->base + i * VS_PAGE,
					  page->block->base +
					  page->index * VS_PAGE, size,
					  lane->pipeline.stream);
	return rc ? vs_store_copy_failed(why, rc, "copy back to", item) :
		    VS_OK;
}

static enum vs_status load_run(struct vs_store_lane *lane,
			       const struct vs_store_item *item, size_t i,
			       size_t n, struct vs_why *why)
{
	size_t size = vs_store_bytes_of(item, i, n);
	enum vs_status st;

	if (!item->backup->pages[i].valid)
		return vs_why_set(why, VS_FAILED, "0x%llx: page %zu was never "
				  "copied out", item->base, i);
	if (item->backup->pages[i].place == VS_PLACE_ZERO)
		st = load_zeros(lane, item, i * VS_PAGE, size, why);
	else
		st = load_pages(lane, item, i, n, size, why);
	return st ? st : vs_pipeline_queued(&lane->pipeline, size, why);
}

static enum vs_status load_item(struct vs_store_lane *lane, size_t index,
				struct vs_why *why)
{
	const struct vs_store_item *item = &lane->plan->items[index];
	enum vs_status st;
	size_t i, n;

	st = vs_store_enter(lane, item->context, why);
	if (!st)
		st = lane->plan->ready(lane->plan->arg, index, why);
	if (!st && !item->backup) {
		st = load_zeros(lane, item, 0, item->size, why);
		return st ? st : vs_pipeline_queued(&lane->pipeline,
						    item->size, why);
	}
	for (i = 0; !st && i < item->backup->count; i += n) {
		n = run_length(item->backup, i);
		st = load_run(lane, item, i, n, why);
	}
	return st;
}

static enum vs_status load_lane(struct vs_store_lane *lane, struct vs_why *why)
{
	const struct vs_store_plan *plan = lane->plan;
	enum vs_status st = VS_OK;
	size_t i;

	for (i = 0; i < plan->count && !st && !atomic_load(&plan->stop); i++)
		if (vs_store_plan_has(lane, i))
			st = load_item(lane, i, why);
	return st;
}

enum vs_status vs_store_load(struct vs_store_item *items, size_t count,
			     vs_store_ready *ready, void *arg,
			     struct vs_store_meter *meter,
			     struct vs_why *why)
{
	struct vs_store_plan plan;
	enum vs_status st;

	st = vs_store_plan_begin(&plan, items, count, meter, false, why);
	if (st)
		return st;
	plan.ready = ready;
	plan.arg = arg;
	return vs_store_plan_run(&plan, load_lane, why);
}
