/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/capture.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A default stream of a thread means another one in each thread. */
struct key {
	CUstream stream;
	pid_t thread;
};

struct vs_capture_entry {
	struct key key;
	pid_t beginner;		/* the thread that began it */
	CUcontext context;	/* of the stream */
	CUcontext known;	/* which it is part of, as a green one is */
	struct vs_capture_entry *next;
};

static struct vs_lock capture_lock = VS_LOCK(VS_RANK_CAPTURE);
static struct vs_capture_entry *entries;		/* under capture_lock */
static _Atomic unsigned running;	/* their number, and that of those which
					   begin or whose stream goes */
static bool untold;	/* a capture that could not be recorded */
static struct vs_capture_call *calls;	/* under capture_lock */
static _Atomic unsigned calling;	/* their number */

#define LOOK_AGAIN 200000	/* nanoseconds */

static pid_t own_thread(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* The default streams have two spellings each. */
static struct key key_of(CUstream stream, bool per_thread)
{
	struct key key = { .stream = stream };

	if (!stream)
		key.stream = per_thread ? CU_STREAM_PER_THREAD :
					  CU_STREAM_LEGACY;
	if (key.stream == CU_STREAM_PER_THREAD)
		key.thread = own_thread();
	return key;
}

static bool still_capturing(struct key key)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult rc = vs_real.cuStreamIsCapturing(key.stream, &status);

	return !rc && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static struct vs_capture_entry **find(struct key key)
{
	struct vs_capture_entry **link;

	for (link = &entries; *link; link = &(*link)->next)
		if ((*link)->key.stream == key.stream &&
		    (*link)->key.thread == key.thread)
			return link;
	return NULL;
}

static void drop(struct vs_capture_entry **link)
{
	struct vs_capture_entry *gone = *link;

	*link = gone->next;
	atomic_fetch_sub(&running, 1);
	free(gone);
}

static CUcontext context_of(CUstream stream)
{
	CUcontext context;

	if (stream && stream != CU_STREAM_LEGACY &&
	    stream != CU_STREAM_PER_THREAD &&
	    !vs_real.cuStreamGetCtx(stream, &context))
		return context;
	return vs_real.cuCtxGetCurrent(&context) ? NULL : context;
}

static bool in_the_way(CUcontext context)
{
	const struct vs_capture_call *c;

	for (c = calls; c; c = c->next)
		if (c->context == context && vs_lock_now() < c->until)
			return true;
	return false;
}

/* That of a green context is the primary one, whose events are about both. */
static CUcontext known_context(CUstream stream)
{
	CUcontext context = context_of(stream);
	struct vs_context *known = context ? vs_context_pin(context) : NULL;

	if (known) {
		context = known->handle;
		vs_context_unpin(known);
	}
	return context;
}

/* The driver may make us wait for the context of the stream as well. */
void vs_capture_begin_on(CUstream stream)
{
	static const struct timespec nap = { .tv_nsec = LOOK_AGAIN };
	CUcontext context = NULL;

	vs_lock_take(&capture_lock);
	while (atomic_load(&calling) && (!context || in_the_way(context))) {
		vs_lock_drop(&capture_lock);
		if (context)
			nanosleep(&nap, NULL);
		else
			context = known_context(stream);
		vs_lock_take(&capture_lock);
		if (!context)
			break;
	}
	atomic_fetch_add(&running, 1);
	vs_lock_drop(&capture_lock);
}

static void put_in(struct vs_capture_entry *e)
{
	e->next = entries;
	entries = e;
}

void vs_capture_began(CUstream stream, bool per_thread, CUresult rc)
{
	struct vs_capture_entry *e = NULL;

	if (!rc)
		e = calloc(1, sizeof(*e));
	if (e) {
		e->key = key_of(stream, per_thread);
		e->beginner = own_thread();
		e->context = context_of(stream);
		e->known = known_context(stream);
	}
	vs_lock_take(&capture_lock);
	if (e)
		put_in(e);
	else if (!rc)
		untold = true;
	else
		atomic_fetch_sub(&running, 1);
	vs_lock_drop(&capture_lock);
}

void vs_capture_ended(CUstream stream, bool per_thread)
{
	struct key key = key_of(stream, per_thread);
	struct vs_capture_entry **link;

	vs_lock_take(&capture_lock);
	link = find(key);
	if (link && !still_capturing(key))
		drop(link);
	vs_lock_drop(&capture_lock);
}

/* Taken out it still counts as running. */
struct vs_capture_entry *vs_capture_stream_leave(CUstream stream)
{
	struct vs_capture_entry **link, *leaving = NULL;

	if (!vs_capture_any())
		return NULL;
	vs_lock_take(&capture_lock);
	link = find(key_of(stream, false));
	if (link) {
		leaving = *link;
		*link = leaving->next;
	}
	vs_lock_drop(&capture_lock);
	return leaving;
}

void vs_capture_stream_left(struct vs_capture_entry *leaving, CUresult rc)
{
	if (!leaving)
		return;
	vs_lock_take(&capture_lock);
	if (rc)
		put_in(leaving);
	else
		atomic_fetch_sub(&running, 1);
	vs_lock_drop(&capture_lock);
	if (!rc)
		free(leaving);
}

struct vs_capture_entry *vs_capture_take(CUcontext context)
{
	struct vs_capture_entry **link, *taken = NULL, *e;

	vs_lock_take(&capture_lock);
	for (link = &entries; (e = *link);) {
		if (e->context != context && e->known != context) {
			link = &e->next;
			continue;
		}
		*link = e->next;
		e->next = taken;
		taken = e;
		atomic_fetch_sub(&running, 1);
	}
	vs_lock_drop(&capture_lock);
	return taken;
}

void vs_capture_drop(struct vs_capture_entry *taken)
{
	struct vs_capture_entry *e;

	while ((e = taken)) {
		taken = e->next;
		free(e);
	}
}

void vs_capture_restore(struct vs_capture_entry *taken)
{
	struct vs_capture_entry *e;

	vs_lock_take(&capture_lock);
	while ((e = taken)) {
		taken = e->next;
		put_in(e);
		atomic_fetch_add(&running, 1);
	}
	vs_lock_drop(&capture_lock);
}

bool vs_capture_any(void)
{
	return atomic_load(&running) != 0;
}

bool vs_capture_mine(void)
{
	struct vs_capture_entry *e;
	bool mine = false;

	if (!vs_capture_any())
		return false;
	vs_lock_take(&capture_lock);
	for (e = entries; e && !mine; e = e->next)
		mine = e->beginner == own_thread() && still_capturing(e->key);
	vs_lock_drop(&capture_lock);
	return mine;
}

/* A capture that the driver ended by itself is found out here; only the
 * thread itself can ask about its default stream. */
static void ask_again(void)
{
	struct vs_capture_entry **link;

	for (link = &entries; *link;)
		if (!(*link)->key.thread && !still_capturing((*link)->key))
			drop(link);
		else
			link = &(*link)->next;
}

bool vs_capture_lock_quiet(char *text, size_t size)
{
	vs_lock_take(&capture_lock);
	ask_again();
	if (!atomic_load(&running))
		return true;
	if (untold)
		snprintf(text, size, "a capture runs that could not be "
			 "recorded for lack of host memory");
	else if (entries)
		snprintf(text, size, "stream %p is capturing",
			 (void *)entries->key.stream);
	else
		snprintf(text, size, "a capture begins or ends");
	vs_lock_drop(&capture_lock);
	return false;
}

void vs_capture_unlock(void)
{
	vs_lock_drop(&capture_lock);
}

bool vs_capture_call(struct vs_capture_call *call, CUcontext context,
		     double seconds, char *text, size_t size)
{
	if (!vs_capture_lock_quiet(text, size))
		return false;
	call->context = context;
	call->until = vs_lock_now() + seconds;
	call->next = calls;
	calls = call;
	atomic_fetch_add(&calling, 1);
	vs_lock_drop(&capture_lock);
	return true;
}

void vs_capture_called(struct vs_capture_call *call)
{
	struct vs_capture_call **link;

	vs_lock_take(&capture_lock);
	for (link = &calls; *link != call; link = &(*link)->next)
		;
	*link = call->next;
	atomic_fetch_sub(&calling, 1);
	vs_lock_drop(&capture_lock);
}
