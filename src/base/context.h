/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context - the contexts that we know, per device, and our stream in them.
 *
 * Learned from the program's own calls; never retained by us.  Rank CONTEXT;
 * no driver call is made under the lock.  Records are pinned while used; a
 * context that the program destroys waits for the pins (vs_context_detach).
 */
#ifndef VS_BASE_CONTEXT_H
#define VS_BASE_CONTEXT_H

#include <stdbool.h>

#include "base/cuda.h"
#include "base/why.h"

#define VS_CONTEXT_MAX 64	/* contexts that one operation looks at */

struct vs_context {
	CUcontext handle;
	CUdevice device;
	bool primary;
	CUcontext owner;	/* of a green one: the primary it is part of */
	unsigned long serial;	/* never used twice, as the handle may be */
	unsigned pins;		/* under the lock */
	CUstream stream;	/* ours, non-blocking; for the operation */
	CUmodule page_hash;	/* of backup/page_hash; NULL: not loaded */
	struct vs_context *next;
};

/* Remember @handle (NULL: the one current on this thread).  True when new;
 * false also when there is none or its device cannot be told. */
bool vs_context_note(CUcontext handle);
/* The same for the primary context of @device. */
bool vs_context_note_primary(CUcontext handle, CUdevice device);

/*
 * A green context of @device is part of the primary one, whose memory it has
 * and whose work includes its own; and it may be current to one thread only.
 * So whoever asks for it gets the primary context, and no visit meets it.
 */
void vs_context_note_green(CUcontext green, CUdevice device);

/* The context of the memory that this thread would allocate, or NULL. */
CUcontext vs_context_current(void);

/* The handle of the primary context of @device, or NULL when not known. */
CUcontext vs_context_primary(CUdevice device);

/* The record of @handle pinned, or NULL; the same of a serial. */
struct vs_context *vs_context_pin(CUcontext handle);
struct vs_context *vs_context_pin_serial(unsigned long serial);
void vs_context_unpin(struct vs_context *context);

/* How many are known; how many on each of the devices 0 to @max - 1. */
int vs_context_count(void);
void vs_context_count_each(int *counts, int max);

/* All known contexts, or those of one device, pinned; how many. */
int vs_context_pin_all(struct vs_context **out, int max);
int vs_context_pin_device(CUdevice device, struct vs_context **out, int max);

/* Take all records of a context out before the driver destroys it; waits for
 * the pins.  NULL when it is not known.  Then forget them, or put them back
 * when the context lives on. */
struct vs_context *vs_context_detach(CUcontext handle);
void vs_context_forget(struct vs_context *context);
void vs_context_attach(struct vs_context *context);

/* Our stream in a pinned context that is current; for the thread of the
 * operation that alone works in that context. */
enum vs_status vs_context_stream(struct vs_context *context, CUstream *out,
				 struct vs_why *why);

/* Make @context current on this thread, in RELAXED capture mode, until
 * vs_context_leave. */
struct vs_context_scope {
	CUstreamCaptureMode mode;
};
enum vs_status vs_context_enter(struct vs_context *context,
				struct vs_context_scope *scope,
				struct vs_why *why);
void vs_context_leave(struct vs_context_scope *scope);

/* Switch this thread to RELAXED capture mode; returns the mode to restore. */
CUstreamCaptureMode vs_context_relax(void);
void vs_context_unrelax(CUstreamCaptureMode mode);

#endif
