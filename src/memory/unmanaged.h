/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unmanaged - bytes that the program holds on a device by ways that we pass
 * on (its own VMM, pools, managed memory, arrays): counted, so that no reply
 * hides them.
 */
#ifndef VS_MEMORY_UNMANAGED_H
#define VS_MEMORY_UNMANAGED_H

#include "base/cuda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vs_unmanaged_kind {
	VS_UNMANAGED_NATIVE,	/* plain allocations left to the driver */
	VS_UNMANAGED_VMM,	/* cuMemCreate with no tag */
	VS_UNMANAGED_POOL,	/* stream-ordered allocations */
	VS_UNMANAGED_MANAGED,	/* cuMemAllocManaged */
	VS_UNMANAGED_ARRAY,	/* CUDA arrays */
	VS_UNMANAGED_GRAPH,	/* of nodes of graphs, in use */
	VS_UNMANAGED_KINDS
};

/* After the driver's success: @key is the pointer or handle. */
void vs_unmanaged_add(enum vs_unmanaged_kind kind, uint64_t key, size_t size);
/* Before the driver's free, since the key may come again at once: the bytes
 * that it had, 0 when it is not known; to be added again if the free fails. */
size_t vs_unmanaged_remove(enum vs_unmanaged_kind kind, uint64_t key);

/* It sleeps, and does not count for as long. */
void vs_unmanaged_hide(enum vs_unmanaged_kind kind, uint64_t key, bool hidden);

/*
 * Memory of cuMemCreate stays until its handle is released, as often as it
 * was created and retained, and it is mapped nowhere.  mapped, unmapped and
 * retained after the driver's success, released before its call.
 */
void vs_unmanaged_mapped(CUdeviceptr address,
			 CUmemGenericAllocationHandle handle);
void vs_unmanaged_unmapped(CUdeviceptr address, size_t size);
void vs_unmanaged_retained(CUmemGenericAllocationHandle handle);
void vs_unmanaged_released(CUmemGenericAllocationHandle handle);

/* A context is gone, and all in it but what cuMemCreate made. */
void vs_unmanaged_drop_context(CUcontext context);

size_t vs_unmanaged_bytes(enum vs_unmanaged_kind kind);
size_t vs_unmanaged_total(void);
const char *vs_unmanaged_word(enum vs_unmanaged_kind kind);

#endif
