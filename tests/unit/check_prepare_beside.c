/* SPDX-License-Identifier: Apache-2.0 */
/* What else happens while backups are made: other requests, a device that does
 * not get to it, captures, frees, writes, ends of contexts. */
#include <config.h>

#include "prepare_fixture.h"

#include "backup/host_pool.h"
#include "base/context.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "memory/detach.h"
#include "memory/staging.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct vs_job *submit(enum vs_verb verb, unsigned timeout_ms)
{
	struct vs_request request = {
		.verb = verb, .level = 1, .all_tags = true,
		.timeout_ms = timeout_ms,
	};
	struct vs_job *job = vs_operation_submit(&request, -1, NULL);

	ck_assert_ptr_nonnull(job);
	return job;
}

static struct vs_reply end_of(struct vs_job *job)
{
	struct vs_reply reply;

	while (!vs_operation_done(job, &reply))
		sched_yield();
	vs_operation_forget(job);
	return reply;
}


/* A pass whose slice the device does not get to. */
static struct vs_job *stuck_pass(void)
{
	struct vs_job *job;

	sim_hold(1);
	job = submit(VS_VERB_PREPARE, 10000);
	while (!vs_staging_bytes(0))
		sched_yield();
	return job;
}

static const enum vs_verb others[] = {
	VS_VERB_SLEEP, VS_VERB_PAUSE, VS_VERB_WAKE, VS_VERB_TRIM,
};

