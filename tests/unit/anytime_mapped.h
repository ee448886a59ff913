/* SPDX-License-Identifier: Apache-2.0 */
/* anytime_mapped - memory of check_anytime that is mapped by hand. */
#ifndef TESTS_ANYTIME_MAPPED_H
#define TESTS_ANYTIME_MAPPED_H

#include <check.h>

static void mapped_allow(CUdeviceptr base, size_t size,
			 CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = flags,
	};

	ck_assert_int_eq(cuMemSetAccess(base, size, &desc, 1), 0);
}

static CUdeviceptr mapped_at(CUmemGenericAllocationHandle handle, size_t size,
			     CUmemAccess_flags flags)
{
	CUdeviceptr base;

	ck_assert_int_eq(cuMemAddressReserve(&base, size, 0, 0, 0), 0);
	ck_assert_int_eq(cuMemMap(base, size, 0, handle, 0), 0);
	mapped_allow(base, size, flags);
	return base;
}

static void mapped_end(CUdeviceptr base, size_t size)
{
	ck_assert_int_eq(cuMemUnmap(base, size), 0);
	ck_assert_int_eq(cuMemAddressFree(base, size), 0);
}

static CUresult mapped_create(size_t size, CUmemGenericAllocationHandle *out)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};

	return cuMemCreate(out, size, &prop, 0);
}

#endif
