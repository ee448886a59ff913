/* SPDX-License-Identifier: Apache-2.0 */
/* vmm_ways - how programs map memory by their own hand, for vmm. */
#ifndef VS_TEST_VMM_WAYS_H
#define VS_TEST_VMM_WAYS_H

#include "drv.h"

#include <dlfcn.h>
#include <stdatomic.h>

#define SLOTS 12
#define GROWTHS 5
#define SPACE (32 * GIB)

struct slot {
	CUmemGenericAllocationHandle handle;	/* 0: empty */
	CUdeviceptr base;
	size_t size;
	uint32_t seed;
};

struct way_state {
	void (*begin)(struct way_state *s);
	void (*round)(struct way_state *s);
	void (*end)(struct way_state *s);
	char tag[64];
	uint64_t random;
	CUdeviceptr space;
	size_t space_size;
	struct slot slots[SLOTS];
	int grown;
};

static atomic_int ways_over, ways_bad;

/* The thread's tag from now on, where vsleep is there. */
static void ways_tag(const char *name)
{
	int (*push)(const char *) =
		(int (*)(const char *))dlsym(RTLD_DEFAULT, "vsleep_tag_push");
	int (*pop)(void) = (int (*)(void))dlsym(RTLD_DEFAULT,
						"vsleep_tag_pop");

	if (push && *name)
		push(name);
	else if (pop)
		pop();
}

static void ways_count(void)
{
	static atomic_ulong rounds;
	static int fd = -2;
	const char *path = getenv("COUNT");
	char line[32];

	if (fd == -2)
		fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) :
			    -1;
	snprintf(line, sizeof(line), "%010lu\n",
		 atomic_fetch_add(&rounds, 1) + 1);
	if (fd >= 0 && pwrite(fd, line, strlen(line), 0) < 0)
		perror("COUNT");
}

static CUmemAllocationProp ways_prop(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = drv.device,
	};
}

