/* SPDX-License-Identifier: Apache-2.0 */
/* Devices are copied out and back side by side. */
#include <config.h>

#include "store_fixture.h"

#include "backup/host_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Threads of src/ that were started; how many of them are refused. */
static int started, no_threads;

int __real_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg);
int __wrap_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg);
int __wrap_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg)
{
	if (no_threads && no_threads--)
		return EAGAIN;
	started++;
	return __real_vs_thread_start(thread, name, body, arg);
}

/* _i: its device.  What was before it on that device has been copied. */
START_TEST(an_item_that_cannot_be_made_ready_ends_the_copy_back)
{
	struct vs_why why;
	int bad = _i ? 4 : 2, before = _i ? 1 : 0;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	store_overwrite();
	store_refused = (size_t)bad + 1;
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_NOMEM);
	ck_assert_str_eq(why.text, "none");
	ck_assert_uint_eq(store_last[_i], store_refused);
	ck_assert_uint_eq(vs_store_bytes(), store_total());
	fixture_assert_filled(store_items[before].base, store_sizes[before]);
	ck_assert_int_eq(*(char *)(uintptr_t)store_items[bad].base, 0x33);
	store_refused = 0;
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	store_assert_loaded();
	store_drop_all();
}
END_TEST

/* A save (_i 0) or load whose copies wait until the streams may go on. */
static void *move_all(void *result)
{
	struct vs_why why;
	int *step = result;

	*step = (int)(*step ? store_load(0, STORE_ITEMS, &why) :
			      store_save(&why));
	return NULL;
}

START_TEST(copies_of_both_devices_are_in_flight_at_once)
{
	const char *call = _i ? "cuMemcpyHtoDAsync_v2" :
				"cuMemcpyDtoHAsync_v2";
	struct vs_why why;
	pthread_t thread;
	int result = _i;

	store_set_up();
	if (_i)
		ck_assert_int_eq(store_save(&why), VS_OK);
	store_overwrite();
	if (!_i)	/* or the sums of the pages would be waited for */
		sim_fail_from("cuModuleLoadData", 1, CUDA_ERROR_UNKNOWN);
	sim_calls_reset();
	sim_hold(1);
	ck_assert_int_eq(pthread_create(&thread, NULL, move_all, &result), 0);
	while (sim_calls(call) < STORE_COPIES)
		sched_yield();
	ck_assert_uint_eq(store_meter.done, 0);
	ck_assert_uint_eq(store_readied, _i ? STORE_ITEMS : 0);
	ck_assert_int_eq(*(char *)(uintptr_t)store_items[2].base, 0x33);
	sim_hold(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(result, VS_OK);
	ck_assert_uint_eq(store_meter.done, store_total());
	if (_i)
		store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

static atomic_int pins;
static atomic_bool together, crossed;
static __typeof__(vs_real.cuMemHostRegister_v2) real_pin;
static __typeof__(vs_real.cuMemcpyDtoHAsync_v2) real_copy;

static CUresult CUDAAPI slow_pin(void *p, size_t size, unsigned flags)
{
	CUresult rc;
	int i;

	if (atomic_fetch_add(&pins, 1))
		together = true;
	for (i = 0; i < 2000; i++)
		sched_yield();
	rc = real_pin(p, size, flags);
	atomic_fetch_sub(&pins, 1);
	return rc;
}

static CUresult CUDAAPI watched_copy(void *to, CUdeviceptr from, size_t size,
				     CUstream stream)
{
	int i;

	for (i = 0; i < 200; i++) {
		if (atomic_load(&pins))
			crossed = true;
		sched_yield();
	}
	return real_copy(to, from, size, stream);
}

START_TEST(no_copy_is_queued_while_memory_is_pinned)
{
	struct vs_why why = { .text = "" };

	setenv("VSLEEP_THREADS", "4", 1);
	store_set_up();
	real_pin = vs_real.cuMemHostRegister_v2;
	real_copy = vs_real.cuMemcpyDtoHAsync_v2;
	vs_real.cuMemHostRegister_v2 = slow_pin;
	vs_real.cuMemcpyDtoHAsync_v2 = watched_copy;
	sim_calls_reset();
	ck_assert_msg(!store_save(&why), "%s", why.text);
	ck_assert_uint_ge(sim_calls("cuMemHostRegister_v2"), 3);
	ck_assert_uint_eq(sim_calls("cuMemcpyDtoHAsync_v2"), STORE_COPIES);
	ck_assert(!together);
	ck_assert(!crossed);
	store_overwrite();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

/* _i: the device, whose stream is gone and cannot be had again. */
START_TEST(a_failure_on_one_device_takes_all_backups_back)
{
	struct vs_why why;

	store_set_up();
	ck_assert_int_eq(store_save(&why), VS_OK);
	store_drop_all();
	store_contexts[_i]->stream = NULL;
	sim_fail_from("cuStreamCreate", 1, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(store_save(&why), VS_CUDA);
	ck_assert_ptr_nonnull(strstr(why.text, "stream on device"));
	store_assert_nothing_taken();
	sim_fail_clear();
	ck_assert_int_eq(store_save(&why), VS_OK);
	store_overwrite();
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	store_assert_loaded();
	store_drop_all();
}
END_TEST

START_TEST(two_failures_at_once_are_one)
{
	struct vs_why why;

	store_set_up();
	sim_fail_from("cuMemcpyDtoHAsync_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(store_save(&why), VS_CUDA);
	ck_assert_ptr_nonnull(strstr(why.text, "copy out of 0x"));
	store_assert_nothing_taken();
	sim_fail_clear();
	sim_fail_from("cuStreamCreate", 1, CUDA_ERROR_UNKNOWN);
	store_contexts[0]->stream = store_contexts[1]->stream = NULL;
	ck_assert_int_eq(store_save(&why), VS_CUDA);
	ck_assert_ptr_nonnull(strstr(why.text, "stream on device"));
	store_assert_nothing_taken();
}
END_TEST

/* _i: so many cannot be started; three that prepare memory come first. */
START_TEST(without_threads_the_work_is_done_all_the_same)
{
	struct vs_why why;

	store_set_up();
	no_threads = _i;
	ck_assert_int_eq(store_save(&why), VS_OK);
	ck_assert_uint_eq(store_meter.done, store_total());
	store_overwrite();
	no_threads = _i;
	ck_assert_int_eq(store_load(0, STORE_ITEMS, &why), VS_OK);
	store_assert_loaded();
	store_drop_all();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
}
END_TEST

START_TEST(one_device_has_no_thread_of_its_own)
{
	struct vs_why why;

	store_set_up();
	ck_assert_int_eq(store_load(2, 2, &why), VS_OK);
	ck_assert_int_eq(started, 0);
	ck_assert_int_eq(store_load(2, 3, &why), VS_OK);
	ck_assert_int_eq(started, 1);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		an_item_that_cannot_be_made_ready_ends_the_copy_back, 0, 2);
	tcase_add_loop_test(tc, copies_of_both_devices_are_in_flight_at_once,
			    0, 2);
	tcase_add_loop_test(tc,
		a_failure_on_one_device_takes_all_backups_back, 0, 2);
	tcase_add_test(tc, no_copy_is_queued_while_memory_is_pinned);
	tcase_add_test(tc, two_failures_at_once_are_one);
	tcase_add_loop_test(tc,
		without_threads_the_work_is_done_all_the_same, 0, 5);
	tcase_add_test(tc, one_device_has_no_thread_of_its_own);
}

int main(void)
{
	return fixture_main("store_devices", fill);
}
