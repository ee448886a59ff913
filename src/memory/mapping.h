/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping - where the program has mapped memory by its own hand: the ranges
 * that it reserved, what it mapped there, and who may touch it.
 *
 * Records only; no driver call is made here.  All is called with
 * vs_segment_lock held, unless said.  A mapping of foreign memory changes
 * only while nobody else has its segment pinned.
 */
#ifndef VS_MEMORY_MAPPING_H
#define VS_MEMORY_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cuda.h"

/* Who may do what with bytes @start to @end of a mapping.  Entries of one
 * place do not overlap, and none says that nothing may be done. */
struct vs_access {
	size_t start, end;
	CUmemLocation where;
	CUmemAccess_flags flags;
};

/* Pointer attributes that are remembered, see foreign_query.c. */
#define VS_MAPPING_SAID 13

struct vs_foreign;

struct vs_mapping {
	CUdeviceptr base;
	size_t size;
	size_t offset;			/* in the memory */
	unsigned long long flags;
	struct vs_foreign *foreign;	/* NULL: memory that is not ours */
	bool there;			/* the driver has it now */
	unsigned went;			/* how often it was taken from it */
	uint64_t id;			/* the program was told; or 0 */
	bool held;			/* its memory is pinned for its sake */
	bool said;			/* answers has what it said of it */
	uint64_t answers[VS_MAPPING_SAID];
	struct vs_access *access;
	size_t access_count, access_room;
	struct vs_mapping *next;	/* of the same memory, oldest first */
	struct vs_mapping *prev;	/* the first one's is the last */
};

/* The mapping around @address; the first that ends beyond it; or NULL. */
struct vs_mapping *vs_mapping_find(CUdeviceptr address);
struct vs_mapping *vs_mapping_after(CUdeviceptr address);

/* Without the lock, and it may be wrong by now: there is any at all. */
bool vs_mapping_any(void);

/* Room for one more, until it is added or given up; false: there is none. */
bool vs_mapping_promise(void);
void vs_mapping_give_up(void);
void vs_mapping_add(struct vs_mapping *mapping);
/* Out of the table, and freed. */
void vs_mapping_remove(struct vs_mapping *mapping);

/* Mapped from end to end; and by whole mappings. */
bool vs_mapping_covers(CUdeviceptr base, size_t size);
bool vs_mapping_whole(CUdeviceptr base, size_t size);

/* Room for @count settings that follow. */
bool vs_mapping_access_room(struct vs_mapping *mapping, size_t count);
void vs_mapping_set_access(struct vs_mapping *mapping, size_t start,
			   size_t end, const CUmemAccessDesc *desc);
CUmemAccess_flags vs_mapping_access(const struct vs_mapping *mapping,
				    const CUmemLocation *where,
				    CUdeviceptr address);
/* @device may read and write all of it. */
bool vs_mapping_writable(const struct vs_mapping *mapping, CUdevice device);

/* Reserved ranges, in records of the caller's: taken out, one is the caller's
 * again, to be freed or put back.  NULL: it is not known. */
struct vs_mapping_range {
	CUdeviceptr base;
	size_t size;
	struct vs_mapping_range *next;
};
void vs_mapping_add_range(struct vs_mapping_range *range);
struct vs_mapping_range *vs_mapping_take_range(CUdeviceptr base, size_t size);
bool vs_mapping_in_range(CUdeviceptr base, size_t size);
bool vs_mapping_range(CUdeviceptr address, CUdeviceptr *base, size_t *size);

#endif
