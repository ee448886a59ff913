/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "spill_fixture.h"

#include "backup/host_pool.h"
#include "backup/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define COPIES 24	/* three times the slots that the limit leaves */

static const size_t sizes[] = { 1, 4097, 300 * KIB, VS_PAGE - 1, VS_PAGE };

static struct vs_context *context;
static CUdeviceptr device;
static char *pageable;
static uint32_t slots[COPIES];
static CUstream stream;
static unsigned long events;

/* The nth thread, or list, cannot be had; 0: each can. */
static int no_thread, no_list;

int __real_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg);
int __wrap_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg);
int __wrap_vs_thread_start(pthread_t *thread, const char *name,
			   void *(*body)(void *), void *arg)
{
	if (no_thread && !strcmp(name, "vsleep-ring") && !--no_thread) {
		no_thread = 1;
		return EAGAIN;
	}
	return __real_vs_thread_start(thread, name, body, arg);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	if (no_list && !--no_list)
		return NULL;
	return __real_calloc(count, size);
}

static void set_up(void)
{
	struct vs_why why;

	fixture_start("default", "");
	spill_set_up();
	vs_config.host_limit = 16 * MIB;
	context = vs_context_pin(fixture_context);
	ck_ok(vs_real.cuMemAlloc_v2(&device, COPIES * VS_PAGE));
	ck_assert_int_eq(vs_context_stream(context, &stream, &why), VS_OK);
	pageable = malloc(COPIES * VS_PAGE);
	ck_assert_ptr_nonnull(pageable);
	ck_assert_int_eq(vs_spill_take(COPIES, slots, &why), VS_OK);
	events = fixture_sim().events;
}

static size_t size_of(int i)
{
	return sizes[i % COUNT(sizes)];
}

static CUdeviceptr near(int i)
{
	return device + (size_t)i * VS_PAGE;
}

/* Every other one in the spill. */
static struct vs_far far(int i)
{
	return (struct vs_far){
		.memory = i % 2 ? pageable + (size_t)i * VS_PAGE : NULL,
		.slot = slots[i],
	};
}

static void fill_device(void)
{
	int i;

	for (i = 0; i < COPIES; i++)
		fixture_fill(near(i), size_of(i));
}

static void assert_device(void)
{
	int i;

	for (i = 0; i < COPIES; i++)
		fixture_assert_filled(near(i), size_of(i));
}

static void wipe_device(void)
{
	memset((void *)(uintptr_t)device, 0x33, COPIES * VS_PAGE);
}

static enum vs_status all_out(struct vs_ring *ring, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	int i;

	for (i = 0; !st && i < COPIES; i++)
		st = vs_ring_out(ring, near(i), size_of(i), far(i), why);
	return st;
}

static enum vs_status all_in(struct vs_ring *ring, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	int i;

	for (i = 0; !st && i < COPIES; i++)
		st = vs_ring_in(ring, far(i), near(i), size_of(i), why);
	return st;
}

/* One way, with a ring of its own; closed without a drain where one failed. */
static enum vs_status move(bool out, struct vs_why *why)
{
	struct vs_ring *ring;
	enum vs_status st = vs_ring_open(context, stream, VS_RING_MOST,
					 &ring, why);

	if (st)
		return st;
	st = out ? all_out(ring, why) : all_in(ring, why);
	if (!st)
		st = vs_ring_drain(ring, why);
	vs_ring_close(ring);
	return st;
}

static void assert_no_ring(void)
{
	ck_assert_int_eq(vs_host_pool_check(0, NULL), VS_OK);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}

START_TEST(what_went_out_comes_back)
{
	struct vs_why why;

	set_up();
	fill_device();
	ck_assert_int_eq(move(true, &why), VS_OK);
	wipe_device();
	ck_assert_int_eq(move(false, &why), VS_OK);
	assert_device();
	assert_no_ring();
	ck_assert_uint_eq(fixture_sim().events, events);
}
END_TEST

START_TEST(a_close_waits_for_what_was_not_drained)
{
	struct vs_ring *ring;
	struct vs_why why;

	set_up();
	fill_device();
	ck_assert_int_eq(vs_ring_open(context, stream, VS_RING_MOST,
				      &ring, &why), VS_OK);
	ck_assert_int_eq(all_out(ring, &why), VS_OK);
	vs_ring_close(ring);
	wipe_device();
	ck_assert_int_eq(vs_ring_open(context, stream, VS_RING_MOST,
				      &ring, &why), VS_OK);
	ck_assert_int_eq(all_in(ring, &why), VS_OK);
	vs_ring_close(ring);
	assert_device();
	assert_no_ring();
}
END_TEST

