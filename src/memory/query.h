/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query - what the program sees when it asks about memory of ours: its own
 * allocation, never our chunks and arenas; other memory is passed on.
 */
#ifndef VS_MEMORY_QUERY_H
#define VS_MEMORY_QUERY_H

#include <stdbool.h>

#include "base/cuda.h"

/* @address lies in a live allocation of ours; in a range of ours, in an
 * allocation or not. */
bool vs_query_ours(CUdeviceptr address);
bool vs_query_covers(CUdeviceptr address);

CUresult vs_query_range(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult vs_query_attribute(void *data, CUpointer_attribute attribute,
			    CUdeviceptr address);
CUresult vs_query_attributes(unsigned int count,
			     CUpointer_attribute *attributes, void **data,
			     CUdeviceptr address);
/* P2P tokens are among them, which a held program has to wait for. */
bool vs_query_has_tokens(unsigned int count,
			 const CUpointer_attribute *attributes);
CUresult vs_query_set_attribute(const void *value,
				CUpointer_attribute attribute,
				CUdeviceptr address);

/* cuMemGetHandleForAddressRange: as native, and the segment is kept from
 * then on, for a NIC may know its pages. */
CUresult vs_query_handle_for_range(void *handle, CUdeviceptr address,
				   size_t size,
				   CUmemRangeHandleType type,
				   unsigned long long flags);

#endif
