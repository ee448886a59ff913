/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_query - what the program sees when it asks about memory that it
 * mapped itself.
 *
 * The driver answers while it has the mapping; what it has not, because it
 * sleeps, is answered from what it said when it went to sleep, and from the
 * records.  The functions return false where the question is not about such
 * memory.
 */
#ifndef VS_MEMORY_FOREIGN_QUERY_H
#define VS_MEMORY_FOREIGN_QUERY_H

#include "memory/foreign.h"

bool vs_foreign_range(CUdeviceptr *base, size_t *size, CUdeviceptr address,
		      CUresult *rc);
bool vs_foreign_attribute(void *data, CUpointer_attribute attribute,
			  CUdeviceptr address, CUresult *rc);
bool vs_foreign_attributes(unsigned int count,
			   CUpointer_attribute *attributes, void **data,
			   CUdeviceptr address, CUresult *rc);
bool vs_foreign_set_attribute(const void *value,
			      CUpointer_attribute attribute,
			      CUdeviceptr address, CUresult *rc);
bool vs_foreign_get_access(unsigned long long *flags,
			   const CUmemLocation *location, CUdeviceptr address,
			   CUresult *rc);

/* Remember what the driver says of a mapping that it is about to lose; on the
 * thread of an operation. */
void vs_foreign_remember(struct vs_foreign *foreign,
			 struct vs_mapping *mapping);

#endif
