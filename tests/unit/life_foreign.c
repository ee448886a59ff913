/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "life_foreign.h"
#include "life.h"
#include "life_bytes.h"

#include "base/tag.h"
#include "memory/foreign.h"

#include <stdbool.h>
#include <string.h>

#define UNIT ((size_t)64 << 10)
#define SIZE (5 * UNIT)
#define PART (2 * UNIT)		/* of it, mapped a second time */

static CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
};
static CUmemGenericAllocationHandle handle;
static struct life_block block = { .size = SIZE, .tag = "weights", .seed = 3 };
static CUdeviceptr base;		/* with room for the alias behind it */
static bool mapped, allowed, filled, alias, seen;

/* Twice, and then only a fault that lasts is an excuse. */
#define TRY(call)							\
	({								\
		bool done = !(call) || !(call);				\
									\
		if (!done && !life_lasts())				\
			life_fail("second try of " #call " failed");	\
		done;							\
	})

static CUresult allow(CUdeviceptr at, size_t size, CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = { .location = prop.location, .flags = flags };

	return vs_foreign_set_access(at, size, &desc, 1);
}

static bool resident(void)
{
	struct vs_foreign *f;
	bool yes;

	vs_lock_take(&vs_segment_lock);
	f = vs_foreign_find(handle);
	if (!f)
		life_fail("the program's handle is not known");
	yes = !vs_foreign_asleep(f);
	vs_lock_drop(&vs_segment_lock);
	return yes;
}

static void build(void)
{
	if (!base && !TRY(vs_foreign_reserve(&base, 2 * SIZE, 0, 0, 0)))
		return;
	if (vs_tag_mark("weights", NULL))
		life_fail("no tag");
	if (!handle && !TRY(vs_foreign_create(&handle, SIZE, &prop, 0)))
		return;
	if (!mapped)
		mapped = TRY(vs_foreign_map(base, SIZE, 0, handle, 0));
	if (mapped && !allowed)
		allowed = TRY(allow(base, SIZE,
				    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	if (!allowed || filled || !resident())
		return;
	block.base = base;
	life_fill(&block);
	filled = true;
}

static void turn_alias(void)
{
	CUdeviceptr at = base + SIZE;

	if (alias) {
		alias = !TRY(vs_foreign_unmap(at, PART));
		seen = false;
		return;
	}
	alias = TRY(vs_foreign_map(at, PART, 0, handle, 0));
	seen = alias && TRY(allow(at, PART, CU_MEM_ACCESS_FLAGS_PROT_READ));
}

void life_foreign_turn(void)
{
	build();
	if (!filled)
		return;
	if (resident()) {
		life_look_at_bytes(&block);
		if (seen && memcmp((void *)(base + SIZE), (void *)base, PART))
			life_fail("the alias shows other bytes");
	}
	turn_alias();
}

void life_foreign_end(void)
{
	if (alias && vs_foreign_unmap(base + SIZE, PART))
		life_fail("the alias cannot be unmapped");
	if (mapped && vs_foreign_unmap(base, SIZE))
		life_fail("the program's memory cannot be unmapped");
	if (handle && vs_foreign_release(handle))
		life_fail("the program's handle cannot be released");
	if (base && vs_foreign_unreserve(base, 2 * SIZE))
		life_fail("the program's addresses cannot be freed");
}
