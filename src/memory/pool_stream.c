/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/pool_stream.h"
#include "memory/pool_cache.h"
#include "memory/pool_mark.h"
#include "memory/capture.h"
#include "memory/peer.h"
#include "memory/segment.h"
#include "base/context.h"
#include "base/driver.h"

#include <stdatomic.h>
#include <stdlib.h>

#define BUCKETS 256
#define FRESH 16		/* streams, until those gone are forgotten */

/* under vs_segment_lock */
struct vs_pool_stream *vs_pool_streams;
static struct vs_pool_stream *buckets[BUCKETS];
static uint64_t last_number;
static pthread_cond_t unclaimed = PTHREAD_COND_INITIALIZER;

static _Thread_local uint64_t own_thread
	__attribute__((tls_model("initial-exec")));

/* Unlike the kernel's numbers never used twice. */
static uint64_t thread_number(void)
{
	static _Atomic uint64_t last;

	if (!own_thread)
		own_thread = atomic_fetch_add(&last, 1) + 1;
	return own_thread;
}

static CUstream handle_of(CUstream stream, bool per_thread)
{
	if (stream)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

CUresult vs_pool_key(CUstream stream, bool per_thread,
		     struct vs_pool_key *out)
{
	CUresult rc = CUDA_SUCCESS;

	out->handle = handle_of(stream, per_thread);
	out->context = NULL;
	out->thread = 0;
	if (out->handle == CU_STREAM_PER_THREAD)
		out->thread = thread_number();
	if (out->thread || out->handle == CU_STREAM_LEGACY)
		rc = vs_real.cuCtxGetCurrent(&out->context);
	if (rc)
		return rc;
	if (!vs_real.cuStreamGetId)
		return CUDA_ERROR_NOT_SUPPORTED;
	return vs_real.cuStreamGetId(out->handle, &out->id);
}

bool vs_pool_captured(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!vs_capture_any())
		return false;
	return vs_real.cuStreamIsCapturing(handle_of(stream, per_thread),
					   &status) ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static struct vs_pool_stream **bucket_of(const struct vs_pool_key *key)
{
	uintptr_t h = (uintptr_t)key->handle ^ (uintptr_t)key->context;

	h ^= (uintptr_t)key->thread << 4;
	return &buckets[(h ^ h >> 8 ^ h >> 16) / 16 % BUCKETS];
}

static void unlink_stream(struct vs_pool_stream *s)
{
	struct vs_pool_stream **link = bucket_of(&s->key);

	while (*link && *link != s)
		link = &(*link)->next;
	if (*link)
		*link = s->next;
}

static void relink(struct vs_pool_stream *s)
{
	struct vs_pool_stream **bucket = bucket_of(&s->key);

	s->next = *bucket;
	*bucket = s;
}

/* One with the same handle and another id has been destroyed unseen. */
struct vs_pool_stream *vs_pool_stream_find(const struct vs_pool_key *key)
{
	struct vs_pool_stream *s;

	for (s = *bucket_of(key); s; s = s->next) {
		if (s->key.handle != key->handle ||
		    s->key.context != key->context ||
		    s->key.thread != key->thread)
			continue;
		if (s->key.id == key->id)
			return s;
		unlink_stream(s);
		s->gone = true;
		return NULL;
	}
	return NULL;
}

static bool find_place(const struct vs_pool_key *key, CUcontext *context,
		       CUdevice *device)
{
	struct vs_context *c;

	*context = key->context;
	if (!*context && vs_real.cuStreamGetCtx(key->handle, context))
		return false;
	if (vs_context_note(*context))
		vs_peer_context(*context);
	c = vs_context_pin(*context);
	if (!c)
		return false;
	*context = c->handle;	/* the primary one of a green one */
	*device = c->device;
	vs_context_unpin(c);
	return true;
}

bool vs_pool_stream_learn(const struct vs_pool_key *key)
{
	static unsigned fresh;	/* under vs_segment_lock */
	struct vs_pool_stream *s;
	CUcontext context;
	CUdevice device;

	if (!find_place(key, &context, &device))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s)
		return false;
	s->key = *key;
	s->context = context;
	s->device = device;
	vs_lock_take(&vs_segment_lock);
	if (++fresh % FRESH == 0)
		vs_pool_stream_collect();
	if (vs_pool_stream_find(key)) {
		free(s);
	} else {
		relink(s);
		s->all_next = vs_pool_streams;
		vs_pool_streams = s;
	}
	vs_lock_drop(&vs_segment_lock);
	return true;
}

