/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_wait - wait until the work queued on a device so far is done, as a
 * free of plain memory does.
 *
 * Called on program threads without locks, in RELAXED capture mode.  Breaks no
 * capture: while one runs nothing is waited for, and the caller is told.
 */
#ifndef VS_MEMORY_DEVICE_WAIT_H
#define VS_MEMORY_DEVICE_WAIT_H

#include <stdbool.h>

#include "base/cuda.h"

/* The driver's error about @context, or success: another context that is lost
 * has no work left.  *captured: a capture runs, and nothing was waited for. */
CUresult vs_device_wait(CUdevice device, CUcontext context, bool *captured);

/* The same for one context alone; an error too where it is no longer known. */
CUresult vs_device_wait_context(CUcontext context, bool *captured);

#endif
