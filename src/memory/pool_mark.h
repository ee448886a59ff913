/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_mark - events that tell how far a stream is.
 *
 * A list of marks belongs to who has claimed its stream (pool_stream).  Events
 * are used again; those at rest are under SEGMENT.
 */
#ifndef VS_MEMORY_POOL_MARK_H
#define VS_MEMORY_POOL_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cuda.h"

struct vs_pool_mark {
	CUevent event;
	CUcontext context;
	uint64_t number;	/* frees up to this one are before it */
	struct vs_pool_mark *next;
};

/* Without locks: an event of @context, or NULL; and back (NULL too). */
struct vs_pool_mark *vs_pool_mark_get(CUcontext context);
void vs_pool_mark_put(struct vs_pool_mark *mark);

/* It has been recorded. */
void vs_pool_mark_add(struct vs_pool_mark **list, struct vs_pool_mark *mark,
		      uint64_t number);
/* Frees up to @number are behind the last one, and no two are under way. */
bool vs_pool_mark_wanted(const struct vs_pool_mark *list, uint64_t number);
/* The first one that frees up to @number are before, or NULL. */
struct vs_pool_mark *vs_pool_mark_find(struct vs_pool_mark *list,
				       uint64_t number);
/* Without locks: the number of the last one that is ready, which goes with
 * those before it; or @done. */
uint64_t vs_pool_mark_poll(struct vs_pool_mark **list, uint64_t done);

/* With the lock held.  Their events can be used again; have died; so have
 * those at rest. */
void vs_pool_mark_return(struct vs_pool_mark **list);
void vs_pool_mark_drop(struct vs_pool_mark **list);
void vs_pool_mark_forget(CUcontext context);

#endif
