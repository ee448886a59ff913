/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_back - what memory/backing.h says, for memory that the program
 * created and mapped itself.
 */
#ifndef VS_MEMORY_FOREIGN_BACK_H
#define VS_MEMORY_FOREIGN_BACK_H

#include "memory/foreign.h"

enum vs_status vs_foreign_back_create(struct vs_foreign *foreign,
				      CUmemGenericAllocationHandle *handle,
				      struct vs_why *why);
enum vs_status vs_foreign_back_map(struct vs_foreign *foreign,
				   CUmemGenericAllocationHandle handle,
				   struct vs_why *why);
enum vs_status vs_foreign_back_unmap(struct vs_foreign *foreign,
				     struct vs_why *why);
bool vs_foreign_back_unback(struct vs_foreign *foreign,
			    CUmemGenericAllocationHandle handle);
enum vs_status vs_foreign_back_open(struct vs_foreign *foreign,
				    CUmemGenericAllocationHandle handle,
				    CUdeviceptr *base, struct vs_why *why);
void vs_foreign_back_close(struct vs_foreign *foreign);

#endif
