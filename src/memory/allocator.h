/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator - what cuMemAlloc, cuMemAllocPitch and cuMemFree mean here: which
 * tag, ours or the driver's, arena or a segment of its own, and the waiting
 * that a free implies.
 *
 * All are called on program threads; they return what the driver would.
 * Allocations run inside the gate, frees do not.
 */
#ifndef VS_MEMORY_ALLOCATOR_H
#define VS_MEMORY_ALLOCATOR_H

#include "base/cuda.h"

CUresult vs_allocator_alloc(CUdeviceptr *out, size_t size);
CUresult vs_allocator_alloc_pitch(CUdeviceptr *out, size_t *pitch,
				  size_t width, size_t height,
				  unsigned int element);
CUresult vs_allocator_free(CUdeviceptr base);
/* Ours, freed in a stream's order: does not wait. */
CUresult vs_allocator_free_later(CUdeviceptr base);

/* cuMemGetInfo: the driver's answer plus what we hold free. */
CUresult vs_allocator_info(size_t *free_bytes, size_t *total);

#endif
