/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver is as strict about memory as the real one. */
#include "check_sim.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};

static CUmemAccessDesc access_for(int dev)
{
	CUmemAccessDesc d = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	d.location.id = dev;
	return d;
}

/* Reserve, create, map and open for device 0; the handle is released. */
static CUdeviceptr mapped(size_t len, size_t chunk)
{
	CUmemAccessDesc d = access_for(0);
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	size_t off;

	ck_ok(cuMemAddressReserve(&at, len, 0, 0, 0));
	for (off = 0; off < len; off += chunk) {
		ck_ok(cuMemCreate(&h, chunk, &prop, 0));
		ck_ok(cuMemMap(at + off, chunk, 0, h, 0));
		ck_ok(cuMemRelease(h));
	}
	ck_ok(cuMemSetAccess(at, len, &d, 1));
	return at;
}

START_TEST(calls_before_init_are_refused)
{
	CUdevice dev;
	int n;

	ck_cu(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	ck_cu(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	ck_ok(cuDriverGetVersion(&n));
	ck_cu(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuInit(0));
	ck_ok(cuDeviceGet(&dev, 0));
	ck_cu(cuDeviceGet(&dev, 1), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(calls_without_a_context_are_refused)
{
	CUdeviceptr p;
	size_t a, b;

	ck_ok(cuInit(0));
	ck_cu(cuMemAlloc_v2(&p, 1), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuMemGetInfo_v2(&a, &b), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuMemcpy(1, 2, 3), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

static void assert_dirty(CUdeviceptr p, size_t len)
{
	unsigned char *host = calloc(1, len);
	size_t i;

	ck_ok(cuMemcpyDtoH_v2(host, p, len));
	for (i = 1; i < len && host[i] == 0xd1; i += 2)
		;
	ck_assert_uint_ge(i, len);
	free(host);
}

START_TEST(memory_is_handed_out_dirty)
{
	CUdeviceptr p;

	start(0);
	ck_ok(cuMemAlloc_v2(&p, 5000));
	assert_dirty(p, 5000);
	ck_ok(cuMemsetD8_v2(p, 7, 5000));
	ck_ok(cuMemFree_v2(p));
	ck_ok(cuMemAlloc_v2(&p, 5000));
	assert_dirty(p, 5000);
	ck_ok(cuMemAlloc_v2(&p, 3 * MIB));
	assert_dirty(p, 3 * MIB);
	assert_dirty(mapped(2 * BLOCK, BLOCK), 2 * BLOCK);
}
END_TEST

START_TEST(small_allocations_share_blocks)
{
	enum { N = 20000 };
	static CUdeviceptr p[N];
	int i;

	start(0);
	for (i = 0; i < N; i++) {
		ck_ok(cuMemAlloc_v2(&p[i], 4096));
		ck_assert_uint_eq(p[i] % 512, 0);
	}
	ck_assert_uint_eq(sim_used(0), 80 * MIB);
	ck_assert_uint_eq(ledger().allocations, N);
	for (i = 0; i < N; i++)
		ck_ok(cuMemFree_v2(p[i]));
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

START_TEST(only_allocations_can_be_freed_and_only_once)
{
	CUdeviceptr p, q;
	size_t pitch;
	int local;

	start(0);
	ck_cu(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemFree_v2(0));
	ck_ok(cuMemAlloc_v2(&p, 4096));
	ck_ok(cuMemAllocPitch_v2(&q, &pitch, 1000, 3, 4));
	ck_assert_uint_eq(pitch, 1024);
	ck_cu(cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFree_v2((CUdeviceptr)(uintptr_t)&local),
	      CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemFree_v2(p));
	ck_cu(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ledger().invalid, 3);
}
END_TEST

START_TEST(the_limit_holds_for_every_allocator)
{
	CUmemGenericAllocationHandle h, none = 77;
	CUdeviceptr p;
	size_t room, total;

	start(0);
	sim_limit(0, 5 * BLOCK);
	ck_ok(cuMemCreate(&h, 4 * BLOCK, &prop, 0));
	ck_cu(cuMemCreate(&none, 2 * BLOCK, &prop, 0),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(none, 77);
	ck_cu(cuMemAlloc_v2(&p, 2 * BLOCK), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuMemAlloc_v2(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuMemGetInfo_v2(&room, &total));
	ck_assert_uint_eq(room, 0);
	ck_assert_uint_eq(total, 5 * BLOCK);
	ck_ok(cuMemRelease(h));
	ck_ok(cuMemGetInfo_v2(&room, &total));
	ck_assert_uint_eq(room, 4 * BLOCK);
}
END_TEST

START_TEST(memory_stays_while_it_is_mapped_or_has_a_handle)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;

	start(0);
	at = mapped(BLOCK, BLOCK);
	ck_assert_uint_eq(ledger().handles, 0);
	ck_assert_uint_eq(sim_used(0), BLOCK);
	ck_ok(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)(at + 5)));
	ck_assert_uint_eq(ledger().handles, 1);
	ck_ok(cuMemUnmap(at, BLOCK));
	ck_assert_uint_eq(sim_used(0), BLOCK);
	ck_ok(cuMemRelease(h));
	ck_assert_uint_eq(sim_used(0), 0);
	ck_ok(cuMemAddressFree(at, BLOCK));
	ck_assert_uint_eq(ledger().invalid, 0);
}
END_TEST

START_TEST(a_double_release_is_recorded)
{
	CUmemGenericAllocationHandle h;

	start(0);
	ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
	ck_ok(cuMemRelease(h));
	ck_assert_uint_eq(ledger().invalid, 0);
	ck_cu(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ledger().invalid, 1);
	ck_assert_ptr_nonnull(strstr(sim_invalid_text(), "cuMemRelease"));
}
END_TEST

START_TEST(sizes_must_be_multiples_of_the_granularity)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	size_t g;

	start(0);
	ck_ok(cuMemGetAllocationGranularity(&g, &prop,
		CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(g, BLOCK);
	ck_cu(cuMemCreate(&h, g + 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemCreate(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemAddressReserve(&at, g / 2, 0, 0, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemAddressReserve(&at, g, 0, 0, 0));
	ck_assert_uint_eq(at % g, 0);
}
END_TEST

START_TEST(unmapping_takes_whole_mappings)
{
	CUdeviceptr at;

	start(0);
	at = mapped(3 * BLOCK, BLOCK);
	ck_cu(cuMemUnmap(at, BLOCK / 2), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemUnmap(at + 4096, BLOCK), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemUnmap(at, 2 * BLOCK));
	ck_cu(cuMemUnmap(at, BLOCK), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemUnmap(at, 3 * BLOCK), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ledger().mappings, 1);
	ck_assert_uint_eq(ledger().invalid, 4);
}
END_TEST

START_TEST(a_mapped_range_cannot_be_freed)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;

	start(0);
	at = mapped(BLOCK, BLOCK);
	ck_cu(cuMemAddressFree(at, BLOCK), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
	ck_cu(cuMemMap(at, BLOCK, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ledger().reservations, 1);
	ck_assert_uint_eq(ledger().invalid, 2);
}
END_TEST

START_TEST(memory_without_access_is_refused_to_copies)
{
	CUmemGenericAllocationHandle h;
	CUmemAccessDesc d = access_for(0);
	CUdeviceptr at;

	start(0);
	ck_ok(cuMemAddressReserve(&at, BLOCK, 0, 0, 0));
	ck_cu(cuMemsetD8_v2(at, 1, 8), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemSetAccess(at, BLOCK, &d, 1), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
	ck_ok(cuMemMap(at, BLOCK, 0, h, 0));
	ck_cu(cuMemsetD8_v2(at, 1, 8), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemSetAccess(at, BLOCK, &d, 1));
	ck_ok(cuMemsetD8_v2(at, 1, 8));
	ck_ok(cuCtxSynchronize());
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	ck_ok(cuMemSetAccess(at, BLOCK, &d, 1));
	ck_cu(cuMemsetD8_v2(at, 1, 8), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(each_granule_has_rights_of_its_own)
{
	CUmemAccessDesc d = access_for(0);
	unsigned long long flags;
	CUdeviceptr at;

	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	start(0);
	at = mapped(BLOCK, BLOCK);
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	ck_ok(cuMemSetAccess(at + 65536, 65536, &d, 1));
	ck_cu(cuMemSetAccess(at + 1, 65536, &d, 1), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemGetAccess(&flags, &d.location, at + 131071));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	ck_ok(cuMemGetAccess(&flags, &d.location, at + 131072));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ck_ok(cuMemsetD8_v2(at, 1, 65536));
	ck_ok(cuMemsetD8_v2(at + 131072, 1, 65536));
	ck_cu(cuMemsetD8_v2(at + 65535, 1, 2), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemsetD8_v2(at, 1, BLOCK), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuCtxSynchronize());
}
END_TEST

START_TEST(work_on_memory_that_was_unmapped_faults)
{
	CUdeviceptr at;

	start(0);
	at = mapped(BLOCK, BLOCK);
	sim_hold(1);
	ck_ok(cuMemsetD8_v2(at, 1, 8));
	ck_ok(cuMemUnmap(at, BLOCK));
	sim_hold(0);
	cuCtxSynchronize();
}
END_TEST

START_TEST(another_device_needs_access_of_its_own)
{
	CUmemAccessDesc d = access_for(1);
	CUcontext other;
	CUdeviceptr at, native;
	char host[8];

	setenv("VSLEEP_SIM_DEVICES", "2", 1);
	start(0);
	at = mapped(BLOCK, BLOCK);
	ck_ok(cuMemAlloc_v2(&native, 4096));
	ck_ok(cuDevicePrimaryCtxRetain(&other, 1));
	ck_ok(cuCtxSetCurrent(other));
	ck_ok(cuMemcpyDtoH_v2(host, native, 8));
	ck_cu(cuMemcpyDtoH_v2(host, at, 8), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemSetAccess(at, BLOCK, &d, 1));
	ck_ok(cuMemcpyDtoH_v2(host, at, 8));
}
END_TEST

START_TEST(a_copy_may_not_span_two_registrations)
{
	CUdeviceptr p;
	char *host;

	start(0);
	ck_ok(cuMemAlloc_v2(&p, 2 * MIB));
	host = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_ok(cuMemHostRegister_v2(host, MIB, 0));
	ck_ok(cuMemHostRegister_v2(host + MIB, MIB, 0));
	ck_cu(cuMemHostRegister_v2(host, 4096, 0),
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ck_ok(cuMemcpyDtoH_v2(host, p, MIB));
	ck_ok(cuMemcpyDtoH_v2(host + MIB, p, MIB));
	ck_cu(cuMemcpyDtoH_v2(host, p, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemHostUnregister(host));
	ck_cu(cuMemHostUnregister(host),
	      CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_assert_uint_eq(ledger().registered, 1);
}
END_TEST

START_TEST(a_copy_may_span_two_mappings_but_not_an_allocation)
{
	CUdeviceptr at, p;

	start(0);
	at = mapped(2 * BLOCK, BLOCK);
	ck_ok(cuMemsetD8_v2(at + BLOCK / 2, 3, BLOCK));
	ck_cu(cuMemsetD8_v2(at + BLOCK, 3, BLOCK + 1),
	      CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemAlloc_v2(&p, 1000));
	ck_cu(cuMemsetD8_v2(p, 3, 1001), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(pointer_queries_tell_mapped_from_native_memory)
{
	CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_RANGE_SIZE };
	CUdeviceptr at, p, base;
	CUipcMemHandle ipc;
	unsigned type = 9, on = 1;
	size_t size;
	void *out[] = { &type, &size };

	start(0);
	at = mapped(2 * BLOCK, BLOCK);
	ck_ok(cuMemAlloc_v2(&p, 3000));
	ck_ok(cuMemGetAddressRange_v2(&base, &size, at + BLOCK + 9));
	ck_assert_uint_eq(base, at + BLOCK);
	ck_assert_uint_eq(size, BLOCK);
	ck_ok(cuMemGetAddressRange_v2(&base, &size, p + 9));
	ck_assert_uint_eq(base, p);
	ck_assert_uint_eq(size, 3000);
	ck_cu(cuIpcGetMemHandle(&ipc, at), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuIpcGetMemHandle(&ipc, p));
	ck_cu(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				    at), CUDA_ERROR_NOT_SUPPORTED);
	ck_ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	ck_ok(cuPointerGetAttributes(2, which, out, p));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert_uint_eq(size, 3000);
	ck_ok(cuPointerGetAttribute(&base,
			CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p));
	ck_ok(cuPointerGetAttribute(&size,
			CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p));
	ck_assert_uint_eq(base, p & ~(BLOCK - 1));
	ck_assert_uint_eq(size, BLOCK);
	ck_ok(cuPointerGetAttributes(2, which, out, (uintptr_t)&on));
	ck_assert_uint_eq(type, 0);
	ck_cu(cuPointerGetAttribute(&type, which[0], (uintptr_t)&on),
	      CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(ending_a_context_frees_its_memory_but_no_mapping)
{
	CUdeviceptr p;

	start(0);
	mapped(BLOCK, BLOCK);
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuMemAlloc_v2(&p, 9 * MIB));
	ck_ok(cuDevicePrimaryCtxReset_v2(0));
	ck_assert_uint_eq(sim_used(0), BLOCK);
	ck_assert_uint_eq(ledger().allocations, 0);
	ck_assert_uint_eq(ledger().mappings, 1);
	ck_cu(cuMemAlloc_v2(&p, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
END_TEST

START_TEST(plain_memory_is_freed_in_a_streams_order)
{
	CUdeviceptr p;

	start(0);
	ck_ok(cuMemAlloc_v2(&p, 4 * BLOCK));
	ck_cu(cuMemFreeAsync(p + 512, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuMemFreeAsync(p, NULL));
	ck_cu(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_ok(cuCtxSynchronize());
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

START_TEST(a_pool_keeps_what_its_threshold_allows)
{
	cuuint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr p;

	start(0);
	ck_ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ck_ok(cuMemAllocAsync(&p, 4 * BLOCK, NULL));
	ck_ok(cuMemFreeAsync(p, NULL));
	ck_ok(cuCtxSynchronize());
	ck_assert_uint_eq(sim_used(0), 0);
	ck_ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				    &threshold));
	ck_ok(cuMemAllocAsync(&p, 4 * BLOCK, NULL));
	ck_ok(cuMemFreeAsync(p, NULL));
	ck_ok(cuCtxSynchronize());
	ck_assert_uint_eq(sim_used(0), 4 * BLOCK);
	ck_ok(cuMemPoolTrimTo(pool, BLOCK));
	ck_assert_uint_eq(sim_used(0), BLOCK);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim memory");
	TCase *t = tcase_create("memory");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, calls_before_init_are_refused);
	tcase_add_test(t, calls_without_a_context_are_refused);
	tcase_add_test(t, memory_is_handed_out_dirty);
	tcase_add_test(t, small_allocations_share_blocks);
	tcase_add_test(t, only_allocations_can_be_freed_and_only_once);
	tcase_add_test(t, the_limit_holds_for_every_allocator);
	tcase_add_test(t, memory_stays_while_it_is_mapped_or_has_a_handle);
	tcase_add_test(t, a_double_release_is_recorded);
	tcase_add_test(t, sizes_must_be_multiples_of_the_granularity);
	tcase_add_test(t, unmapping_takes_whole_mappings);
	tcase_add_test(t, a_mapped_range_cannot_be_freed);
	tcase_add_test(t, memory_without_access_is_refused_to_copies);
	tcase_add_test(t, each_granule_has_rights_of_its_own);
	tcase_add_test_raise_signal(t, work_on_memory_that_was_unmapped_faults,
				    SIGSEGV);
	tcase_add_test(t, another_device_needs_access_of_its_own);
	tcase_add_test(t, a_copy_may_not_span_two_registrations);
	tcase_add_test(t, a_copy_may_span_two_mappings_but_not_an_allocation);
	tcase_add_test(t, pointer_queries_tell_mapped_from_native_memory);
	tcase_add_test(t, ending_a_context_frees_its_memory_but_no_mapping);
	tcase_add_test(t, plain_memory_is_freed_in_a_streams_order);
	tcase_add_test(t, a_pool_keeps_what_its_threshold_allows);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
