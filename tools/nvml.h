/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml - what the driver says that processes use, through NVIDIA's management
 * library where there is one.  It is loaded when first asked.
 */
#ifndef TOOLS_NVML_H
#define TOOLS_NVML_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Bytes that @pid uses on the GPU with this uuid, "GPU-..."; NULL: on all of
 * them.  False: there is no such library, or it does not know the process or
 * its figure, as in most containers.
 */
bool nvml_used(const char *uuid, pid_t pid, unsigned long long *bytes);

#endif
