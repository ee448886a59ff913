/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign - device memory that the program creates and maps itself.
 *
 * It gets a handle of ours: the driver's own is another one after each sleep.
 * Each has a segment with one chunk and without an address; the program's
 * mappings and what it set there (mapping.h) are done again when it wakes.
 * While it sleeps and the program runs on, calls about it change the records
 * alone.  It lives until no reference and no mapping is left, and belongs to
 * no context.
 *
 * Everything is under vs_segment_lock.  A call that has the driver work on
 * some memory pins its segment meanwhile, once no operation has it; one that
 * an operation waits for never waits itself.  Memory of tag native, on the
 * host, or that is no memory of this device is the driver's own, handle and
 * all.
 *
 * The functions are called on program threads without locks, in place of the
 * driver's, and return what it would.
 */
#ifndef VS_MEMORY_FOREIGN_H
#define VS_MEMORY_FOREIGN_H

#include "memory/mapping.h"
#include "memory/segment.h"

struct vs_foreign {
	CUmemGenericAllocationHandle name;	/* the program's handle */
	CUmemAllocationProp prop;		/* as asked for */
	unsigned long long flags;
	unsigned long references;
	CUmemAllocationProp granted;		/* as the driver had it */
	bool imported;			/* its size is what was mapped of it */
	bool dying;			/* somebody is about to end it */
	uint64_t block_id;		/* the program was told; or 0 */
	struct vs_mapping *mappings;
	CUdeviceptr window;		/* of an operation; 0: none */
	struct vs_segment segment;
	struct vs_chunk chunk;
	struct vs_foreign *next;	/* of those that end together */
	UT_hash_handle hh;		/* by name */
};

CUresult vs_foreign_create(CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop,
			   unsigned long long flags);
CUresult vs_foreign_release(CUmemGenericAllocationHandle handle);
CUresult vs_foreign_retain(CUmemGenericAllocationHandle *handle,
			   CUdeviceptr address);
CUresult vs_foreign_properties(CUmemAllocationProp *prop,
			       CUmemGenericAllocationHandle handle);

CUresult vs_foreign_reserve(CUdeviceptr *base, size_t size, size_t align,
			    CUdeviceptr hint, unsigned long long flags);
CUresult vs_foreign_unreserve(CUdeviceptr base, size_t size);
CUresult vs_foreign_map(CUdeviceptr base, size_t size, size_t offset,
			CUmemGenericAllocationHandle handle,
			unsigned long long flags);
CUresult vs_foreign_unmap(CUdeviceptr base, size_t size);
CUresult vs_foreign_set_access(CUdeviceptr base, size_t size,
			       const CUmemAccessDesc *desc, size_t count);

/* Below: for the other files of this memory. */

/* A value that the driver never gives, known or not. */
bool vs_foreign_is_name(CUmemGenericAllocationHandle handle);

/* With vs_segment_lock.  The live one of that name, or NULL; the same once no
 * operation works on it. */
struct vs_foreign *vs_foreign_find(CUmemGenericAllocationHandle name);
struct vs_foreign *vs_foreign_await(CUmemGenericAllocationHandle name);

/* With vs_segment_lock: it sleeps. */
bool vs_foreign_asleep(const struct vs_foreign *foreign);

/* With vs_segment_lock: nothing holds it any more, and the caller, who is the
 * first to see that, is to end it.  Without: end it, when no operation works
 * on it. */
bool vs_foreign_ends(struct vs_foreign *foreign);
void vs_foreign_end(struct vs_foreign *foreign);

/* Give @real a name and a record with one reference; NULL: no host memory. */
struct vs_foreign *vs_foreign_new(CUmemGenericAllocationHandle real,
				  size_t size,
				  const CUmemAllocationProp *prop,
				  unsigned long long flags, int tag);

#endif
