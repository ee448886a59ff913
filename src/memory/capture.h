/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture - the set of capturing streams.
 *
 * cuCtxRecordEvent or a synchronise of a context with a capturing stream
 * fails with 900 and breaks the capture, so both begin only with the set
 * empty, and while one of them is made no capture begins in its context.  A
 * stream leaves the set when cuStreamIsCapturing says so, or when it or its
 * context is gone.
 *
 * The two may last, recording when the queue of a stream is full, and what
 * they wait for may be up to any other thread.  So they are made without the
 * lock, and hold up nothing but captures in the same context; those too only
 * for a while, since to wait for ever would be worse than a capture that the
 * driver may break.  A capture that spreads into their context from another
 * one is not seen.
 *
 * Rank CAPTURE; driver calls that only query are made under it.
 */
#ifndef VS_MEMORY_CAPTURE_H
#define VS_MEMORY_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cuda.h"

/* Around the real cuStreamBeginCapture*, which may last: it counts as running
 * once none of the calls below is in the way; then tell the result. */
void vs_capture_begin_on(CUstream stream);
void vs_capture_began(CUstream stream, bool per_thread, CUresult rc);

/* After the real cuStreamEndCapture*, on the same thread, any result. */
void vs_capture_ended(CUstream stream, bool per_thread);

/* Around the real cuStreamDestroy*. */
struct vs_capture_entry;
struct vs_capture_entry *vs_capture_stream_leave(CUstream stream);
void vs_capture_stream_left(struct vs_capture_entry *leaving, CUresult rc);

/* A context is about to go: its captures are taken out, then dropped, or
 * put back when it stays. */
struct vs_capture_entry *vs_capture_take(CUcontext context);
void vs_capture_drop(struct vs_capture_entry *taken);
void vs_capture_restore(struct vs_capture_entry *taken);

/* A capture is running somewhere in the process (one load, no lock). */
bool vs_capture_any(void);

/* One that this thread began runs. */
bool vs_capture_mine(void);

/* Take the lock if the set is empty (asking the driver again where it is
 * not); false: a capture runs, not locked, @text says which. */
bool vs_capture_lock_quiet(char *text, size_t size);
void vs_capture_unlock(void);

/*
 * Around cuCtxRecordEvent or a synchronise of @context.  False: a capture runs,
 * @text says which, and the call must not be made.  Else no capture begins in
 * that context until vs_capture_called, or until @seconds have passed.
 */
#define VS_CAPTURE_PATIENCE 10.0	/* of a capture that is to begin */
#define VS_CAPTURE_ENTRY 0.05		/* a synchronise looks when it begins */
struct vs_capture_call {
	CUcontext context;
	double until;
	struct vs_capture_call *next;
};
bool vs_capture_call(struct vs_capture_call *call, CUcontext context,
		     double seconds, char *text, size_t size);
void vs_capture_called(struct vs_capture_call *call);

#endif
