/* SPDX-License-Identifier: Apache-2.0 */
/* Frees, and calls that come with no context or from elsewhere. */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/allocator.h"
#include "memory/quarantine.h"
#include "memory/unmanaged.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define UNTOUCHED ((CUdeviceptr)0x5a5a5a5a5a5a5a5a)
#define OWN (17 * MIB)

static const size_t sizes[] = { 1000, OWN };

static void start(void)
{
	fixture_start("default", "");
}

static unsigned long invalid(void)
{
	return fixture_sim().invalid;
}

/* What the driver gives for a plain allocation of its own, and for ours. */
static void assert_free_as_native(CUdeviceptr native, CUdeviceptr ours)
{
	unsigned long before = invalid(), by_native;
	CUresult rc = vs_real.cuMemFree_v2(native);

	by_native = invalid() - before;
	ck_cu(vs_allocator_free(ours), rc);
	ck_assert_uint_eq(invalid() - before, 2 * by_native);
}

/* _i: small, large. */
START_TEST(freeing_an_interior_address_gives_the_drivers_error)
{
	CUdeviceptr native, ours;

	start();
	ck_ok(vs_real.cuMemAlloc_v2(&native, sizes[_i]));
	ours = fixture_alloc("w", sizes[_i]);
	assert_free_as_native(native + 512, ours + 512);
	assert_free_as_native(native + 1, ours + 1);
	assert_free_as_native(native + sizes[_i] - 1, ours + sizes[_i] - 1);
	fixture_assert_filled(ours, sizes[_i]);
	ck_assert_ptr_nonnull(fixture_segment(ours));
	fixture_free(ours);
}
END_TEST

/* _i: small, large. */
START_TEST(freeing_twice_gives_the_drivers_error)
{
	CUdeviceptr native, ours, other;

	start();
	ck_ok(vs_real.cuMemAlloc_v2(&native, sizes[_i]));
	ours = fixture_alloc("w", sizes[_i]);
	other = fixture_alloc("w", 5000);
	ck_ok(vs_real.cuMemFree_v2(native));
	fixture_free(ours);
	assert_free_as_native(native, ours);
	fixture_assert_filled(other, 5000);
	fixture_free(other);
	ck_assert_uint_eq(fixture_ledger().allocations, 0);
}
END_TEST

static int local;

START_TEST(freeing_what_is_no_memory_of_the_device_gives_the_drivers_error)
{
	CUdeviceptr kept, host;
	void *pinned;

	start();
	kept = fixture_alloc("w", 5000);
	ck_ok(vs_real.cuMemAllocHost_v2(&pinned, 4096));
	host = (uintptr_t)pinned;
	assert_free_as_native((uintptr_t)&local, (uintptr_t)&local);
	assert_free_as_native(host, host);
	assert_free_as_native(8, 8);
	assert_free_as_native(SIZE_MAX, SIZE_MAX);
	fixture_assert_filled(kept, 5000);
	ck_ok(vs_real.cuMemFreeHost(pinned));
	fixture_free(kept);
}
END_TEST

START_TEST(freeing_null_is_fine)
{
	start();
	ck_ok(vs_allocator_free(0));
	fixture_assert_empty();
}
END_TEST

START_TEST(memory_from_before_our_time_is_freed_by_the_driver)
{
	CUdeviceptr plain, managed;

	start();
	ck_ok(vs_real.cuMemAlloc_v2(&plain, MIB));
	ck_ok(vs_real.cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	ck_ok(vs_allocator_free(plain));
	ck_ok(vs_allocator_free(managed));
	fixture_assert_empty();
}
END_TEST

START_TEST(without_a_tag_memory_stays_native_and_is_counted)
{
	CUdeviceptr base, row;
	size_t pitch;

	fixture_start("", "");
	ck_ok(vs_allocator_alloc(&base, 5000));
	ck_assert_ptr_null(fixture_segment(base));
	ck_ok(vs_allocator_alloc_pitch(&row, &pitch, 100, 10, 4));
	ck_assert_ptr_null(fixture_segment(row));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE),
			  5000 + 10 * pitch);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_assert_uint_eq(fixture_sim().reservations, 0);
	ck_ok(vs_allocator_free(base));
	ck_assert_uint_eq(vs_unmanaged_total(), 10 * pitch);
	ck_ok(vs_allocator_free(row));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
	fixture_assert_empty();
}
END_TEST

