/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture - the set of capturing streams.
 *
 * cuCtxRecordEvent or a synchronise of a context with a capturing stream
 * fails with 900 and breaks the capture, so both are made only under the lock
 * and with the set empty.  A stream leaves the set when cuStreamIsCapturing
 * says so, or when it or its context is gone.  Rank CAPTURE; driver calls
 * that only begin, query or record are made under it.
 */
#ifndef VS_MEMORY_CAPTURE_H
#define VS_MEMORY_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cuda.h"

/* Around the real cuStreamBeginCapture*: the lock, then tell the result. */
void vs_capture_begin(void);
void vs_capture_began(CUstream stream, bool per_thread, CUresult rc);

/* After the real cuStreamEndCapture*, on the same thread, any result. */
void vs_capture_ended(CUstream stream, bool per_thread);

/* Around the real cuStreamDestroy*: vs_capture_begin first. */
void vs_capture_stream_gone(CUstream stream, CUresult rc);

/* A context is about to go: its captures are taken out, then dropped, or
 * put back when it stays. */
struct vs_capture_entry;
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

#endif
