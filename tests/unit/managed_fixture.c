/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "managed_fixture.h"

#include "backup/host_pool.h"
#include "base/tag.h"
#include "memory/managed.h"

struct vs_reply managed_reply;

void managed_start(const char *tags)
{
	fixture_start("w", tags);
	vs_managed_piece = PAGE;
}

CUdeviceptr managed_get_fresh(const char *tag, size_t size)
{
	CUdeviceptr base;

	ck_assert_int_eq(vs_tag_push(tag, NULL), VS_OK);
	ck_ok(cuMemAllocManaged(&base, size, CU_MEM_ATTACH_GLOBAL));
	vs_tag_pop(NULL);
	return base;
}

CUdeviceptr managed_get(const char *tag, size_t size)
{
	CUdeviceptr base = managed_get_fresh(tag, size);

	fixture_fill(base, size);
	return base;
}

void managed_put_on(CUdevice device, CUdeviceptr base, size_t size)
{
	CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
				.id = device };

	ck_ok(cuMemPrefetchAsync_v2(base, size, where, 0, NULL));
	ck_ok(vs_real.cuCtxSynchronize());
}

size_t managed_held(CUdevice device)
{
	return sim_used(device) - sim_reserved(device);
}

CUdeviceptr managed_take(size_t size)
{
	CUdeviceptr base;

	ck_ok(vs_real.cuMemAlloc_v2(&base, size));
	return base;
}

void managed_give(CUdeviceptr base)
{
	ck_ok(vs_real.cuMemFree_v2(base));
}

size_t managed_available(void)
{
	size_t bytes, total;

	ck_ok(vs_real.cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

void managed_sleep(enum vs_status status, const char *tags, size_t bytes)
{
	managed_reply = fixture_sleep(1, tags);
	ck_assert_msg(managed_reply.status == status, "%s",
		      managed_reply.why.text);
	ck_assert_uint_eq(managed_reply.ledger.last.released_bytes, bytes);
}

void managed_wake(size_t bytes)
{
	managed_reply = fixture_wake(NULL);
	ck_assert_msg(managed_reply.status == VS_OK, "%s",
		      managed_reply.why.text);
	ck_assert_int_eq(managed_reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(managed_reply.ledger.last.restored_bytes, bytes);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	fixture_assert_sound();
}

int managed_attribute(CUdeviceptr base, size_t size,
		      CUmem_range_attribute what)
{
	int value = 0;

	ck_ok(vs_real.cuMemRangeGetAttribute(&value, sizeof(value), what,
					     base, size));
	return value;
}
