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
#include "base/why.h"

CUresult vs_allocator_alloc(CUdeviceptr *out, size_t size);
CUresult vs_allocator_alloc_pitch(CUdeviceptr *out, size_t *pitch,
				  size_t width, size_t height,
				  unsigned int element);
CUresult vs_allocator_free(CUdeviceptr base);
/* Ours, freed in a stream's order: does not wait. */
CUresult vs_allocator_free_later(CUdeviceptr base);

/* The parts of an allocation: @size bytes of ours with a live block, of no
 * context if @context is NULL; what to do about VS_NOMEM before the second
 * try; one line about what stays native for another reason. */
enum vs_status vs_allocator_make(CUdevice device, CUcontext context, int tag,
				 size_t size, CUdeviceptr *out,
				 struct vs_why *why);
void vs_allocator_make_room(CUdevice device, CUcontext context);
void vs_allocator_say_native(const struct vs_why *why);

/* cuMemGetInfo: the driver's answer plus what we hold free. */
CUresult vs_allocator_info(size_t *free_bytes, size_t *total);

#endif
