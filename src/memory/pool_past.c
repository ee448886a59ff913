/* SPDX-License-Identifier: Apache-2.0 */
/* How far the streams are. */
#include <config.h>

#include "memory/pool_stream.h"
#include "memory/pool_cache.h"
#include "memory/pool_mark.h"
#include "memory/capture.h"
#include "memory/device_wait.h"
#include "memory/segment.h"
#include "base/context.h"
#include "base/driver.h"

#define CONTEXTS 64		/* that are waited for at once */
#define LOOKS 64		/* at an event that is about to be ready, */
#define PATIENCE 0.1		/* or seconds, where it matters */

/* Its handle can be used on this thread, and what is recorded there orders
 * nothing else. */
static bool has_handle(const struct vs_pool_stream *s)
{
	return !s->gone && !s->key.context;
}

/* An event behind all that is in the stream now, and behind what it waits for:
 * of that cuStreamQuery need not know while nothing comes after it. */
static bool record(struct vs_pool_stream *s, struct vs_pool_mark *mark)
{
	if (has_handle(s))
		return !vs_real.cuEventRecord(mark->event, s->key.handle);
	return vs_real.cuCtxRecordEvent &&
	       !vs_real.cuCtxRecordEvent(s->context, mark->event);
}

/* @until: look again until then, LOOKS times at least; 0: once. */
static uint64_t look_at_marks(struct vs_pool_stream *s, double until)
{
	int looks = until ? LOOKS : 1;
	CUstreamCaptureMode mode;
	uint64_t done = 0;

	if (!s->marks)
		return 0;
	mode = vs_context_relax();
	do {
		done = vs_pool_mark_poll(&s->marks, done);
	} while (s->marks && (--looks > 0 || vs_lock_now() < until));
	vs_context_unrelax(mode);
	return done;
}

/* @until: number of the last free so far.  True: the mark is in the list;
 * *soon: it will be ready in a moment, and recording it has not lasted. */
static bool mark_quiet(struct vs_pool_stream *s, struct vs_pool_mark *mark,
		       uint64_t until, enum vs_pool_effort effort, bool *soon)
{
	struct vs_capture_call call;
	char text[96];
	bool marked;

	if (!vs_capture_call(&call, s->context, VS_CAPTURE_PATIENCE, text,
			     sizeof(text)))
		return false;
	*soon = has_handle(s) && !vs_real.cuStreamQuery(s->key.handle);
	marked = (*soon || effort != VS_POOL_LOOK) && record(s, mark);
	vs_capture_called(&call);
	if (marked)
		vs_pool_mark_add(&s->marks, mark, until);
	return marked;
}

void vs_pool_stream_ask(struct vs_pool_stream *stream,
			enum vs_pool_effort effort)
{
	bool soon = false, may = effort != VS_POOL_LOOK || has_handle(stream);
	struct vs_pool_mark *mark = NULL;
	uint64_t until, done, wanted;
	double patience;

	vs_lock_take(&vs_segment_lock);
	until = vs_pool_stream_now();
	wanted = stream->freed;
	vs_lock_drop(&vs_segment_lock);
	done = look_at_marks(stream, 0);
	if (may && done < wanted && vs_pool_mark_wanted(stream->marks, wanted))
		mark = vs_pool_mark_get(stream->context);
	if (mark && !mark_quiet(stream, mark, until, effort, &soon))
		vs_pool_mark_put(mark);
	if (soon || effort == VS_POOL_STAY) {
		patience = effort == VS_POOL_STAY && soon ? PATIENCE : 0;
		until = look_at_marks(stream, vs_lock_now() + patience);
		done = until > done ? until : done;
	}
	vs_pool_stream_unclaim(stream, done);
}

uint64_t vs_pool_stream_due(struct vs_pool_stream *stream)
{
	if (stream->gone || stream->claimed || stream->marks ||
	    !vs_pool_stream_claim(stream))
		return 0;
	return vs_pool_stream_now();
}

/* In the stream of the program's own call; the legacy one may not be touched
 * beside captures in others. */
