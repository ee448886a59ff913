/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline - copies of one device that are queued, one context at a time.
 *
 * The meter follows at most two windows behind the link, which never idles.
 * Where the context changes everything is waited for.  For one thread, whose
 * current context is the pipeline's from enter to leave.
 */
#ifndef VS_BACKUP_PIPELINE_H
#define VS_BACKUP_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "base/cuda.h"
#include "base/why.h"

struct vs_pipeline {
	_Atomic uint64_t *done;		/* set by the owner: bytes copied */
	CUstream stream;		/* for copies; valid when entered */
	struct vs_context *context;	/* NULL: not entered */
	struct vs_context_scope scope;
	CUevent event;	/* NULL: none; behind the last full window */
	size_t queued;	/* bytes behind the event */
	size_t window;	/* bytes in front of it */
};

/* Copies go through our stream of @context, which is pinned, from now on. */
enum vs_status vs_pipeline_enter(struct vs_pipeline *pipeline,
				 struct vs_context *context,
				 struct vs_why *why);

/* @size bytes have been queued on the stream. */
enum vs_status vs_pipeline_queued(struct vs_pipeline *pipeline, size_t size,
				  struct vs_why *why);

/* Wait for everything: also on failure no copy is in flight any more. */
enum vs_status vs_pipeline_leave(struct vs_pipeline *pipeline,
				 struct vs_why *why);

#endif