START_TEST(a_ring_takes_what_the_limit_leaves_and_has_a_least)
{
	struct vs_ring *ring;
	struct vs_why why;

	set_up();
	vs_config.host_limit = 0;
	ck_assert_int_eq(vs_ring_open(context, stream, VS_RING_MOST,
				      &ring, &why), VS_OK);
	ck_assert_uint_eq(vs_host_pool_taken(), 128 * MIB);
	vs_ring_close(ring);
	vs_config.host_limit = 16 * MIB - 1;
	ck_assert_int_eq(vs_ring_open(context, stream, VS_RING_MOST,
				      &ring, &why),
			 VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "need 16 MiB"));
	assert_no_ring();
}
END_TEST

START_TEST(memory_that_cannot_be_pinned_makes_no_ring)
{
	struct vs_why why;

	set_up();
	sim_fail_from("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(move(true, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "could not be pinned"));
	sim_fail_clear();
	assert_no_ring();
}
END_TEST

START_TEST(one_thread_is_enough_and_none_makes_no_ring)
{
	struct vs_why why;

	set_up();
	fill_device();
	no_thread = 2;
	ck_assert_int_eq(move(true, &why), VS_OK);
	wipe_device();
	no_thread = 2;
	ck_assert_int_eq(move(false, &why), VS_OK);
	assert_device();
	no_thread = 1;
	ck_assert_int_eq(move(true, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "no thread"));
	assert_no_ring();
	no_thread = 0;
	no_list = 1;
	ck_assert_int_eq(move(true, &why), VS_NOHOST);
	assert_no_ring();
}
END_TEST

/* _i: the call that fails. */
START_TEST(a_spill_that_fails_is_told_by_the_drain)
{
	struct vs_why why;

	set_up();
	fill_device();
	spill_fault("pwrite", (unsigned)_i, EIO, true);
	ck_assert_int_eq(move(true, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "write failed"));
	spill_fault(NULL, 0, 0, false);
	ck_assert_int_eq(move(true, &why), VS_OK);
	spill_fault("pread", (unsigned)_i, EIO, true);
	ck_assert_int_eq(move(false, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "read failed"));
	assert_no_ring();
}
END_TEST

struct call {
	char name[48];
	unsigned long calls;
};

static struct call calls[64];
static size_t call_count;

static void note_call(const char *name, unsigned long n, void *arg)
{
	(void)arg;
	if (!n || call_count == COUNT(calls))
		return;
	strncpy(calls[call_count].name, name, sizeof(calls[0].name) - 1);
	calls[call_count++].calls = n;
}

static unsigned long failures;

/* Right bytes, or an error; all is given back, and the next one works. */
static void try_call(const struct call *call, unsigned nth, bool lasting,
		     bool out)
{
	struct vs_why why;
	enum vs_status st;

	fill_device();
	if (!out) {
		ck_assert_int_eq(move(true, &why), VS_OK);
		wipe_device();
	}
	if (lasting)
		sim_fail_from(call->name, nth, CUDA_ERROR_UNKNOWN);
	else
		sim_fail(call->name, nth, CUDA_ERROR_UNKNOWN);
	st = move(out, &why);
	sim_fail_clear();
	failures += st != VS_OK;
	assert_no_ring();
	fixture_current(fixture_context);
	if (!st && out) {
		wipe_device();
		ck_assert_int_eq(move(false, &why), VS_OK);
	}
	if (!st || out)
		assert_device();
}

/* _i: 0 in, 1 out. */
START_TEST(every_driver_call_that_fails_gives_an_error_or_right_bytes)
{
	struct vs_why why;
	unsigned nth;
	size_t i;

	set_up();
	fill_device();
	ck_assert_int_eq(move(true, &why), VS_OK);
	sim_calls_reset();
	ck_assert_int_eq(move(_i, &why), VS_OK);
	sim_each_call(note_call, NULL);
	ck_assert_uint_gt(call_count, 5);
	for (i = 0; i < call_count; i++)
		for (nth = 1; nth <= calls[i].calls; nth = nth * 2 + 1) {
			try_call(&calls[i], nth, false, _i);
			try_call(&calls[i], nth, true, _i);
		}
	ck_assert_uint_gt(failures, 10);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, NULL, spill_tear_down);
	tcase_add_test(tc, what_went_out_comes_back);
	tcase_add_test(tc, a_close_waits_for_what_was_not_drained);
	tcase_add_test(tc, a_ring_takes_what_the_limit_leaves_and_has_a_least);
	tcase_add_test(tc, memory_that_cannot_be_pinned_makes_no_ring);
	tcase_add_test(tc, one_thread_is_enough_and_none_makes_no_ring);
	tcase_add_loop_test(tc, a_spill_that_fails_is_told_by_the_drain, 1, 4);
	tcase_add_loop_test(tc,
		every_driver_call_that_fails_gives_an_error_or_right_bytes,
		0, 2);
}

int main(void)
{
	return fixture_main("ring", fill);
}