static bool record_own(struct vs_pool_stream *s, struct vs_pool_mark *mark)
{
	struct vs_capture_call call;
	char text[96];
	CUresult rc;

	if (s->key.handle != CU_STREAM_LEGACY)
		return !vs_real.cuEventRecord(mark->event, s->key.handle);
	if (!vs_capture_call(&call, s->context, VS_CAPTURE_PATIENCE, text,
			     sizeof(text)))
		return false;
	rc = vs_real.cuEventRecord(mark->event, s->key.handle);
	vs_capture_called(&call);
	return !rc;
}

void vs_pool_stream_mark(struct vs_pool_stream *stream, uint64_t number)
{
	struct vs_pool_mark *mark = vs_pool_mark_get(stream->context);

	if (mark && record_own(stream, mark))
		vs_pool_mark_add(&stream->marks, mark, number);
	else
		vs_pool_mark_put(mark);
}

/* A new one only where none is open behind free @number. */
static struct vs_pool_mark *mark_behind(struct vs_pool_stream *s,
					uint64_t number, uint64_t until)
{
	struct vs_pool_mark *mark = vs_pool_mark_find(s->marks, number);
	bool soon;

	if (mark || !has_handle(s))
		return mark;
	mark = vs_pool_mark_get(s->context);
	if (mark && mark_quiet(s, mark, until, VS_POOL_MARK, &soon))
		return mark;
	vs_pool_mark_put(mark);
	return NULL;
}

bool vs_pool_stream_follow(struct vs_pool_stream *stream, uint64_t number,
			   const struct vs_pool_key *key)
{
	struct vs_capture_call call;
	struct vs_pool_mark *mark;
	bool follows = false;
	uint64_t until;
	char text[96];

	vs_lock_take(&vs_segment_lock);
	until = vs_pool_stream_now();
	vs_lock_drop(&vs_segment_lock);
	mark = mark_behind(stream, number, until);
	if (mark && vs_capture_call(&call, stream->context,
				    VS_CAPTURE_PATIENCE, text, sizeof(text))) {
		follows = !vs_real.cuStreamWaitEvent(key->handle, mark->event,
						     0);
		vs_capture_called(&call);
	}
	vs_pool_stream_unclaim(stream, 0);
	return follows;
}

/* The contexts in whose streams memory of @device waits to be free. */
static int find_contexts(CUdevice device, CUcontext *out)
{
	struct vs_pool_stream *s;
	int i, count = 0;

	for (s = vs_pool_streams; s && count < CONTEXTS; s = s->all_next) {
		if (s->done >= s->freed || !s->context || s->leaving ||
		    !vs_pool_cache_has(s, device))
			continue;
		for (i = 0; i < count && out[i] != s->context; i++)
			;
		if (i == count)
			out[count++] = s->context;
	}
	return count;
}

static void all_done(CUcontext context, uint64_t until)
{
	struct vs_pool_stream *s;

	vs_lock_take(&vs_segment_lock);
	for (s = vs_pool_streams; s; s = s->all_next)
		if (s->context == context && !s->leaving && s->done < until)
			s->done = until;
	vs_lock_drop(&vs_segment_lock);
}

void vs_pool_stream_wait(CUdevice device)
{
	CUcontext contexts[CONTEXTS];
	CUstreamCaptureMode mode;
	bool captured;
	uint64_t until;
	int i, count;
	CUresult rc;

	vs_lock_take(&vs_segment_lock);
	until = vs_pool_stream_now();
	count = find_contexts(device, contexts);
	vs_lock_drop(&vs_segment_lock);
	mode = vs_context_relax();
	for (i = 0; i < count; i++) {
		rc = vs_device_wait_context(contexts[i], &captured);
		if (!captured && (!rc || vs_driver_sticky(rc)))
			all_done(contexts[i], until);
	}
	vs_context_unrelax(mode);
}

void vs_pool_stream_rest(void)
{
	struct vs_pool_stream *s;

	for (s = vs_pool_streams; s; s = s->all_next)
		s->done = s->freed;
}
