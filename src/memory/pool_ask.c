/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and frees of stream-ordered memory. */
#include <config.h>

#include "memory/pool.h"
#include "memory/pool_cache.h"
#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/arena_space.h"
#include "memory/capture.h"
#include "memory/quarantine.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#define BEYOND ((size_t)1 << 44)	/* bytes that no device has */
#define ASKED 4			/* streams that one request asks about */
#define MUCH ((size_t)1 << 30)	/* bytes kept of other sizes */

/* One request under way.  Its pool and stream are held. */
struct request {
	const struct vs_pool_ask *ask;
	struct vs_pool_key key;
	struct vs_pool_want want;
	struct vs_pool_stream *stream;
	CUdeviceptr base;
};

static size_t counted(size_t size)
{
	return (size + VS_ARENA_UNIT - 1) / VS_ARENA_UNIT * VS_ARENA_UNIT;
}

static void raise(size_t *high, size_t now)
{
	if (*high < now)
		*high = now;
}

/* Lock held.  A block that is in no list belongs to the program from here on;
 * false for lack of host memory. */
static bool hand_out(struct vs_block *block, struct vs_pool_stream *stream,
		     size_t size)
{
	struct vs_pool *pool = block->pool;

	block->size = size;
	block->sync_memops = false;
	block->id = vs_segment_new_id();
	if (!vs_segment_add_block(block))
		return false;
	block->order->blocks--;
	block->order = stream;
	stream->blocks++;
	pool->used += counted(size);
	raise(&pool->used_high, pool->used);
	pool->users++;
	pool->uses++;
	return true;
}

/* Lock held.  What is taken out of a list is used or put back. */
static bool use(struct request *r, struct vs_block *block)
{
	if (!block)
		return false;
	if (hand_out(block, r->stream, r->ask->size)) {
		r->base = block->base;
		return true;
	}
	vs_pool_cache_put(block);
	return false;
}

/* The usual case: no call of the driver, and none that waits. */
static bool use_own(struct request *r)
{
	const struct vs_pool_ask *ask = r->ask;
	struct vs_pool_stream *s;
	bool found = false;

	vs_lock_take(&vs_segment_lock);
	s = r->stream = vs_pool_stream_find(&r->key);
	if (s)
		r->want.pool = ask->named ? vs_pool_find(ask->pool) :
					    vs_pool_current(s->device);
	if (s && r->want.pool)
		found = use(r, vs_pool_cache_own(&r->want, s));
	vs_lock_drop(&vs_segment_lock);
	return found;
}

static bool use_done(struct request *r)
{
	bool found;

	vs_lock_take(&vs_segment_lock);
	found = use(r, vs_pool_cache_done(&r->want));
	vs_lock_drop(&vs_segment_lock);
	return found;
}

/* What other streams have freed and, as they say now, come past. */
static bool use_others(struct request *r)
{
	struct vs_pool_stream *s;
	int nth;

	for (nth = 0; nth < ASKED; nth++) {
		vs_lock_take(&vs_segment_lock);
		s = vs_pool_cache_holder(&r->want, nth);
		if (s)
			vs_pool_stream_claim(s);
		vs_lock_drop(&vs_segment_lock);
		if (!s)
			return false;
		vs_pool_stream_ask(s, VS_POOL_LOOK);
		if (use_done(r))
			return true;
	}
	return false;
}

/* What another stream has freed, and this one waits for. */
static bool use_after(struct request *r)
{
	struct vs_pool_stream *s;
	struct vs_block *block = NULL;
	bool used;

	vs_lock_take(&vs_segment_lock);
	s = vs_pool_cache_holder(&r->want, 0);
	if (s)
		block = vs_pool_cache_pending(&r->want, s);
	if (block)
		vs_pool_stream_claim(s);
	vs_lock_drop(&vs_segment_lock);
	if (!block)
		return false;
	used = vs_pool_stream_follow(s, block->number, &r->key);
	vs_lock_take(&vs_segment_lock);
	if (used)
		used = use(r, block);
	else
		vs_pool_cache_put(block);
	vs_lock_drop(&vs_segment_lock);
	return used;
}

/* Room within the pool's own limit, for @span bytes more. */
static bool reserve(struct vs_pool *pool, size_t span)
{
	size_t most = pool->max_size;
	bool fits;

	vs_lock_take(&vs_segment_lock);
	fits = !most || pool->reserved + span <= most;
	vs_lock_drop(&vs_segment_lock);
	if (!fits && span <= most)
		vs_pool_give_back(pool, most - span, VS_POOL_STAY);
	vs_lock_take(&vs_segment_lock);
	fits = !most || pool->reserved + span <= most;
	if (fits)
		pool->reserved += span;
	vs_lock_drop(&vs_segment_lock);
	return fits;
}

