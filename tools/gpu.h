/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu - a GPU as people name it, found among the devices of a process.
 */
#ifndef TOOLS_GPU_H
#define TOOLS_GPU_H

#include <stdbool.h>

#include "message.h"

struct gpu {
	const char *uuid;	/* NULL: by its place */
	unsigned index;		/* as nvidia-smi counts: by PCI bus */
	bool placed;		/* the place is known; else a process's own
				 * count of its devices has to do */
	unsigned domain, bus, slot;
};

/* "0", "1", ... or "GPU-..."; false after a usage error. */
bool gpu_parse(const char *text, struct gpu *out);

/* The process that gave this status has a context on it. */
bool gpu_used(const struct gpu *gpu, const struct answer *status);

#endif
