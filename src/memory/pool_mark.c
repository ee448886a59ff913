/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/pool_mark.h"
#include "memory/segment.h"
#include "base/context.h"
#include "base/driver.h"

#include <stdlib.h>

static struct vs_pool_mark *resting;	/* under vs_segment_lock */

static bool create(CUcontext context, CUevent *event)
{
	CUresult rc = CUDA_ERROR_INVALID_CONTEXT;
	struct vs_context_scope scope;
	CUstreamCaptureMode mode;
	struct vs_context *c;

	if (vs_context_current() == context) {
		mode = vs_context_relax();
		rc = vs_real.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
		vs_context_unrelax(mode);
		return !rc;
	}
	c = vs_context_pin(context);
	if (!c)
		return false;
	if (!vs_context_enter(c, &scope, NULL)) {
		rc = vs_real.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
		vs_context_leave(&scope);
	}
	vs_context_unpin(c);
	return !rc;
}

static struct vs_pool_mark *take_resting(CUcontext context)
{
	struct vs_pool_mark **link, *mark;

	vs_lock_take(&vs_segment_lock);
	for (link = &resting; (mark = *link); link = &mark->next)
		if (mark->context == context) {
			*link = mark->next;
			break;
		}
	vs_lock_drop(&vs_segment_lock);
	return mark;
}

struct vs_pool_mark *vs_pool_mark_get(CUcontext context)
{
	struct vs_pool_mark *mark = take_resting(context);

	if (mark)
		return mark;
	mark = calloc(1, sizeof(*mark));
	if (!mark)
		return NULL;
	mark->context = context;
	if (create(context, &mark->event))
		return mark;
	free(mark);
	return NULL;
}

void vs_pool_mark_put(struct vs_pool_mark *mark)
{
	if (!mark)
		return;
	vs_lock_take(&vs_segment_lock);
	mark->next = resting;
	resting = mark;
	vs_lock_drop(&vs_segment_lock);
}

void vs_pool_mark_add(struct vs_pool_mark **list, struct vs_pool_mark *mark,
		      uint64_t number)
{
	while (*list)
		list = &(*list)->next;
	mark->number = number;
	mark->next = NULL;
	*list = mark;
}

bool vs_pool_mark_wanted(const struct vs_pool_mark *list, uint64_t number)
{
	return !list || (!list->next && list->number < number);
}

struct vs_pool_mark *vs_pool_mark_find(struct vs_pool_mark *list,
				       uint64_t number)
{
	while (list && list->number < number)
		list = list->next;
	return list;
}

/* An event that gives an error tells nothing; one of a lost context, that
 * nothing runs there any more. */
uint64_t vs_pool_mark_poll(struct vs_pool_mark **list, uint64_t done)
{
	struct vs_pool_mark *mark;
	CUresult rc;

	while ((mark = *list)) {
		rc = vs_real.cuEventQuery(mark->event);
		if (rc == CUDA_ERROR_NOT_READY)
			break;
		if (!rc || vs_driver_sticky(rc))
			done = mark->number;
		*list = mark->next;
		vs_pool_mark_put(mark);
	}
	return done;
}

void vs_pool_mark_return(struct vs_pool_mark **list)
{
	struct vs_pool_mark *mark;

	while ((mark = *list)) {
		*list = mark->next;
		mark->next = resting;
		resting = mark;
	}
}

void vs_pool_mark_drop(struct vs_pool_mark **list)
{
	struct vs_pool_mark *mark;

	while ((mark = *list)) {
		*list = mark->next;
		free(mark);
	}
}

void vs_pool_mark_forget(CUcontext context)
{
	struct vs_pool_mark **link = &resting, *mark;

	while ((mark = *link)) {
		if (mark->context != context) {
			link = &mark->next;
			continue;
		}
		*link = mark->next;
		free(mark);
	}
}