/* Much is kept of sizes that are not asked for: not for ever. */
static void bound(struct vs_pool *pool, size_t span)
{
	bool much;

	vs_lock_take(&vs_segment_lock);
	much = pool->cached > MUCH && pool->cached > pool->used &&
	       span > VS_ARENA_MAX;
	span = pool->reserved > span ? pool->reserved - span : 0;
	vs_lock_drop(&vs_segment_lock);
	if (much)
		vs_pool_give_back(pool, span, VS_POOL_LOOK);
}

/* Fresh memory, live but in no pool, becomes the request's. */
static void adopt(struct request *r, CUdeviceptr base)
{
	struct vs_pool *pool = r->want.pool;
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find(base);
	block->segment->live_bytes -= block->size - r->ask->size;
	block->size = r->ask->size;
	block->pool = pool;
	block->order = r->stream;
	block->size_class = r->want.size_class;
	r->stream->blocks++;
	pool->reserved += block->span - r->want.span;
	raise(&pool->reserved_high, pool->reserved);
	pool->used += counted(block->size);
	raise(&pool->used_high, pool->used);
	pool->users++;
	pool->uses++;
	vs_lock_drop(&vs_segment_lock);
	r->base = base;
}

static enum vs_status make(const struct request *r, CUdeviceptr *base,
			   struct vs_why *why)
{
	CUdevice device = r->want.pool->device;
	CUstreamCaptureMode mode = vs_context_relax();
	enum vs_status st = VS_REFUSED;

	if (vs_vmm_usable(device))
		st = vs_allocator_make(device, NULL, r->want.tag, r->want.span,
				       base, why);
	vs_context_unrelax(mode);
	return st;
}

/* A stream can be named where no context is current. */
static enum vs_status make_anywhere(const struct request *r,
				    CUdeviceptr *base, struct vs_why *why)
{
	struct vs_context_scope scope;
	struct vs_context *c;
	enum vs_status st;

	if (vs_context_current())
		return make(r, base, why);
	c = vs_context_pin(r->stream->context);
	if (!c)
		return VS_REFUSED;
	st = vs_context_enter(c, &scope, why);
	if (!st) {
		st = make(r, base, why);
		vs_context_leave(&scope);
	}
	vs_context_unpin(c);
	return st;
}

static enum vs_status use_fresh(struct request *r, struct vs_why *why)
{
	struct vs_pool *pool = r->want.pool;
	CUdeviceptr base;
	enum vs_status st;

	bound(pool, r->want.span);
	if (!reserve(pool, r->want.span))
		return vs_why_set(why, VS_NOMEM, "the pool is as large as it "
				  "may be");
	st = make_anywhere(r, &base, why);
	if (!st) {
		adopt(r, base);
		return st;
	}
	vs_lock_take(&vs_segment_lock);
	pool->reserved -= r->want.span;
	vs_lock_drop(&vs_segment_lock);
	return st;
}

/* As the driver: dependencies first, then frees that are waited for. */
static enum vs_status use_scarce(struct request *r, struct vs_why *why)
{
	CUdevice device = r->want.pool->device;

	if (r->want.pool->depend && use_after(r))
		return VS_OK;
	vs_pool_stream_wait(device);
	if (use_done(r))
		return VS_OK;
	vs_allocator_make_room(device, r->stream->context);
	return use_fresh(r, why);
}

/* VS_REFUSED and VS_CUDA: the driver may have more luck. */
static enum vs_status serve(struct request *r)
{
	struct vs_why why = { .status = VS_OK };
	enum vs_status st;

	if (use_done(r) || (r->want.pool->opportunistic && use_others(r)))
		return VS_OK;
	st = use_fresh(r, &why);
	if (st == VS_NOMEM)
		st = use_scarce(r, &why);
	if (st && st != VS_REFUSED)
		vs_log_debug("allocation of %zu bytes in a stream: %s",
			     r->ask->size, why.text);
	if (st == VS_CUDA)
		vs_allocator_say_native(&why);
	return st;
}

/* The stream and the pool of a request, held; false: native. */
static bool hold(struct request *r)
{
	struct vs_pool_stream *s;
	struct vs_pool *p = NULL;

	if (!r->stream && !vs_pool_stream_learn(&r->key))
		return false;
	vs_lock_take(&vs_segment_lock);
	s = r->stream = vs_pool_stream_find(&r->key);
	if (s) {
		s->blocks++;
		p = r->ask->named ? vs_pool_find(r->ask->pool) :
				    vs_pool_current(s->device);
	}
	if (p)
		p->users++;
	vs_lock_drop(&vs_segment_lock);
	if (s && !p)
		p = vs_pool_learn(r->ask, s->device);
	r->want.pool = p;
	return p && !p->native;
}

static void let_go(struct request *r)
{
	vs_lock_take(&vs_segment_lock);
	if (r->stream)
		r->stream->blocks--;
	if (r->want.pool)
		vs_pool_drop(r->want.pool);
	vs_lock_drop(&vs_segment_lock);
}