/* Memory that is still there is still counted. */
START_TEST(a_native_free_that_fails_leaves_the_count)
{
	CUdeviceptr base;

	fixture_start("", "");
	ck_ok(vs_allocator_alloc(&base, 5000));
	sim_fail("cuMemFree_v2", 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu(vs_allocator_free(base),
	      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), 5000);
	ck_ok(vs_allocator_free(base));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
}
END_TEST

struct answers {
	CUresult alloc, alloc_pitch, alloc_zero, free_ours, free_null, info;
	CUdeviceptr base, row;
	size_t pitch;
};

static CUdeviceptr somebodys;

static int ask_native(void *arg)
{
	struct answers *a = arg;
	size_t free_bytes, total;

	a->alloc = vs_real.cuMemAlloc_v2(&a->base, 4096);
	a->alloc_zero = vs_real.cuMemAlloc_v2(&a->base, 0);
	a->alloc_pitch = vs_real.cuMemAllocPitch_v2(&a->row, &a->pitch, 8, 8,
						    4);
	a->free_ours = vs_real.cuMemFree_v2(somebodys);
	a->free_null = vs_real.cuMemFree_v2(0);
	a->info = vs_real.cuMemGetInfo_v2(&free_bytes, &total);
	return 0;
}

static int ask_us(void *arg)
{
	struct answers *a = arg;
	size_t free_bytes, total;

	a->alloc = vs_allocator_alloc(&a->base, 4096);
	a->alloc_zero = vs_allocator_alloc(&a->base, 0);
	a->alloc_pitch = vs_allocator_alloc_pitch(&a->row, &a->pitch, 8, 8,
						  4);
	a->free_ours = vs_allocator_free(somebodys);
	a->free_null = vs_allocator_free(0);
	a->info = vs_allocator_info(&free_bytes, &total);
	return 0;
}

START_TEST(without_a_context_all_answers_are_the_drivers)
{
	struct answers native, ours;

	start();
	memset(&native, 0x5a, sizeof(native));
	memset(&ours, 0x5a, sizeof(ours));
	ck_ok(vs_real.cuMemAlloc_v2(&somebodys, 4096));
	fixture_on_thread(ask_native, &native);
	if (native.free_ours)
		ck_ok(vs_real.cuMemFree_v2(somebodys));
	somebodys = fixture_alloc("w", 4096);
	fixture_on_thread(ask_us, &ours);
	ck_assert_mem_eq(&ours, &native, sizeof(ours));
	ck_assert_int_ne(ours.alloc, CUDA_SUCCESS);
	ck_assert_uint_eq(ours.base, UNTOUCHED);
	if (ours.free_ours)
		fixture_free(somebodys);
	ck_assert_ptr_null(fixture_segment(somebodys));
	fixture_assert_empty();
}
END_TEST

static int free_there(void *base)
{
	fixture_current(fixture_context);
	return (int)vs_allocator_free(*(CUdeviceptr *)base);
}

/* _i: small, large. */
START_TEST(memory_may_be_freed_by_another_thread)
{
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", sizes[_i]);
	ck_ok(fixture_on_thread(free_there, &base));
	ck_assert_ptr_null(fixture_segment(base));
	fixture_assert_empty();
}
END_TEST

/* _i: small, large. */
START_TEST(memory_may_be_freed_under_another_context)
{
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", sizes[_i]);
	fixture_new_context(1);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* Its kernel runs until the flag is raised. */
static CUstream busy_stream(uint32_t *flag)
{
	CUdeviceptr p = (uintptr_t)flag, none = 0;
	CUfunction function;
	CUstream stream;
	CUmodule module;

	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(vs_real.cuModuleLoadData(&module, "\177ELF"));
	ck_ok(vs_real.cuModuleGetFunction(&function, module, "wait_flag"));
	ck_ok(vs_real.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
				     (void *[]){ &p, &none }, NULL));
	return stream;
}

static uint32_t *new_flag(void)
{
	void *flag;

	ck_ok(vs_real.cuMemAllocHost_v2(&flag, 4096));
	memset(flag, 0, 4096);
	return flag;
}

static atomic_bool freed;

static void *free_slowly(void *base)
{
	ck_ok(free_there(base));
	atomic_store(&freed, true);
	return NULL;
}

