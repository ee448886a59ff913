/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_budget - how much host memory the machine and the cgroup leave.
 *
 * Reads /proc/meminfo and the memory controller of cgroup v2 or v1 of this
 * process and its parents.  Where a file is there but cannot be read it leaves
 * nothing: memory that the cgroup does not have would end the program.
 */
#ifndef VS_BACKUP_HOST_BUDGET_H
#define VS_BACKUP_HOST_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* MemAvailable, bytes; SIZE_MAX where it is not told.  What is free where it
 * cannot be read. */
size_t vs_host_budget_available(void);

/* What the nearest limit above this process leaves, bytes; SIZE_MAX: none. */
size_t vs_host_budget_cgroup(void);

/* Less than a tenth is left of the machine's memory, or of a cgroup's. */
bool vs_host_budget_scarce(void);

#endif
