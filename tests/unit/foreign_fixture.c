/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "foreign_fixture.h"

#include "base/tag.h"

handle_t foreign_make(const char *tag, size_t size)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	handle_t handle = 0;

	ck_assert_int_eq(vs_tag_mark(tag, NULL), VS_OK);
	ck_ok(vs_foreign_create(&handle, size, &prop, 0));
	ck_assert(vs_foreign_is_name(handle));
	return handle;
}

struct vs_foreign *foreign_of(handle_t handle)
{
	struct vs_foreign *f;

	vs_lock_take(&vs_segment_lock);
	f = vs_foreign_find(handle);
	vs_lock_drop(&vs_segment_lock);
	return f;
}

CUdeviceptr foreign_reserve(size_t size)
{
	CUdeviceptr base = 0;

	ck_ok(vs_foreign_reserve(&base, size, 0, 0, 0));
	return base;
}

void foreign_map(CUdeviceptr base, size_t size, handle_t handle)
{
	ck_ok(vs_foreign_map(base, size, 0, handle, 0));
}

void foreign_allow(CUdeviceptr base, size_t size, CUdevice device,
		   CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = device, .flags = flags,
	};

	ck_ok(vs_foreign_set_access(base, size, &desc, 1));
}

CUdeviceptr foreign_whole(const char *tag, size_t size, handle_t *handle)
{
	CUdeviceptr base = foreign_reserve(size);

	*handle = foreign_make(tag, size);
	foreign_map(base, size, *handle);
	foreign_allow(base, size, 0, RW);
	fixture_fill(base, size);
	return base;
}

void foreign_end(CUdeviceptr base, size_t size, handle_t handle)
{
	ck_ok(vs_foreign_unmap(base, size));
	ck_ok(vs_foreign_release(handle));
	ck_ok(vs_foreign_unreserve(base, size));
}

unsigned foreign_access(CUdeviceptr at, CUdevice device)
{
	CUmemLocation where = {
		.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device,
	};
	unsigned long long flags = 77;

	ck_ok(vs_real.cuMemGetAccess(&flags, &where, at));
	return (unsigned)flags;
}

void foreign_sleep(void)
{
	struct vs_reply reply = fixture_sleep(1, NULL);

	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_uint_eq(fixture_sim().device_bytes, 0);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_assert_uint_eq(fixture_sim().mappings, 0);
	fixture_assert_sound();
}

void foreign_wake(void)
{
	struct vs_reply reply = fixture_wake(NULL);

	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	fixture_assert_sound();
}

void foreign_cycle(void)
{
	foreign_sleep();
	foreign_wake();
}
