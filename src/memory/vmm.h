/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm - addresses and physical memory, apart from each other.
 *
 * Each function does one driver step or undoes what it began; sizes are
 * multiples of vs_vmm_granularity.  No lock is held and no tag is known here.
 * The caller's thread is in RELAXED capture mode with a context current.
 */
#ifndef VS_MEMORY_VMM_H
#define VS_MEMORY_VMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cuda.h"
#include "base/why.h"

/* Whether plain allocations of @device can be ours: tried once with a real
 * create and map, said once in the log where not.  In any capture mode. */
bool vs_vmm_usable(CUdevice device);

/* The same without trying: it was tried, and cannot be. */
bool vs_vmm_refused(CUdevice device);

/* What is made on @device can be registered with a NIC. */
bool vs_vmm_rdma(CUdevice device);
/* It can be mapped in another process. */
bool vs_vmm_shareable(CUdevice device);

/* Multiple of all sizes on @device, bytes; 0 before vs_vmm_usable was true. */
size_t vs_vmm_granularity(CUdevice device);

/* Round up; 0 on overflow. */
size_t vs_vmm_round(CUdevice device, size_t size);

enum vs_status vs_vmm_reserve(CUdevice device, size_t size, CUdeviceptr *base,
			      struct vs_why *why);
void vs_vmm_unreserve(CUdeviceptr base, size_t size);

/* VS_NOMEM when the device has no room; @why then states both figures. */
enum vs_status vs_vmm_create(CUdevice device, size_t size,
			     CUmemGenericAllocationHandle *handle,
			     struct vs_why *why);

/* What cannot be unmapped, released or freed is remembered and tried again by
 * vs_vmm_retry; false: the bytes have not gone back. */
bool vs_vmm_release(CUmemGenericAllocationHandle handle, size_t size);
void vs_vmm_retry(void);
/* Something there has not been unmapped. */
bool vs_vmm_stuck_within(CUdeviceptr base, size_t size);
/* Bytes that have not gone back. */
size_t vs_vmm_stuck(void);

/* From now on @accessor reaches what is mapped of @owner's memory; false when
 * it did before.  Mappings that exist are the caller's to extend. */
bool vs_vmm_add_accessor(CUdevice owner, CUdevice accessor);
/* How often that was true, over all devices. */
unsigned vs_vmm_accessors(void);
/* Give all accessors of @device access to a mapping that exists. */
enum vs_status vs_vmm_access(CUdevice device, CUdeviceptr base, size_t size,
			     struct vs_why *why);

/* Map and give access; on failure nothing is mapped, if the driver lets us
 * undo it. */
enum vs_status vs_vmm_map(CUdevice device, CUdeviceptr base, size_t size,
			  CUmemGenericAllocationHandle handle,
			  struct vs_why *why);
enum vs_status vs_vmm_unmap(CUdeviceptr base, size_t size,
			    struct vs_why *why);

/* create + map, undone together. */
enum vs_status vs_vmm_back(CUdevice device, CUdeviceptr base, size_t size,
			   CUmemGenericAllocationHandle *handle,
			   struct vs_why *why);

/* The way back: unmap and release, for good; as vs_vmm_release. */
bool vs_vmm_unback(CUdeviceptr base, size_t size,
		   CUmemGenericAllocationHandle handle);

#endif
