/* SPDX-License-Identifier: Apache-2.0 */
/* spare_fixture - what is spare, and the calls that it spares. */
#ifndef TESTS_SPARE_FIXTURE_H
#define TESTS_SPARE_FIXTURE_H

#include "memory_fixture.h"

#include "memory/spare.h"

#define OWN (17 * MIB)		/* a segment of its own */

/* Bytes on @device that hold no allocation. */
size_t spare_bytes(CUdevice device);
/* All calls that the driver has seen. */
unsigned long spare_calls(void);

#endif
