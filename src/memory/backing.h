/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backing - the device memory of a chunk: made, put into its place, taken out
 * of it.  One vocabulary for operations, whatever the kind of the segment.
 *
 * The segment is pinned by the operation; no lock is held.  The caller's
 * thread is in RELAXED capture mode.  A handle that was created is released
 * by vs_vmm_release.
 */
#ifndef VS_MEMORY_BACKING_H
#define VS_MEMORY_BACKING_H

#include "memory/segment.h"

/* As vs_vmm_create. */
enum vs_status vs_backing_create(const struct vs_segment *segment,
				 const struct vs_chunk *chunk,
				 CUmemGenericAllocationHandle *handle,
				 struct vs_why *why);

/* Put it wherever the program has it, with the access that it had there; on
 * failure nothing is mapped. */
enum vs_status vs_backing_map(struct vs_segment *segment,
			      const struct vs_chunk *chunk,
			      CUmemGenericAllocationHandle handle,
			      struct vs_why *why);

/* Take it out; on failure all is where it was.  VS_PARTIAL: some of it could
 * not be put back, and the program must not run before it has been. */
enum vs_status vs_backing_unmap(struct vs_segment *segment,
				const struct vs_chunk *chunk,
				struct vs_why *why);

/* The way back of create and map, for good; as vs_vmm_release. */
bool vs_backing_unback(struct vs_segment *segment,
		       const struct vs_chunk *chunk,
		       CUmemGenericAllocationHandle handle);

/* An address at which the whole chunk, mapped, can be read and written by its
 * device; until vs_backing_close, which also unmap and unback do. */
enum vs_status vs_backing_open(struct vs_segment *segment,
			       const struct vs_chunk *chunk,
			       CUmemGenericAllocationHandle handle,
			       CUdeviceptr *base, struct vs_why *why);
void vs_backing_close(struct vs_segment *segment);

#endif
