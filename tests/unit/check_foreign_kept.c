/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program whose physical pages somebody else may know. */
#include <config.h>

#include "foreign_fixture.h"

#include "memory/foreign_query.h"
#include "memory/foreign_share.h"

#include <string.h>
#include <unistd.h>

#define SIZE (2 * MIB)
#define DMA_BUF CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

static CUdeviceptr base;
static handle_t handle;
static CUmemGenericAllocationHandle given;	/* to the driver */
static CUresult answer;

/* What the simulated driver does not have. */
static CUresult bind_memory(CUmemGenericAllocationHandle multicast, size_t a,
			    CUmemGenericAllocationHandle memory, size_t b,
			    size_t size, unsigned long long flags)
{
	(void)multicast;
	(void)a;
	(void)b;
	(void)size;
	(void)flags;
	given = memory;
	return answer;
}

static CUresult bind_address(CUmemGenericAllocationHandle multicast, size_t a,
			     CUdeviceptr at, size_t size,
			     unsigned long long flags)
{
	(void)multicast;
	(void)a;
	(void)at;
	(void)size;
	(void)flags;
	return answer;
}

static CUresult give_range(void *out, CUdeviceptr at, size_t size,
			   CUmemRangeHandleType type, unsigned long long flags)
{
	(void)out;
	(void)type;
	return bind_address(0, 0, at, size, flags);
}

static CUresult map_arrays(CUarrayMapInfo *list, unsigned count, CUstream s)
{
	(void)count;
	(void)s;
	given = list[0].memHandle.memHandle;
	return answer;
}

static CUresult ask(void *data, CUpointer_attribute attribute, CUdeviceptr at)
{
	(void)data;
	(void)attribute;
	(void)at;
	return answer;
}

static CUresult set(const void *data, CUpointer_attribute attribute,
		    CUdeviceptr at)
{
	(void)data;
	(void)attribute;
	(void)at;
	return answer;
}

static CUmemGenericAllocationHandle real(void)
{
	return foreign_of(handle)->chunk.handle;
}

static void start(void)
{
	fixture_start("default", "");
	base = foreign_whole("w", SIZE, &handle);
	vs_real.cuMulticastBindMem = bind_memory;
	vs_real.cuMulticastBindAddr = bind_address;
	vs_real.cuMemGetHandleForAddressRange = give_range;
}

static CUresult share_bound(void)
{
	CUresult rc = vs_foreign_bind(5, 0, handle, 0, SIZE, 0);

	ck_assert_uint_eq(given, real());
	return rc;
}

static CUresult share_bound_address(void)
{
	return vs_foreign_bind_address(5, 0, base + UNIT, UNIT, 0);
}

static CUresult share_range(void)
{
	CUresult rc = CUDA_ERROR_UNKNOWN;
	int fd;

	ck_assert(vs_foreign_handle_for_range(&fd, base + UNIT, UNIT, DMA_BUF,
					      0, &rc));
	return rc;
}

