/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine - the end of an allocation, at once or later.
 *
 * What is freed while a capture runs, or in a stream's order, cannot be waited
 * for then; its address is not used again until a later wait, with no
 * capture, has succeeded.  Blocks that come here have left the table, and
 * their segment is pinned by who took them out; the quarantine takes the pin
 * over.  The list is under SEGMENT; all are called without locks, in RELAXED
 * capture mode.
 */
#ifndef VS_MEMORY_QUARANTINE_H
#define VS_MEMORY_QUARANTINE_H

#include "memory/segment.h"

/* The device is at rest: the block's memory goes back, or is spare. */
void vs_quarantine_end(struct vs_block *block);

/* Later. */
void vs_quarantine_add(struct vs_block *block);

/* The same for memory of the driver's own that we asked for; the driver's
 * free waits for the device, which not every call of the program may. */
void vs_quarantine_add_native(CUdeviceptr base, CUcontext context);

/* Wait for the work of @device and end what was here before the wait; as
 * vs_device_wait. */
CUresult vs_quarantine_wait(CUdevice device, CUcontext context,
			    bool *captured);

/* The device is at rest: end what is here. */
void vs_quarantine_settle(CUdevice device);

/* With the lock held: drop what lies in a segment that goes as a whole. */
void vs_quarantine_forget(const struct vs_segment *segment);

/* With the lock held: the driver ends the memory of a context. */
void vs_quarantine_forget_natives(CUcontext context);

/* With the lock held: bytes of @device that wait here. */
size_t vs_quarantine_bytes(CUdevice device);

#endif
