/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "spare_fixture.h"

#include "memory/arena.h"

size_t spare_bytes(CUdevice device)
{
	size_t bytes;

	vs_lock_take(&vs_segment_lock);
	bytes = vs_arena_spare(device);
	vs_lock_drop(&vs_segment_lock);
	return bytes;
}

unsigned long spare_calls(void)
{
	unsigned long sum = 0;

#define X(name) sum += sim_calls(#name);
#include "base/driver.def"
#undef X
	return sum;
}