/* _i: small, large; 2 and 3: the work is another context's. */
START_TEST(a_free_waits_for_the_work_of_the_device)
{
	size_t size = sizes[_i & 1];
	uint32_t *flag;
	CUdeviceptr base;
	CUstream stream;
	pthread_t thread;

	start();
	base = fixture_alloc("w", size);
	flag = new_flag();
	if (_i & 2)
		fixture_new_context(0);
	stream = busy_stream(flag);
	pthread_create(&thread, NULL, free_slowly, &base);
	/* It has left the table and comes to the wait. */
	while (fixture_segment(base) || !sim_calls("cuCtxSynchronize"))
		sched_yield();
	ck_assert(!atomic_load(&freed));
	fixture_assert_filled(base, size);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_ok(vs_real.cuStreamSynchronize(stream));
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	fixture_assert_sound();
}
END_TEST

/* _i: small, large.  The stream's work may still use it. */
START_TEST(a_free_in_a_streams_order_does_not_wait_and_holds_the_address)
{
	CUdeviceptr base, other;
	uint32_t *flag;
	CUstream stream;
	int i;

	start();
	base = fixture_alloc("w", sizes[_i]);
	flag = new_flag();
	stream = busy_stream(flag);
	ck_ok(vs_allocator_free_later(base));
	ck_assert_ptr_null(fixture_segment(base));
	fixture_assert_filled(base, sizes[_i]);
	for (i = 0; i < 3; i++) {
		other = fixture_alloc("w", sizes[_i]);
		ck_assert(other >= base + sizes[_i] ||
			  other + sizes[_i] <= base);
	}
	fixture_assert_filled(base, sizes[_i]);
	ck_cu(vs_allocator_free_later(base), CUDA_ERROR_INVALID_VALUE);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ck_ok(vs_real.cuStreamSynchronize(stream));
	fixture_free(other);
	vs_lock_take(&vs_segment_lock);
	ck_assert_uint_eq(vs_quarantine_bytes(0), 0);
	vs_lock_drop(&vs_segment_lock);
	fixture_assert_sound();
}
END_TEST

static void lose(CUcontext context)
{
	CUfunction function;
	CUmodule module;

	fixture_current(context);
	ck_ok(vs_real.cuModuleLoadData(&module, "\177ELF"));
	ck_ok(vs_real.cuModuleGetFunction(&function, module, "fault"));
	ck_ok(vs_real.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
				     NULL, NULL));
	ck_assert_int_ne(vs_real.cuCtxSynchronize(), CUDA_SUCCESS);
}

/* _i: small, large. */
START_TEST(a_free_in_a_lost_context_gives_its_error_and_changes_nothing)
{
	CUdeviceptr base, native;
	CUresult rc;

	start();
	base = fixture_alloc("w", sizes[_i]);
	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	lose(fixture_context);
	rc = vs_real.cuMemFree_v2(native);
	ck_assert_int_eq(rc, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu(vs_allocator_free(base), rc);
	ck_assert_ptr_nonnull(fixture_segment(base));
	ck_cu(vs_allocator_alloc(&native, 4096), rc);
	fixture_assert_sound();
}
END_TEST

START_TEST(a_free_beside_a_lost_context_goes_through)
{
	CUdeviceptr base;

	start();
	base = fixture_alloc("w", OWN);
	lose(fixture_new_context(0));
	fixture_current(fixture_context);
	fixture_free(base);
	fixture_later();
	ck_assert_uint_eq(sim_used(0), 0);
	fixture_assert_sound();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		freeing_an_interior_address_gives_the_drivers_error, 0, 2);
	tcase_add_loop_test(tc, freeing_twice_gives_the_drivers_error, 0, 2);
	tcase_add_test(tc,
	freeing_what_is_no_memory_of_the_device_gives_the_drivers_error);
	tcase_add_test(tc, freeing_null_is_fine);
	tcase_add_test(tc, memory_from_before_our_time_is_freed_by_the_driver);
	tcase_add_test(tc, without_a_tag_memory_stays_native_and_is_counted);
	tcase_add_test(tc, a_native_free_that_fails_leaves_the_count);
	tcase_add_test(tc, without_a_context_all_answers_are_the_drivers);
	tcase_add_loop_test(tc, memory_may_be_freed_by_another_thread, 0, 2);
	tcase_add_loop_test(tc, memory_may_be_freed_under_another_context, 0,
			    2);
	tcase_add_loop_test(tc, a_free_waits_for_the_work_of_the_device, 0, 4);
	tcase_add_loop_test(tc,
	a_free_in_a_streams_order_does_not_wait_and_holds_the_address, 0,
		2);
	tcase_add_loop_test(tc,
	a_free_in_a_lost_context_gives_its_error_and_changes_nothing, 0,
		2);
	tcase_add_test(tc, a_free_beside_a_lost_context_goes_through);
}

int main(void)
{
	return fixture_main("free", fill);
}