static CUresult share_array(void)
{
	CUarrayMapInfo list[2] = { 0 };
	CUresult rc;

	list[0].memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	list[0].memHandle.memHandle = handle;
	list[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	rc = vs_foreign_map_arrays(map_arrays, list, 2, NULL);
	ck_assert_uint_eq(given, real());
	ck_assert_uint_eq(list[0].memHandle.memHandle, handle);
	return rc;
}

static CUresult share_tokens(void)
{
	__typeof__(vs_real.cuPointerGetAttribute) plain =
		vs_real.cuPointerGetAttribute;
	CUresult rc = CUDA_ERROR_UNKNOWN;
	uint64_t tokens[2];

	vs_real.cuPointerGetAttribute = ask;
	ck_assert(vs_foreign_attribute(tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
				       base + 5, &rc));
	vs_real.cuPointerGetAttribute = plain;
	return rc;
}

static CUresult share_sync(void)
{
	CUresult rc = CUDA_ERROR_UNKNOWN;
	unsigned on = 1;

	vs_real.cuPointerSetAttribute = set;
	ck_assert(vs_foreign_set_attribute(&on,
					   CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					   base + 5, &rc));
	return rc;
}

static CUresult share_export(void)
{
	CUresult rc;
	int fd = -1;

	if (answer)
		sim_fail("cuMemExportToShareableHandle", 1, answer);
	rc = vs_foreign_export(&fd, handle,
			       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (!rc)
		close(fd);
	return rc;
}

static const struct {
	CUresult (*share)(void);
	const char *reason;
} ways[] = {
	{ share_bound, "bound to a multicast object" },
	{ share_bound_address, "bound to a multicast object" },
	{ share_range, "a dma-buf was made of it" },
	{ share_array, "mapped into an array" },
	{ share_tokens, "P2P tokens were asked for" },
	{ share_sync, "SYNC_MEMOPS was set" },
	{ share_export, "exported to another process" },
};

static void assert_kept(size_t bytes, const char *reason)
{
	struct vs_reply reply = fixture_sleep(1, NULL);

	ck_assert_int_eq(reply.status, VS_PARTIAL);
	ck_assert_uint_eq(fixture_ledger().last.kept_bytes, bytes);
	ck_assert_str_eq(fixture_ledger().last.kept[0].why, reason);
	ck_assert_uint_eq(fixture_ledger().resident_bytes, bytes);
	fixture_assert_sound();
}

START_TEST(it_is_kept_and_the_reply_says_why)
{
	start();
	ck_ok(ways[_i].share());
	assert_kept(SIZE, ways[_i].reason);
	fixture_assert_filled(base, SIZE);
	foreign_wake();
	fixture_assert_filled(base, SIZE);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_call_that_fails_keeps_nothing)
{
	start();
	answer = CUDA_ERROR_OUT_OF_MEMORY;
	ck_cu(ways[_i].share(), answer);
	foreign_cycle();
	fixture_assert_filled(base, SIZE);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

START_TEST(memory_that_sleeps_is_not_shared)
{
	uint64_t tokens[2];
	unsigned on = 1;
	CUresult rc;
	int fd;

	start();
	foreign_sleep();
	ck_cu(vs_foreign_export(&fd, handle,
				CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	      CUDA_ERROR_NOT_PERMITTED);
	ck_cu(vs_foreign_bind(5, 0, handle, 0, SIZE, 0),
	      CUDA_ERROR_NOT_PERMITTED);
	ck_assert(vs_foreign_attribute(tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
				       base, &rc));
	ck_cu(rc, CUDA_ERROR_INVALID_VALUE);
	ck_assert(vs_foreign_set_attribute(&on,
					   CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					   base, &rc));
	ck_cu(rc, CUDA_ERROR_NOT_SUPPORTED);
	foreign_wake();
	foreign_cycle();
	fixture_assert_filled(base, SIZE);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

START_TEST(imported_memory_is_kept_and_has_the_size_of_its_mappings)
{
	CUdeviceptr at;
	handle_t import;
	CUmemAllocationProp prop;
	int fd;

	start();
	ck_ok(vs_foreign_export(&fd, handle,
				CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_ok(vs_foreign_import(&import, (void *)(uintptr_t)fd,
				CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	ck_assert(vs_foreign_is_name(import));
	ck_assert_uint_ne(import, handle);
	ck_ok(vs_foreign_properties(&prop, import));
	at = foreign_reserve(SIZE);
	foreign_map(at, SIZE, import);
	foreign_allow(at, SIZE, 0, RO);
	ck_assert_mem_eq((void *)at, (void *)base, SIZE);
	ck_assert_uint_eq(foreign_of(import)->segment.size, SIZE);
	assert_kept(2 * SIZE, "imported from another process");
	ck_assert_str_eq(fixture_ledger().last.kept[1].why,
			 "exported to another process");
	foreign_wake();
	foreign_end(at, SIZE, import);
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_pool_of_tiles_is_kept)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL,
	};
	handle_t tiles;

	start();
	ck_ok(vs_foreign_create(&tiles, MIB, &prop, 0));
	assert_kept(MIB, "a pool of tiles for arrays");
	foreign_wake();
	ck_ok(vs_foreign_release(tiles));
	foreign_end(base, SIZE, handle);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, it_is_kept_and_the_reply_says_why, 0,
			    COUNT(ways));
	tcase_add_loop_test(tc, a_call_that_fails_keeps_nothing, 0,
			    COUNT(ways));
	tcase_add_test(tc, memory_that_sleeps_is_not_shared);
	tcase_add_test(tc,
		imported_memory_is_kept_and_has_the_size_of_its_mappings);
	tcase_add_test(tc, a_pool_of_tiles_is_kept);
}

int main(void)
{
	return fixture_main("foreign-kept", fill);
}
