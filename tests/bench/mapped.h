/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped - device memory that the peers' flows and the bare probe map
 * themselves, in the blocks that `blocks mix` allocates; one command a line.
 */
#ifndef VS_BENCH_MAPPED_H
#define VS_BENCH_MAPPED_H

#include "drv.h"

static const size_t mapped_group[] = {
	256 * MIB, 64 * MIB, 64 * MIB, 32 * MIB, 32 * MIB, 32 * MIB, 32 * MIB
};

#define MAPPED_GROUP (sizeof(mapped_group) / sizeof(mapped_group[0]))
#define MAPPED_GROUP_BYTES (512 * MIB)

#define MAPPED_SEED 17

/*
 * The next size of `blocks segments`, whose numbers begin at MAPPED_SEED; each
 * can be mapped as it is, at the granularity of 2 MiB.
 */
static inline size_t mapped_segment(uint64_t *random)
{
	return (1 + prog_random(random) % 4) * 2 * MIB;
}

struct mapped {
	CUdeviceptr p;
	size_t size;
	CUmemGenericAllocationHandle handle;
	void *host;
};

static inline void mapped_back(struct mapped *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = drv.device },
	};
	CUmemAccessDesc access = {
		.location = prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	CK(cuMemCreate(&b->handle, b->size, &prop, 0));
	CK(cuMemMap(b->p, b->size, 0, b->handle, 0));
	CK(cuMemSetAccess(b->p, b->size, &access, 1));
}

static inline void mapped_unback(struct mapped *b)
{
	CK(cuMemUnmap(b->p, b->size));
	CK(cuMemRelease(b->handle));
}

static inline void mapped_fill(struct mapped *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		drv_pattern(NULL, b[i].p, b[i].size / 4, (uint32_t)i + 1);
	CK(cuCtxSynchronize());
}

/* How many words differ from what mapped_fill wrote. */
static inline unsigned long mapped_bad(struct mapped *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		drv_compare(NULL, b[i].p, b[i].size / 4, (uint32_t)i + 1);
	return (unsigned long)drv_bad();
}

struct mapped_verb {
	const char *name;
	void (*run)(void);	/* says one line */
};

/* What stdin says, by the table, which ends in an empty row. */
static inline void mapped_obey(const struct mapped_verb *verbs)
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		const struct mapped_verb *v = verbs;

		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "quit"))
			break;
		while (v->name && strcmp(v->name, line))
			v++;
		if (v->name)
			v->run();
		else
			printf("error unknown command %s\n", line);
	}
	printf("ok bye\n");
}

#endif