/* _i: which.  The device is held, so the first two are busy. */
START_TEST(another_request_does_not_wait_for_the_device)
{
	struct vs_job *pass, *other;
	struct vs_reply reply;
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	prepare_all();
	pass = stuck_pass();
	other = submit(others[_i], 200);
	reply = end_of(pass);
	ck_assert_int_eq(reply.status, VS_CANCELLED);
	ck_assert_str_eq(reply.ledger.prepare, "off");
	reply = end_of(other);
	ck_assert_int_eq(reply.status, _i < 2 ? VS_BUSY : VS_OK);
	sim_hold(0);
	prepare_assert_backups();
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	prepare_sleep();
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
	prepare_wake();
	fixture_assert_filled(base, SIZE);
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_cancel_ends_it)
{
	struct vs_job *pass;
	struct vs_reply reply;
	CUdeviceptr base;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	prepare_all();
	pass = stuck_pass();
	ck_assert_int_eq(vs_operation_cancel(), 1);
	reply = end_of(pass);
	ck_assert_int_eq(reply.status, VS_CANCELLED);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "a cancel"));
	sim_hold(0);
	while (vs_staging_bytes(0))
		sched_yield();
	prepare_assert_backups();
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static void begin_capture(CUstream stream)
{
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false,
			 vs_real.cuStreamBeginCapture_v2(stream,
				CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static void end_capture(CUstream stream)
{
	CUgraph graph;

	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	vs_capture_ended(stream, false);
	ck_ok(vs_real.cuGraphDestroy(graph));
}

/* Neither is the kernel loaded then, nor memory registered. */
START_TEST(a_capture_stays_whole)
{
	struct vs_job *pass;
	struct vs_reply reply;
	CUdeviceptr base;
	CUstream stream;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (_i)
		prepare_all();
	memset((void *)(uintptr_t)base, 1, 3 * MIB);
	sim_calls_reset();
	begin_capture(stream);
	pass = submit(VS_VERB_PREPARE, 60000);
	while (sim_calls("cuStreamIsCapturing") < 4 &&
	       sim_calls("cuMemcpyDtoHAsync_v2") < 1)
		sched_yield();
	ck_assert_uint_eq(sim_calls("cuModuleLoadData"), 0);
	ck_assert_uint_eq(sim_calls("cuMemHostAlloc"), 0);
	ck_assert_uint_eq(sim_calls("cuMemHostRegister_v2"), 0);
	end_capture(stream);
	reply = end_of(pass);
	ck_assert_msg(!reply.status, "%s", reply.why.text);
	ck_assert_uint_eq(reply.prepared.copied_bytes,
			  _i ? 4 * MIB : SIZE);
	prepare_assert_backups();
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_capture_without_end_ends_it)
{
	struct vs_reply reply;
	CUdeviceptr base;
	CUstream stream;

	prepare_start();
	base = fixture_alloc("w", SIZE);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin_capture(stream);
	reply = fixture_ask(&(struct vs_request){
		.verb = VS_VERB_PREPARE, .all_tags = true, .timeout_ms = 50 });
	ck_assert_int_eq(reply.status, VS_BUSY);
	ck_assert_ptr_nonnull(strstr(reply.why.text, "capturing"));
	end_capture(stream);
	prepare_end();
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* Between two slices, and with one that is under way. */
START_TEST(what_is_freed_is_gone)
{
	struct vs_prepared got;
	struct vs_job *pass;
	CUdeviceptr a, b;

	prepare_start();
	a = fixture_alloc("w", SIZE);
	b = fixture_alloc("w", SIZE);
	prepare_all();
	fixture_free(a);
	fixture_later();
	ck_assert_uint_eq(fixture_ledger().retained_bytes, SIZE);
	pass = submit(VS_VERB_PREPARE, 10000);
	fixture_free(b);
	fixture_later();
	ck_assert_int_eq(end_of(pass).status, VS_OK);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	got = prepare_all();
	ck_assert_uint_eq(got.copied_bytes + got.unchanged_bytes, 0);
	prepare_end();
	fixture_assert_empty();
}
END_TEST

START_TEST(a_context_that_goes_takes_its_part_with_it)
{
	struct vs_detached *detached;
	struct vs_job *pass;
	CUcontext other;
	CUdeviceptr base;
	int round;

	prepare_start();
	for (round = 0; round < 3; round++) {
		other = fixture_new_context(1);
		base = fixture_alloc("w", SIZE);
		pass = submit(VS_VERB_PREPARE, 10000);
		if (round)
			ck_assert_int_eq(end_of(pass).status, VS_OK);
		detached = vs_detach_take(other, 1);
		ck_ok(vs_real.cuCtxDestroy_v2(other));
		vs_detach_drop(detached);
		if (!round)
			end_of(pass);
		ck_assert_uint_eq(vs_host_pool_taken(), 0);
		ck_assert_ptr_null(fixture_segment(base));
		fixture_current(fixture_context);
		base = fixture_alloc("w", SIZE);
		ck_assert_uint_eq(prepare_all().copied_bytes, SIZE);
		fixture_free(base);
		fixture_later();
	}
	prepare_end();
	fixture_assert_empty();
}
END_TEST

/* Threads that write pages all the time; each knows what is in its own. */
#define WRITERS 2
#define ROUNDS 6

static atomic_bool over;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

struct writer {
	pthread_t thread;
	CUdeviceptr base;
	unsigned char now[SIZE / MIB];
};

/* The copies of the simulation beside them are what is tested. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:run_copy\n";
}

static void *write_pages(void *arg)
{
	static const struct timespec rest = { .tv_nsec = 500000 };
	struct writer *w = arg;
	unsigned seed = (unsigned)w->base, page;

	while (!atomic_load(&over)) {
		page = (unsigned)rand_r(&seed) % (SIZE / MIB);
		pthread_mutex_lock(&writing);
		w->now[page]++;
		ck_ok(vs_real.cuMemsetD8_v2(w->base + page * MIB, w->now[page],
					    MIB));
		ck_ok(vs_real.cuStreamSynchronize(NULL));
		pthread_mutex_unlock(&writing);
		nanosleep(&rest, NULL);
	}
	return NULL;
}

static void *begin_writer(void *arg)
{
	fixture_current(fixture_context);
	return write_pages(arg);
}

static void assert_written(const struct writer *w)
{
	static unsigned char bytes[MIB];
	size_t i;

	for (i = 0; i < SIZE / MIB; i++) {
		ck_ok(vs_real.cuMemcpyDtoH_v2(bytes, w->base + i * MIB, MIB));
		ck_assert_uint_eq(bytes[0], w->now[i]);
		ck_assert_mem_eq(bytes, bytes + 1, MIB - 1);
	}
}

START_TEST(writes_beside_it_are_not_lost)
{
	struct writer writers[WRITERS];
	int i, round;

	prepare_start();
	memset(writers, 0, sizeof(writers));
	for (i = 0; i < WRITERS; i++) {
		writers[i].base = fixture_alloc("w", SIZE);
		ck_ok(vs_real.cuMemsetD8_v2(writers[i].base, 0, SIZE));
		pthread_create(&writers[i].thread, NULL, begin_writer,
			       &writers[i]);
	}
	for (round = 0; round < ROUNDS; round++) {
		prepare_ask(NULL);
		if (round % 3 == 1)
			continue;
		pthread_mutex_lock(&writing);
		prepare_sleep();
		prepare_wake();
		for (i = 0; i < WRITERS; i++)
			assert_written(&writers[i]);
		pthread_mutex_unlock(&writing);
	}
	atomic_store(&over, true);
	for (i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		assert_written(&writers[i]);
	}
	prepare_assert_backups();
	prepare_end();
	for (i = 0; i < WRITERS; i++)
		ck_ok(vs_allocator_free(writers[i].base));
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, another_request_does_not_wait_for_the_device,
			    0, COUNT(others));
	tcase_add_test(tc, a_cancel_ends_it);
	tcase_add_loop_test(tc, a_capture_stays_whole, 0, 2);
	tcase_add_test(tc, a_capture_without_end_ends_it);
	tcase_add_test(tc, what_is_freed_is_gone);
	tcase_add_test(tc, a_context_that_goes_takes_its_part_with_it);
	tcase_add_test(tc, writes_beside_it_are_not_lost);
}

int main(void)
{
	return fixture_main("prepare_beside", fill);
}
