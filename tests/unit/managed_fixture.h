/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed_fixture - managed memory through the exported wrappers, and where
 * the simulated driver has it.
 */
#ifndef TESTS_MANAGED_FIXTURE_H
#define TESTS_MANAGED_FIXTURE_H

#include "memory_fixture.h"

#define PAGE (2 * MIB)		/* that the simulated driver moves */
#define SIZE (4 * PAGE)

extern struct vs_reply managed_reply;	/* to the last request */

/* With tag "w" and what VSLEEP_TAGS is to say. */
void managed_start(const char *tags);

/* Nobody has touched it; the host has filled it. */
CUdeviceptr managed_get_fresh(const char *tag, size_t size);
CUdeviceptr managed_get(const char *tag, size_t size);

void managed_put_on(CUdevice device, CUdeviceptr base, size_t size);
int managed_attribute(CUdeviceptr base, size_t size,
		      CUmem_range_attribute what);

/* What a device has and does not keep for who needs it. */
size_t managed_held(CUdevice device);
size_t managed_available(void);

/* Another program's memory, as the driver has it. */
CUdeviceptr managed_take(size_t size);
void managed_give(CUdeviceptr base);

/* The answer, and how many bytes went or came. */
void managed_sleep(enum vs_status status, const char *tags, size_t bytes);
void managed_wake(size_t bytes);

#endif
