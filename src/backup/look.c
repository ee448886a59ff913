/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/look.h"
#include "base/driver.h"

#include <stdlib.h>
#include <string.h>

size_t vs_look_batch = VS_LOOK_MOST;

/* Two buffers take turns: one is under way, the other is handed out. */
struct vs_look {
	struct vs_store_lane *lane;
	struct vs_context *context;	/* of what follows; NULL: none yet */
	CUstream stream;
	bool own;			/* the stream is */
	struct vs_page_hash *hash[2];
	unsigned turn;			/* that is under way, or is next */
	size_t queued;			/* pages in it */
	struct vs_look_piece next;	/* to be queued */
	struct vs_look_piece given;	/* to be handed out */
	size_t left, done;		/* of those in sums */
	struct vs_page_span spans[VS_LOOK_MOST];
	struct vs_page_sum sums[VS_LOOK_MOST];
};

enum vs_status vs_look_open(struct vs_store_lane *lane, struct vs_look **out,
			    struct vs_why *why)
{
	struct vs_look *look = malloc(sizeof(*look));

	if (!look)
		return vs_why_set(why, VS_NOHOST, "no memory to look at "
				  "pages");
	memset(look, 0, offsetof(struct vs_look, spans));
	look->lane = lane;
	*out = look;
	return VS_OK;
}

/* Go on from @at to an item with pages left; false: there is none. */
static bool skip(const struct vs_store_lane *lane, struct vs_look_piece *at)
{
	const struct vs_store_plan *plan = lane->plan;

	for (; at->item < plan->count; at->item++, at->page = 0) {
		at->count = plan->first[at->item + 1] -
			    plan->first[at->item] - at->page;
		if (at->count && vs_store_plan_has(lane, at->item))
			return true;
	}
	return false;
}

/* At most so many pages from @at on, all in one context; false: none is left
 * there. */
static bool take(const struct vs_look *look, struct vs_look_piece *at,
		 size_t most, struct vs_look_piece *out)
{
	if (!most || !skip(look->lane, at) ||
	    look->lane->plan->items[at->item].context != look->context)
		return false;
	*out = *at;
	if (out->count > most)
		out->count = most;
	at->page += out->count;
	return true;
}

static enum vs_status queue(struct vs_look *look, struct vs_why *why)
{
	const struct vs_store_item *items = look->lane->plan->items, *item;
	struct vs_look_piece piece;
	struct vs_page_span *span = look->spans;

	while (take(look, &look->next,
		    vs_look_batch - (size_t)(span - look->spans), &piece)) {
		item = &items[piece.item];
		for (; piece.count; piece.count--, piece.page++, span++) {
			span->base = item->base + piece.page * VS_PAGE;
			span->size = vs_store_bytes_of(item, piece.page, 1);
		}
	}
	look->queued = (size_t)(span - look->spans);
	return vs_page_hash_queue(look->hash[look->turn], look->stream,
				  look->spans, look->queued, why);
}

static void leave(struct vs_look *look)
{
	int i;

	if (look->queued)
		vs_page_hash_wait(look->hash[look->turn], look->stream, NULL);
	look->queued = 0;
	for (i = 0; i < 2; i++) {
		vs_page_hash_close(look->hash[i]);
		look->hash[i] = NULL;
	}
	if (look->own)
		vs_real.cuStreamDestroy_v2(look->stream);
	look->own = false;
	look->turn = 0;
	look->context = NULL;
}

/* Without a stream of its own it takes turns with the copies. */
static enum vs_status enter(struct vs_look *look, struct vs_context *context,
			    struct vs_why *why)
{
	struct vs_store_lane *lane = look->lane;
	bool many = lane->pages > vs_look_batch;
	size_t most = many ? vs_look_batch : lane->pages;
	enum vs_status st;

	leave(look);
	st = vs_store_enter(lane, context, why);
	if (st)
		return st;
	look->context = context;
	st = vs_page_hash_open(context, most, &look->hash[0], why);
	if (!st && many)
		st = vs_page_hash_open(context, most, &look->hash[1], why);
	if (st)
		return st;
	look->own = !vs_real.cuStreamCreate(&look->stream,
					    CU_STREAM_NON_BLOCKING);
	if (!look->own)
		look->stream = lane->pipeline.stream;
	return VS_OK;
}

/* What is under way is handed out next, and what follows gets under way. */
static enum vs_status turn(struct vs_look *look, struct vs_why *why)
{
	const struct vs_store_item *items = look->lane->plan->items;
	struct vs_page_hash *hash;
	enum vs_status st = VS_OK;

	if (!look->queued && !skip(look->lane, &look->next))
		return VS_OK;
	if (!look->queued && look->context != items[look->next.item].context)
		st = enter(look, items[look->next.item].context, why);
	if (!st && !look->queued)
		st = queue(look, why);
	if (st)
		return st;
	hash = look->hash[look->turn];
	st = vs_page_hash_wait(hash, look->stream, why);
	if (st)
		return st;
	look->left = look->queued;
	look->done = look->queued = 0;
	look->turn = !look->turn;
	if (look->hash[look->turn])
		st = queue(look, why);
	vs_page_hash_collect(hash, look->sums);
	return st;
}

enum vs_status vs_look_next(struct vs_look *look, struct vs_look_piece *out,
			    struct vs_why *why)
{
	struct vs_store_plan *plan = look->lane->plan;
	enum vs_status st = look->left ? VS_OK : turn(look, why);

	out->count = 0;
	if (st || !look->left)
		return st;
	if (!take(look, &look->given, look->left, out))
		return vs_why_set(why, VS_FAILED, "%zu pages were looked at "
				  "that are nobody's", look->left);
	memcpy(&plan->sums[plan->first[out->item] + out->page],
	       &look->sums[look->done], out->count * sizeof(look->sums[0]));
	look->done += out->count;
	look->left -= out->count;
	return VS_OK;
}

void vs_look_close(struct vs_look *look)
{
	if (look)
		leave(look);
	free(look);
}