static bool serve_held(struct request *r, CUresult *rc)
{
	enum vs_status st = VS_REFUSED;

	if (hold(r))
		st = serve(r);
	let_go(r);
	if (st == VS_REFUSED || st == VS_CUDA)
		return false;
	*rc = st ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	return true;
}

bool vs_pool_alloc(const struct vs_pool_ask *ask, CUdeviceptr *out,
		   CUresult *rc)
{
	struct request r;

	r.ask = ask;
	r.want.tag = vs_tag_current();
	if (!out || !ask->size || ask->size > BEYOND ||
	    r.want.tag == VS_TAG_NATIVE ||
	    vs_pool_captured(ask->stream, ask->per_thread) ||
	    vs_pool_key(ask->stream, ask->per_thread, &r.key))
		return false;
	r.want.span = vs_pool_class(ask->size, &r.want.size_class);
	r.want.pool = NULL;
	if (use_own(&r))
		*rc = CUDA_SUCCESS;
	else if (!serve_held(&r, rc))
		return false;
	if (!*rc)
		*out = r.base;
	return true;
}

/* Lock held.  @block has left the table.  In a stream whose context is gone
 * nothing runs any more. */
static void keep(struct vs_block *block, struct vs_pool_stream *stream)
{
	struct vs_pool *pool = block->pool;

	pool->used -= counted(block->size);
	pool->uses++;
	block->order->blocks--;
	stream->blocks++;
	block->order = stream;
	block->number = vs_pool_stream_free(stream);
	if (!stream->context)
		stream->done = stream->freed;
}

/* Lock held.  Not kept, it is no pool's any more. */
static void part(struct vs_block *block)
{
	struct vs_pool *pool = block->pool;

	pool->reserved -= block->span;
	block->order->blocks--;
	block->pool = NULL;
	block->order = NULL;
	vs_pool_drop(pool);
}

/*
 * Lock held; dropped in the end.  Memory that sleeps goes at once, nothing can
 * be using it; what cannot be kept waits for the next rest.  @own: the
 * stream is this call's.
 */
static void put(struct vs_block *block, struct vs_pool_stream *stream,
		bool own)
{
	bool asleep = block->segment->level, kept = false;
	struct vs_pool *pool = block->pool;
	CUstreamCaptureMode mode;
	uint64_t due;

	keep(block, stream);
	if (!asleep)
		kept = vs_pool_cache_put(block);
	if (kept) {
		due = own ? vs_pool_stream_due(stream) : 0;
		vs_pool_watch(pool);
		vs_pool_drop(pool);
		vs_lock_drop(&vs_segment_lock);
		if (due) {
			vs_pool_stream_mark(stream, due);
			vs_pool_stream_unclaim(stream, 0);
		}
		return;
	}
	part(block);
	vs_segment_pin(block->segment);
	vs_lock_drop(&vs_segment_lock);
	if (!asleep) {
		vs_quarantine_add(block);
		return;
	}
	mode = vs_context_relax();
	vs_quarantine_end(block);
	vs_context_unrelax(mode);
}

static struct vs_block *find(CUdeviceptr base)
{
	struct vs_block *block = vs_segment_find(base);

	return block && block->pool ? block : NULL;
}

static bool is_ours(CUdeviceptr base)
{
	bool yes;

	vs_lock_take(&vs_segment_lock);
	yes = find(base) != NULL;
	vs_lock_drop(&vs_segment_lock);
	return yes;
}

bool vs_pool_free(CUdeviceptr base, CUstream stream, bool per_thread,
		  CUresult *rc)
{
	struct vs_pool_stream *s;
	struct vs_block *block;
	struct vs_pool_key key;

	if (!is_ours(base))
		return false;
	*rc = CUDA_ERROR_INVALID_VALUE;
	if (vs_pool_captured(stream, per_thread))
		return true;
	*rc = vs_pool_key(stream, per_thread, &key);
	if (*rc)
		return true;
	*rc = CUDA_ERROR_INVALID_VALUE;
	vs_lock_take(&vs_segment_lock);
	s = vs_pool_stream_find(&key);
	if (!s) {
		vs_lock_drop(&vs_segment_lock);
		if (!vs_pool_stream_learn(&key))
			return true;
		vs_lock_take(&vs_segment_lock);
		s = vs_pool_stream_find(&key);
	}
	block = s ? find(base) : NULL;
	if (!block) {
		vs_lock_drop(&vs_segment_lock);
		return true;
	}
	*rc = CUDA_SUCCESS;
	vs_segment_remove_block(block);
	put(block, s, true);
	return true;
}

/* The stream of the allocation orders what used the memory before that. */
void vs_pool_free_taken(struct vs_block *block)
{
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(block->segment);
	put(block, block->order, false);
}
