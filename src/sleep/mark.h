/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mark - the calls that tell whether a context is at rest.
 *
 * All of them may block, so they are for the waiter.  The caller has pinned
 * the context and holds no lock.
 */
#ifndef VS_SLEEP_MARK_H
#define VS_SLEEP_MARK_H

#include <stdbool.h>

#include "base/context.h"
#include "base/why.h"

/* An event about all that is queued now.  VS_BUSY: a capture runs; VS_FAILED:
 * the context is lost; VS_CUDA.  *event may be there then too. */
enum vs_status vs_mark_record(struct vs_context *context, CUevent *event,
			      struct vs_why *why);
/* For drivers without cuCtxRecordEvent: wait for it.  Likewise. */
enum vs_status vs_mark_synchronize(struct vs_context *context,
				   struct vs_why *why);
/* It is done, or has failed, which @why then says. */
bool vs_mark_ready(const struct vs_context *context, CUevent event,
		   struct vs_why *why);

#endif
