/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/backing.h"
#include "memory/foreign_back.h"
#include "memory/vmm.h"

enum vs_status vs_backing_create(const struct vs_segment *segment,
				 const struct vs_chunk *chunk,
				 CUmemGenericAllocationHandle *handle,
				 struct vs_why *why)
{
	if (segment->foreign)
		return vs_foreign_back_create(segment->foreign, handle, why);
	return vs_vmm_create(segment->device, chunk->size, handle, why);
}

enum vs_status vs_backing_map(struct vs_segment *segment,
			      const struct vs_chunk *chunk,
			      CUmemGenericAllocationHandle handle,
			      struct vs_why *why)
{
	if (segment->foreign)
		return vs_foreign_back_map(segment->foreign, handle, why);
	return vs_vmm_map(segment->device, segment->base + chunk->offset,
			  chunk->size, handle, why);
}

enum vs_status vs_backing_unmap(struct vs_segment *segment,
				const struct vs_chunk *chunk,
				struct vs_why *why)
{
	if (segment->foreign)
		return vs_foreign_back_unmap(segment->foreign, why);
	return vs_vmm_unmap(segment->base + chunk->offset, chunk->size, why);
}

bool vs_backing_unback(struct vs_segment *segment,
		       const struct vs_chunk *chunk,
		       CUmemGenericAllocationHandle handle)
{
	if (segment->foreign)
		return vs_foreign_back_unback(segment->foreign, handle);
	return vs_vmm_unback(segment->base + chunk->offset, chunk->size,
			     handle);
}

enum vs_status vs_backing_open(struct vs_segment *segment,
			       const struct vs_chunk *chunk,
			       CUmemGenericAllocationHandle handle,
			       CUdeviceptr *base, struct vs_why *why)
{
	if (segment->foreign)
		return vs_foreign_back_open(segment->foreign, handle, base,
					    why);
	*base = segment->base + chunk->offset;
	return VS_OK;
}

void vs_backing_close(struct vs_segment *segment)
{
	if (segment->foreign)
		vs_foreign_back_close(segment->foreign);
}
