/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store_plan.h"
#include "backup/spill.h"
#include "base/driver.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

enum vs_status vs_store_copy_failed(struct vs_why *why, CUresult rc,
				    const char *what,
				    const struct vs_store_item *item)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "%s 0x%llx, %zu MiB: %s", what,
			  item->base, item->size >> 20,
			  vs_driver_error(rc, error, sizeof(error)));
}

static size_t pages_of(const struct vs_store_item *item)
{
	return (item->size + VS_PAGE - 1) / VS_PAGE;
}

static struct vs_store_lane *lane_of(struct vs_store_plan *plan,
				     CUdevice device)
{
	struct vs_store_lane *lane;
	size_t i;

	for (i = 0; i < plan->lane_count; i++)
		if (plan->lanes[i].device == device)
			return &plan->lanes[i];
	if (i == VS_STORE_LANES)
		return &plan->lanes[VS_STORE_LANES - 1];
	lane = &plan->lanes[plan->lane_count++];
	lane->device = device;
	lane->plan = plan;
	lane->pipeline.done = &plan->meter->done;
	return lane;
}

struct vs_store_lane *vs_store_plan_lane(struct vs_store_plan *plan,
					 size_t index)
{
	return lane_of(plan, plan->items[index].context->device);
}

bool vs_store_plan_has(const struct vs_store_lane *lane, size_t index)
{
	return vs_store_plan_lane(lane->plan, index) == lane;
}

static void share_out(struct vs_store_plan *plan)
{
	const struct vs_store_item *item;
	struct vs_store_lane *lane;
	size_t i;

	for (i = 0; i < plan->count; i++) {
		item = &plan->items[i];
		lane = vs_store_plan_lane(plan, i);
		if (!lane->context)
			lane->context = item->context;
		lane->pages += pages_of(item);
	}
}

static enum vs_status make_room(struct vs_store_plan *plan,
				struct vs_why *why)
{
	size_t i, pages;

	plan->first = calloc(plan->count + 1, sizeof(*plan->first));
	for (i = 0; plan->first && i < plan->count; i++)
		plan->first[i + 1] = plan->first[i] +
				     pages_of(&plan->items[i]);
	pages = plan->first ? plan->first[plan->count] : 0;
	plan->sums = calloc(pages + 1, sizeof(*plan->sums));
	plan->todo = calloc(pages + 1, sizeof(*plan->todo));
	if (plan->first && plan->sums && plan->todo)
		return VS_OK;
	vs_store_plan_end(plan);
	return vs_why_set(why, VS_NOHOST, "no memory to plan %zu pages",
			  pages);
}

enum vs_status vs_store_plan_begin(struct vs_store_plan *plan,
				   struct vs_store_item *items, size_t count,
				   struct vs_store_meter *meter, bool pages,
				   struct vs_why *why)
{
	memset(plan, 0, sizeof(*plan));
	plan->items = items;
	plan->count = count;
	plan->meter = meter;
	plan->lock = (struct vs_lock)VS_LOCK(VS_RANK_STORE);
	memset(meter, 0, sizeof(*meter));
	share_out(plan);
	return pages ? make_room(plan, why) : VS_OK;
}

void vs_store_plan_end(struct vs_store_plan *plan)
{
	if (plan->slot_next < plan->slot_count)
		vs_spill_free(plan->slots + plan->slot_next,
			      plan->slot_count - plan->slot_next);
	free(plan->slots);
	free(plan->first);
	free(plan->sums);
	free(plan->todo);
}

static void lane_failed(struct vs_store_lane *lane, enum vs_status st,
			const struct vs_why *why)
{
	struct vs_store_plan *plan = lane->plan;

	vs_lock_take(&plan->lock);
	if (!plan->status) {
		plan->status = st;
		plan->why = *why;
	}
	vs_lock_drop(&plan->lock);
	atomic_store(&plan->stop, true);
}

static enum vs_status end_ring(struct vs_store_lane *lane, struct vs_why *why)
{
	enum vs_status st = VS_OK;

	if (lane->ring) {
		st = vs_ring_drain(lane->ring, why);
		vs_ring_close(lane->ring);
	}
	lane->ring = NULL;
	return st;
}

enum vs_status vs_store_enter(struct vs_store_lane *lane,
			      struct vs_context *context, struct vs_why *why)
{
	enum vs_status st = VS_OK;

	if (lane->pipeline.context != context) {
		st = end_ring(lane, why);
		if (!st)
			st = vs_pipeline_leave(&lane->pipeline, why);
		if (st)
			lane_failed(lane, st, why);
	}
	return st ? st : vs_pipeline_enter(&lane->pipeline, context, why);
}

struct vs_ring *vs_store_ring(struct vs_store_lane *lane, struct vs_why *why)
{
	size_t share = vs_host_pool_budget() / lane->plan->lane_count;

	if (!lane->ring && !lane->ringless)
		lane->ringless = vs_ring_open(lane->pipeline.context,
					      lane->pipeline.stream, share,
					      &lane->ring, why) != VS_OK;
	return lane->ring;
}

struct vs_far vs_store_far(const struct vs_page *page)
{
	struct vs_far far = { .slot = page->index };

	if (page->place == VS_PLACE_HOST)
		far.memory = page->block->base + page->index * VS_PAGE;
	return far;
}

static void run_lane(struct vs_store_lane *lane, vs_store_step *step)
{
	struct vs_why why;
	enum vs_status st = step(lane, &why);

	if (st)
		lane_failed(lane, st, &why);
	st = end_ring(lane, &why);
	if (st)
		lane_failed(lane, st, &why);
	st = vs_pipeline_leave(&lane->pipeline, &why);
	if (st)
		lane_failed(lane, st, &why);
}

struct errand {
	struct vs_store_lane *lane;
	vs_store_step *step;
};

static void *lane_thread(void *arg)
{
	const struct errand *errand = arg;

	vs_context_relax();
	run_lane(errand->lane, errand->step);
	return NULL;
}

/* A lane without a thread of its own has to wait for its turn. */
enum vs_status vs_store_plan_run(struct vs_store_plan *plan,
				 vs_store_step *step, struct vs_why *why)
{
	struct vs_store_lane *lane, *end = plan->lanes + plan->lane_count;
	struct errand errands[VS_STORE_LANES];

	for (lane = plan->lanes + 1; lane < end; lane++) {
		struct errand *errand = &errands[lane - plan->lanes];

		*errand = (struct errand){ lane, step };
		lane->threaded = !vs_thread_start(&lane->thread,
						  "vsleep-copy", lane_thread,
						  errand);
	}
	for (lane = plan->lanes; lane < end; lane++)
		if (!lane->threaded)
			run_lane(lane, step);
	for (lane = plan->lanes; lane < end; lane++)
		if (lane->threaded)
			pthread_join(lane->thread, NULL);
	if (plan->status && why)
		*why = plan->why;
	return plan->status;
}
