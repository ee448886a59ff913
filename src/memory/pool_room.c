/* SPDX-License-Identifier: Apache-2.0 */
/* What pools keep goes back to the device. */
#include <config.h>

#include "memory/pool.h"
#include "memory/pool_cache.h"
#include "memory/quarantine.h"
#include "base/context.h"
#include "base/driver.h"

#include <stdatomic.h>

#define PERIOD 0.1	/* seconds without use until what is kept goes back */
#define OLD 2.0		/* the same for a part of it, in a pool that is used */
#define ASKED 64	/* streams that are asked in one go */

static bool watched;		/* under vs_segment_lock */
static atomic_bool unwatched;

/* A stream that goes on being used is not asked for ever. */
static void find_done(struct vs_pool *pool, enum vs_pool_effort effort)
{
	struct vs_pool_stream *s;
	int nth = 0, asked;

	for (asked = 0; asked < ASKED; asked++) {
		vs_lock_take(&vs_segment_lock);
		s = vs_pool_cache_debtor(pool, nth);
		if (s) {
			vs_pool_stream_claim(s);
			s->blocks++;
		}
		vs_lock_drop(&vs_segment_lock);
		if (!s)
			return;
		vs_pool_stream_ask(s, effort);
		vs_lock_take(&vs_segment_lock);
		s->blocks--;
		if (s->done < s->freed)
			nth++;
		vs_lock_drop(&vs_segment_lock);
	}
}

/* Lock held; dropped meanwhile.  The block is no pool's any more. */
static void end_block(struct vs_block *block)
{
	vs_pool_cache_remove(block);
	block->pool->reserved -= block->span;
	block->order->blocks--;
	block->pool = NULL;
	block->order = NULL;
	vs_segment_pin(block->segment);
	vs_lock_drop(&vs_segment_lock);
	vs_quarantine_end(block);
	vs_lock_take(&vs_segment_lock);
}

struct goal {
	size_t keep;	/* until so many bytes are reserved, or less; */
	bool least;	/* not less */
	uint64_t last;	/* of what was freed up to this one */
};

/* Lock held; dropped meanwhile.  What is done. */
static void release(struct vs_pool *pool, const struct goal *goal)
{
	CUstreamCaptureMode mode;
	struct vs_block *block;
	size_t most;

	vs_lock_drop(&vs_segment_lock);
	mode = vs_context_relax();
	vs_lock_take(&vs_segment_lock);
	while (pool->reserved > goal->keep) {
		most = goal->least ? pool->reserved - goal->keep : SIZE_MAX;
		block = vs_pool_cache_spare(pool, most, goal->last);
		if (!block)
			break;
		end_block(block);
	}
	vs_lock_drop(&vs_segment_lock);
	vs_context_unrelax(mode);
	vs_lock_take(&vs_segment_lock);
	vs_pool_stream_collect();
}

static void give_back(struct vs_pool *pool, const struct goal *goal,
		      enum vs_pool_effort effort)
{
	bool any;

	vs_lock_take(&vs_segment_lock);
	any = pool->cached && pool->reserved > goal->keep;
	vs_lock_drop(&vs_segment_lock);
	if (!any)
		return;
	find_done(pool, effort);
	vs_lock_take(&vs_segment_lock);
	release(pool, goal);
	vs_lock_drop(&vs_segment_lock);
}

void vs_pool_give_back(struct vs_pool *pool, size_t keep,
		       enum vs_pool_effort effort)
{
	const struct goal goal = { .keep = keep, .last = UINT64_MAX };

	give_back(pool, &goal, effort);
}

CUresult vs_pool_trim(CUmemoryPool handle, size_t keep)
{
	const struct goal goal = {
		.keep = keep, .least = true, .last = UINT64_MAX,
	};
	CUresult rc = vs_real.cuMemPoolTrimTo(handle, keep);
	struct vs_pool *p;

	if (rc)
		return rc;
	vs_lock_take(&vs_segment_lock);
	p = vs_pool_find(handle);
	if (p)
		p->users++;
	vs_lock_drop(&vs_segment_lock);
	if (!p)
		return rc;
	give_back(p, &goal, VS_POOL_STAY);
	vs_lock_take(&vs_segment_lock);
	vs_pool_drop(p);
	vs_lock_drop(&vs_segment_lock);
	return rc;
}

/* Lock held; dropped meanwhile.  The next pool that keeps anything on the
 * device, or on any; a pool in use stays in the list. */
static void release_all(bool any, CUdevice device)
{
	const struct goal goal = { .last = UINT64_MAX };
	struct vs_pool *p = vs_pool_first(), *next;

	while (p) {
		p->users++;
		if (p->cached && (any || p->device == device))
			release(p, &goal);
		next = p->next;
		vs_pool_drop(p);
		p = next;
	}
}

void vs_pool_make_room(CUdevice device)
{
	size_t kept;

	vs_lock_take(&vs_segment_lock);
	kept = vs_pool_spare(device);
	vs_lock_drop(&vs_segment_lock);
	if (!kept)
		return;
	vs_pool_stream_wait(device);
	vs_lock_take(&vs_segment_lock);
	release_all(false, device);
	vs_lock_drop(&vs_segment_lock);
}

void vs_pool_settle(void)
{
	vs_lock_take(&vs_segment_lock);
	vs_pool_stream_rest();
	release_all(true, 0);
	vs_lock_drop(&vs_segment_lock);
}

static bool keeps_too_much(const struct vs_pool *pool)
{
	return pool->cached && pool->reserved > pool->threshold;
}

void vs_pool_watch(const struct vs_pool *pool)
{
	if (watched || !keeps_too_much(pool))
		return;
	watched = true;
	atomic_store(&unwatched, true);
}

bool vs_pool_unwatched(void)
{
	return atomic_load_explicit(&unwatched, memory_order_relaxed) &&
	       atomic_exchange(&unwatched, false);
}

/* Lock held; dropped meanwhile.  Nothing is waited for in streams that are in
 * use. */
static void give_back_old(struct vs_pool *p, double now)
{
	const struct goal goal = { .keep = p->threshold, .last = p->old };

	if (now - p->old_since < OLD)
		return;
	if (keeps_too_much(p) && goal.last) {
		vs_lock_drop(&vs_segment_lock);
		give_back(p, &goal, VS_POOL_LOOK);
		vs_lock_take(&vs_segment_lock);
	}
	p->old = vs_pool_stream_now();
	p->old_since = now;
}

/* Lock held; dropped meanwhile.  Whether to look again. */
static bool give_back_unused(double now)
{
	struct vs_pool *p = vs_pool_first(), *next;
	bool again = false;

	while (p) {
		p->users++;
		if (keeps_too_much(p) && p->uses == p->uses_seen) {
			vs_lock_drop(&vs_segment_lock);
			vs_pool_give_back(p, p->threshold, VS_POOL_STAY);
			vs_lock_take(&vs_segment_lock);
		} else {
			give_back_old(p, now);
		}
		p->uses_seen = p->uses;
		again |= keeps_too_much(p);
		next = p->next;
		vs_pool_drop(p);
		p = next;
	}
	return again;
}

double vs_pool_idle(double now)
{
	bool again = false;

	vs_lock_take(&vs_segment_lock);
	if (watched)
		again = give_back_unused(now);
	watched = again;
	vs_lock_drop(&vs_segment_lock);
	return again ? now + PERIOD : 0;
}