static size_t ways_unit(void)
{
	CUmemAllocationProp prop = ways_prop();
	size_t unit;

	CK(cuMemGetAllocationGranularity(&unit, &prop,
		CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return unit;
}

static CUmemGenericAllocationHandle ways_create(size_t size)
{
	CUmemAllocationProp prop = ways_prop();
	CUmemGenericAllocationHandle handle;

	CK(cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

static void ways_map(CUdeviceptr at, size_t size,
		     CUmemGenericAllocationHandle handle,
		     CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location = ways_prop().location, .flags = flags,
	};

	CK(cuMemMap(at, size, 0, handle, 0));
	CK(cuMemSetAccess(at, size, &desc, 1));
}

static void ways_fill(CUdeviceptr at, size_t size, uint32_t seed)
{
	drv_pattern(NULL, at, size / 4, seed);
	CK(cuCtxSynchronize());
}

/* The pattern depends on the word's place alone, not on its address. */
static int ways_differ(CUdeviceptr at, size_t size, uint32_t seed)
{
	uint64_t bad = 0;
	CUdeviceptr count;

	CK(cuMemAlloc(&count, sizeof(bad)));
	CK(cuMemsetD8(count, 0, sizeof(bad)));
	{
		uint64_t words = size / 4;
		void *args[] = { &at, &words, &seed, &count };

		drv_launch(drv.check, NULL, words, args);
	}
	CK(cuMemcpyDtoH(&bad, count, sizeof(bad)));
	CK(cuMemFree(count));
	return bad != 0;
}

static void look(CUdeviceptr at, size_t size, uint32_t seed)
{
	if (!ways_differ(at, size, seed))
		return;
	fprintf(stderr, "0x%llx: other bytes\n", at);
	atomic_fetch_add(&ways_bad, 1);
}

static void reserve(struct way_state *s, size_t size)
{
	s->space_size = size;
	CK(cuMemAddressReserve(&s->space, size, 0, 0, 0));
}

static void segments_begin(struct way_state *s)
{
	size_t unit = ways_unit(), at = 0;
	int i;

	reserve(s, GIB);
	for (i = 0; i < SLOTS; i++) {
		s->slots[i].size = i % 4 ? unit : 10 * unit;
		s->slots[i].base = s->space + at;
		at += s->slots[i].size;
	}
}

static void fill_slot(struct way_state *s, struct slot *slot)
{
	slot->handle = ways_create(slot->size);
	ways_map(slot->base, slot->size, slot->handle,
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	slot->seed = (uint32_t)prog_random(&s->random);
	ways_fill(slot->base, slot->size, slot->seed);
}

static void empty_slot(struct slot *slot)
{
	look(slot->base, slot->size, slot->seed);
	CK(cuMemUnmap(slot->base, slot->size));
	CK(cuMemRelease(slot->handle));
	slot->handle = 0;
}

static void move_slot(struct slot *from, struct slot *to)
{
	CK(cuMemUnmap(from->base, from->size));
	ways_map(to->base, to->size, from->handle,
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	to->handle = from->handle;
	to->seed = from->seed;
	from->handle = 0;
	look(to->base, to->size, to->seed);
}

static void segments_round(struct way_state *s)
{
	struct slot *a = &s->slots[prog_random(&s->random) % SLOTS];
	struct slot *b = &s->slots[prog_random(&s->random) % SLOTS];

	if (a->handle && !b->handle && a->size == b->size)
		move_slot(a, b);
	else if (a->handle)
		empty_slot(a);
	else
		fill_slot(s, a);
}

static void segments_end(struct way_state *s)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (s->slots[i].handle)
			empty_slot(&s->slots[i]);
	CK(cuMemAddressFree(s->space, s->space_size));
}

static void pool_begin(struct way_state *s)
{
	reserve(s, SPACE);
}

static void pool_empty(struct way_state *s)
{
	if (s->grown)
		CK(cuMemUnmap(s->space, (size_t)s->grown * ways_unit()));
	s->grown = 0;
}

static void pool_round(struct way_state *s)
{
	size_t unit = ways_unit(), size = (size_t)s->grown * unit;
	CUmemGenericAllocationHandle handle;
	CUmemAccessDesc desc = {
		.location = ways_prop().location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	if (size)
		look(s->space, size, s->slots[0].seed);
	if (s->grown == GROWTHS) {
		pool_empty(s);
		return;
	}
	handle = ways_create(unit);
	CK(cuMemMap(s->space + size, unit, 0, handle, 0));
	CK(cuMemRelease(handle));
	s->grown++;
	size += unit;
	CK(cuMemSetAccess(s->space, size, &desc, 1));
	s->slots[0].seed = (uint32_t)prog_random(&s->random);
	ways_fill(s->space, size, s->slots[0].seed);
}

static void pool_end(struct way_state *s)
{
	pool_empty(s);
	CK(cuMemAddressFree(s->space, s->space_size));
}

static void mirror_begin(struct way_state *s)
{
	struct slot *slot = &s->slots[0];

	slot->size = 2 * ways_unit();
	reserve(s, 3 * slot->size);
	slot->base = s->space;
	fill_slot(s, slot);
	ways_map(s->space + slot->size, slot->size, slot->handle,
		 CU_MEM_ACCESS_FLAGS_PROT_READ);
	CK(cuMemMap(s->space + 2 * slot->size, slot->size, 0, slot->handle,
		    0));
}

static void right(CUdeviceptr at, unsigned expected)
{
	CUmemLocation where = ways_prop().location;
	unsigned long long flags = 77;

	CK(cuMemGetAccess(&flags, &where, at));
	if (flags == expected)
		return;
	fprintf(stderr, "0x%llx: rights %llu\n", at, flags);
	atomic_fetch_add(&ways_bad, 1);
}

static void mirror_round(struct way_state *s)
{
	struct slot *slot = &s->slots[0];
	CUmemGenericAllocationHandle again;

	look(slot->base + slot->size, slot->size, slot->seed);
	right(slot->base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	right(slot->base + slot->size, CU_MEM_ACCESS_FLAGS_PROT_READ);
	right(slot->base + 2 * slot->size, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CK(cuMemRetainAllocationHandle(&again,
				       (void *)(slot->base + slot->size)));
	if (again != slot->handle)
		atomic_fetch_add(&ways_bad, 1);
	CK(cuMemRelease(again));
	slot->seed++;
	ways_fill(slot->base, slot->size, slot->seed);
}

static void mirror_end(struct way_state *s)
{
	CK(cuMemRelease(s->slots[0].handle));
	CK(cuMemUnmap(s->space, s->space_size));
	CK(cuMemAddressFree(s->space, s->space_size));
}

static int ways_find(struct way_state *s, const char *name)
{
	static const struct {
		const char *name;
		struct way_state way;
	} ways[] = {
		{ "segments", { .begin = segments_begin,
			.round = segments_round, .end = segments_end } },
		{ "pool", { .begin = pool_begin, .round = pool_round,
			.end = pool_end } },
		{ "mirror", { .begin = mirror_begin, .round = mirror_round,
			.end = mirror_end } },
	};
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name)) {
			*s = ways[i].way;
			return 1;
		}
	return 0;
}

#endif
