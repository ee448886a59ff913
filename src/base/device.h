/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device - what tells the devices of the process apart from others.
 *
 * Asked for on the program's thread when its first context on a device is
 * known, so that who answers an operator makes no driver call.  No lock.
 */
#ifndef VS_BASE_DEVICE_H
#define VS_BASE_DEVICE_H

#include <stdbool.h>

#include "base/cuda.h"

#define VS_DEVICE_MAX 64	/* devices that are told apart */

struct vs_device {
	char uuid[48];		/* as nvidia-smi writes it, or "unknown" */
	char bus[24];		/* domain:bus:device.function, likewise */
	bool vmm;		/* the driver says that it can map memory */
};

/* Ask the driver about @device; does nothing the second time. */
void vs_device_note(CUdevice device);

/* What was noted; of a device that never was, all is unknown. */
void vs_device_read(CUdevice device, struct vs_device *out);

#endif
