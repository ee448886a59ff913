/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/detach.h"
#include "memory/arena.h"
#include "memory/capture.h"
#include "memory/ipc_import.h"
#include "memory/managed.h"
#include "memory/pool_stream.h"
#include "memory/quarantine.h"
#include "memory/spare.h"
#include "memory/unmanaged.h"
#include "base/context.h"

#include <stdlib.h>

struct vs_detached {
	CUcontext context;
	struct vs_context *record;
	struct vs_capture_entry *captures;
	struct vs_segment **segments;
	size_t count;
};

static void hide(struct vs_segment *s, bool hidden)
{
	if (s->part)
		vs_arena_hide(s, hidden);
	else
		vs_segment_hide_block(s->block, hidden);
}

static struct vs_segment *next_of(CUcontext context)
{
	struct vs_segment *s;
	size_t i;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (s->context == context)
			return s;
	}
	return NULL;
}

struct vs_detached *vs_detach_take(CUcontext context,
						  CUdevice device)
{
	struct vs_detached *d = calloc(1, sizeof(*d));
	struct vs_segment *s;
	size_t room;

	if (!context)
		context = vs_context_primary(device);
	if (!d || !context) {
		free(d);
		return NULL;
	}
	d->context = context;
	/* Its streams may not be asked about once it is being destroyed. */
	vs_pool_context_leave(context);
	d->captures = vs_capture_take(context);
	d->record = vs_context_detach(context);
	vs_lock_take(&vs_segment_lock);
	room = vs_segment_count() + 1;
	d->segments = calloc(room, sizeof(s));
	/* A program that allocates in what it destroys gets no more. */
	while (d->segments && d->count < room && (s = next_of(context))) {
		/* It may be gone when the pins are. */
		if (s->pins) {
			vs_segment_wait_change();
			continue;
		}
		vs_segment_remove(s);
		vs_spare_leave(s);
		hide(s, true);
		d->segments[d->count++] = s;
	}
	vs_lock_drop(&vs_segment_lock);
	return d;
}

void vs_detach_drop(struct vs_detached *detached)
{
	CUstreamCaptureMode mode;
	size_t i;

	if (!detached)
		return;
	vs_pool_context_left(detached->context, true);
	vs_context_forget(detached->record);
	vs_capture_drop(detached->captures);
	vs_unmanaged_drop_context(detached->context);
	vs_managed_drop_context(detached->context);
	vs_lock_take(&vs_segment_lock);
	vs_quarantine_forget_natives(detached->context);
	vs_lock_drop(&vs_segment_lock);
	mode = vs_context_relax();
	vs_ipc_drop_context(detached->context);
	for (i = 0; i < detached->count; i++) {
		vs_lock_take(&vs_segment_lock);
		vs_quarantine_forget(detached->segments[i]);
		vs_lock_drop(&vs_segment_lock);
		vs_segment_destroy(detached->segments[i]);
	}
	vs_context_unrelax(mode);
	free(detached->segments);
	free(detached);
}

void vs_detach_restore(struct vs_detached *detached)
{
	size_t i;

	if (!detached)
		return;
	vs_context_attach(detached->record);
	vs_pool_context_left(detached->context, false);
	vs_capture_restore(detached->captures);
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < detached->count; i++) {
		vs_segment_add(detached->segments[i]);
		vs_spare_return(detached->segments[i]);
		hide(detached->segments[i], false);
	}
	vs_lock_drop(&vs_segment_lock);
	free(detached->segments);
	free(detached);
}
