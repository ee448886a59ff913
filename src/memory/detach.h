/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detach - the memory of a context goes away with it.
 *
 * Its records are taken out before the driver's call, since the handle's
 * value may be used again at once, and dropped for good after it; or put back
 * when the driver refused.  Taking waits for a running transition.
 */
#ifndef VS_MEMORY_DETACH_H
#define VS_MEMORY_DETACH_H

#include "base/cuda.h"

struct vs_detached;

/* @context NULL: the primary context of @device.  NULL when not known, which
 * the others accept. */
struct vs_detached *vs_detach_take(CUcontext context, CUdevice device);
void vs_detach_drop(struct vs_detached *detached);
void vs_detach_restore(struct vs_detached *detached);

#endif