uint64_t vs_pool_stream_free(struct vs_pool_stream *stream)
{
	return stream->freed = ++last_number;
}

uint64_t vs_pool_stream_now(void)
{
	return last_number;
}

bool vs_pool_stream_claim(struct vs_pool_stream *stream)
{
	if (stream->claimed || stream->leaving || !stream->context)
		return false;
	stream->claimed = true;
	return true;
}

void vs_pool_stream_unclaim(struct vs_pool_stream *stream, uint64_t done)
{
	vs_lock_take(&vs_segment_lock);
	if (stream->done < done)
		stream->done = done;
	stream->claimed = false;
	pthread_cond_broadcast(&unclaimed);
	vs_lock_drop(&vs_segment_lock);
}

static struct vs_pool_stream *find_handle(CUstream handle)
{
	const struct vs_pool_key key = { .handle = handle };
	struct vs_pool_stream *s;

	for (s = *bucket_of(&key); s; s = s->next)
		if (s->key.handle == handle && !s->key.context)
			break;
	return s;
}

struct vs_pool_stream *vs_pool_stream_leave(CUstream stream)
{
	struct vs_pool_stream *s;
	uint64_t until;
	bool pending = false;

	vs_lock_take(&vs_segment_lock);
	while ((s = find_handle(stream)) && s->claimed)
		vs_lock_wait(&vs_segment_lock, &unclaimed, 0);
	if (s) {
		s->claimed = true;
		pending = s->cached && s->done < s->freed &&
			  !vs_pool_mark_find(s->marks, s->freed);
	}
	until = last_number;
	vs_lock_drop(&vs_segment_lock);
	/* Afterwards nobody could record anything in it. */
	if (pending && !vs_pool_captured(stream, false))
		vs_pool_stream_mark(s, until);
	return s;
}

void vs_pool_stream_left(struct vs_pool_stream *stream, CUresult result)
{
	if (!stream)
		return;
	vs_lock_take(&vs_segment_lock);
	if (!result && !stream->gone) {
		unlink_stream(stream);
		stream->gone = true;
	}
	vs_lock_drop(&vs_segment_lock);
	vs_pool_stream_unclaim(stream, 0);
}

void vs_pool_context_leave(CUcontext context)
{
	struct vs_pool_stream *s;

	vs_lock_take(&vs_segment_lock);
	for (s = vs_pool_streams; s;) {
		if (s->context != context || s->leaving) {
			s = s->all_next;
		} else if (s->claimed) {
			vs_lock_wait(&vs_segment_lock, &unclaimed, 0);
			s = vs_pool_streams;
		} else {
			s->leaving = true;
			unlink_stream(s);
		}
	}
	vs_lock_drop(&vs_segment_lock);
}

/* With a context its work has ended, and its events. */
void vs_pool_context_left(CUcontext context, bool gone)
{
	struct vs_pool_stream *s;

	vs_lock_take(&vs_segment_lock);
	for (s = vs_pool_streams; s; s = s->all_next) {
		if (s->context != context || !s->leaving)
			continue;
		s->leaving = false;
		if (gone) {
			s->gone = true;
			s->context = NULL;
			s->done = s->freed;
			vs_pool_mark_drop(&s->marks);
		} else if (!s->gone) {
			relink(s);
		}
	}
	if (gone)
		vs_pool_mark_forget(context);
	vs_lock_drop(&vs_segment_lock);
}

static bool forgettable(const struct vs_pool_stream *s)
{
	return !s->blocks && !s->claimed && !s->leaving &&
	       (s->gone || s->key.thread);
}

void vs_pool_stream_collect(void)
{
	struct vs_pool_stream **link = &vs_pool_streams, *s;

	while ((s = *link)) {
		if (!forgettable(s)) {
			link = &s->all_next;
			continue;
		}
		*link = s->all_next;
		unlink_stream(s);
		vs_pool_mark_return(&s->marks);
		vs_pool_cache_forget(s);
		free(s);
	}
}
