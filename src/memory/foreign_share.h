/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_share - calls by which somebody beside this process's kernels gets
 * to know the physical pages of memory that the program created: from then on
 * it is kept, for the reason that is said.
 *
 * Called inside the gate.
 */
#ifndef VS_MEMORY_FOREIGN_SHARE_H
#define VS_MEMORY_FOREIGN_SHARE_H

#include "memory/foreign.h"

CUresult vs_foreign_export(void *out, CUmemGenericAllocationHandle handle,
			   CUmemAllocationHandleType type,
			   unsigned long long flags);
CUresult vs_foreign_import(CUmemGenericAllocationHandle *handle, void *from,
			   CUmemAllocationHandleType type);
CUresult vs_foreign_bind(CUmemGenericAllocationHandle multicast,
			 size_t multicast_offset,
			 CUmemGenericAllocationHandle handle, size_t offset,
			 size_t size, unsigned long long flags);
CUresult vs_foreign_bind_address(CUmemGenericAllocationHandle multicast,
				 size_t offset, CUdeviceptr base, size_t size,
				 unsigned long long flags);
/* False: nothing of it is such memory. */
bool vs_foreign_handle_for_range(void *handle, CUdeviceptr base, size_t size,
				 CUmemRangeHandleType type,
				 unsigned long long flags, CUresult *rc);

/* @call: cuMemMapArrayAsync or its twin. */
typedef CUresult vs_foreign_map_call(CUarrayMapInfo *list, unsigned int count,
				     CUstream stream);
CUresult vs_foreign_map_arrays(vs_foreign_map_call *call,
			       CUarrayMapInfo *list, unsigned int count,
			       CUstream stream);

/* Keep what is mapped around @address, when no operation works on it; true
 * when that is new.  And take that back.  Outside the gate too. */
bool vs_foreign_keep(CUdeviceptr address, const char *reason);
void vs_foreign_let_go(CUdeviceptr address);

#endif
