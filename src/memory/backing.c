/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/backing.h"
#include "memory/vmm.h"

enum vs_status vs_backing_create(const struct vs_segment *segment,
				 const struct vs_chunk *chunk,
				 CUmemGenericAllocationHandle *handle,
				 struct vs_why *why)
{
	return vs_vmm_create(segment->device, chunk->size, handle, why);
}

enum vs_status vs_backing_map(struct vs_segment *segment,
			      const struct vs_chunk *chunk,
			      CUmemGenericAllocationHandle handle,
			      struct vs_why *why)
{
	return vs_vmm_map(segment->device, segment->base + chunk->offset,
			  chunk->size, handle, why);
}

enum vs_status vs_backing_unmap(struct vs_segment *segment,
				const struct vs_chunk *chunk,
				struct vs_why *why)
{
	return vs_vmm_unmap(segment->base + chunk->offset, chunk->size, why);
}

bool vs_backing_unback(struct vs_segment *segment,
		       const struct vs_chunk *chunk,
		       CUmemGenericAllocationHandle handle)
{
	return vs_vmm_unback(segment->base + chunk->offset, chunk->size,
			     handle);
}

enum vs_status vs_backing_open(struct vs_segment *segment,
			       const struct vs_chunk *chunk,
			       CUmemGenericAllocationHandle handle,
			       CUdeviceptr *base, struct vs_why *why)
{
	(void)handle;
	(void)why;
	*base = segment->base + chunk->offset;
	return VS_OK;
}

void vs_backing_close(struct vs_segment *segment)
{
	(void)segment;
}
