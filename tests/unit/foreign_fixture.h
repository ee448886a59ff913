/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_fixture - memory as a program creates and maps it by hand. */
#ifndef TESTS_FOREIGN_FIXTURE_H
#define TESTS_FOREIGN_FIXTURE_H

#include "memory_fixture.h"

#include "memory/foreign.h"

#define UNIT (64 * KIB)		/* the granularity */
#define RW CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define RO CU_MEM_ACCESS_FLAGS_PROT_READ
#define NO CU_MEM_ACCESS_FLAGS_PROT_NONE

typedef CUmemGenericAllocationHandle handle_t;

/* Of device 0, with that tag; and its record. */
handle_t foreign_make(const char *tag, size_t size);
struct vs_foreign *foreign_of(handle_t handle);

CUdeviceptr foreign_reserve(size_t size);
void foreign_map(CUdeviceptr base, size_t size, handle_t handle);
void foreign_allow(CUdeviceptr base, size_t size, CUdevice device,
		   CUmemAccess_flags flags);
/* All of it: reserved, mapped at once, filled. */
CUdeviceptr foreign_whole(const char *tag, size_t size, handle_t *handle);

/* Unmapped, released, its addresses free again. */
void foreign_end(CUdeviceptr base, size_t size, handle_t handle);

/* What the driver itself says. */
unsigned foreign_access(CUdeviceptr at, CUdevice device);

/* Asleep and awake again, with nothing on the device in between. */
void foreign_cycle(void);
void foreign_sleep(void);
void foreign_wake(void);

#endif
