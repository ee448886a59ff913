/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: who joins, who waits, who cancels whom. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/store.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "sleep/gate.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LARGE (17 * MIB)

static const struct vs_request sleep_all = {
	.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
	.timeout_ms = 60000,
};
static const struct vs_request wake_all = {
	.verb = VS_VERB_WAKE, .all_tags = true,
};

static CUdeviceptr base;
static CUstream stream;

static void start(void)
{
	struct vs_why why;

	fixture_start("w", "");
	base = fixture_alloc("w", LARGE);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_assert_int_eq(vs_operation_start(&why), VS_OK);
}

static struct vs_job *submit(const struct vs_request *request)
{
	struct vs_job *job = vs_operation_submit(request, -1, NULL);

	ck_assert_ptr_nonnull(job);
	return job;
}

static const char *phase_of(struct vs_job *job)
{
	struct vs_progress progress;

	vs_operation_progress(job, &progress);
	return progress.phase;
}

static void wait_phase(struct vs_job *job, const char *phase)
{
	while (strcmp(phase_of(job), phase))
		sched_yield();
}

static void wait_state(enum vs_state state)
{
	while (fixture_ledger().state != state)
		sched_yield();
}

static void wait_draining(struct vs_job *job)
{
	wait_phase(job, "draining");
	wait_state(VS_DRAINING);
}

/* Wait for the end and forget it. */
static struct vs_reply end_of(struct vs_job *job)
{
	struct vs_reply reply;

	while (!vs_operation_done(job, &reply))
		sched_yield();
	vs_operation_forget(job);
	return reply;
}

static void assert_end(struct vs_job *job, enum vs_status status)
{
	struct vs_reply reply = end_of(job);

	ck_assert_msg(reply.status == status, "%s instead of %s: %s",
		      vs_why_word(reply.status), vs_why_word(status),
		      reply.why.text);
}

/* A capture keeps a sleep in its drain. */
static void hold_drain(void)
{
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false,
			 vs_real.cuStreamBeginCapture(stream));
}

static void let_drain(void)
{
	CUgraph graph;

	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	vs_capture_ended(stream, false);
}

static void assert_awake(void)
{
	ck_assert_int_eq(fixture_ledger().state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	fixture_assert_sound();
	fixture_assert_filled(base, LARGE);
}

START_TEST(the_same_request_joins_the_one_that_runs)
{
	struct vs_job *first, *second;

	start();
	hold_drain();
	first = submit(&sleep_all);
	wait_draining(first);
	second = submit(&sleep_all);
	ck_assert_ptr_eq(first, second);
	let_drain();
	assert_end(first, VS_OK);
	assert_end(second, VS_OK);
	ck_assert_uint_eq(fixture_ledger().sequence, 1);
}
END_TEST

START_TEST(another_request_waits_its_turn)
{
	struct vs_request other = sleep_all;
	struct vs_job *first, *second, *third;

	start();
	hold_drain();
	first = submit(&sleep_all);
	wait_draining(first);
	other.level = 2;
	other.discard_all = true;
	second = submit(&other);
	ck_assert_ptr_ne(first, second);
	ck_assert_str_eq(phase_of(second), "waiting");
	third = submit(&sleep_all);
	ck_assert_ptr_ne(first, third);
	let_drain();
	assert_end(first, VS_OK);
	assert_end(second, VS_OK);
	assert_end(third, VS_REFUSED);
	ck_assert_uint_eq(fixture_ledger().sequence, 2);
	ck_assert_uint_eq(vs_store_bytes(), 0);
}
END_TEST

START_TEST(who_joins_with_a_longer_breath_is_waited_for)
{
	struct vs_request busy = sleep_all, hasty = sleep_all;
	struct vs_job *first, *second, *third;
	unsigned long polls;

	start();
	hold_drain();
	busy.timeout_ms = 1500;
	busy.force = true;
	hasty.timeout_ms = 1;
	first = submit(&busy);
	wait_draining(first);
	second = submit(&hasty);
	third = submit(&sleep_all);
	ck_assert_ptr_eq(second, third);
	assert_end(first, VS_BUSY);
	/* Asked about again and again, far beyond the shorter one. */
	polls = sim_calls("cuStreamIsCapturing");
	while (sim_calls("cuStreamIsCapturing") < polls + 50)
		sched_yield();
	let_drain();
	assert_end(second, VS_OK);
	assert_end(third, VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
}
END_TEST

START_TEST(a_wake_cancels_a_sleep_that_still_drains)
{
	struct vs_job *sleeps, *wakes;

	start();
	hold_drain();
	sleeps = submit(&sleep_all);
	wait_draining(sleeps);
	wakes = submit(&wake_all);
	assert_end(sleeps, VS_CANCELLED);
	assert_end(wakes, VS_OK);
	let_drain();
	assert_awake();
	ck_assert_uint_eq(fixture_ledger().sequence, 0);
}
END_TEST

START_TEST(a_sleep_asked_for_after_the_wake_is_not_cancelled)
{
	struct vs_job *first, *wakes, *again;

	start();
	hold_drain();
	first = submit(&sleep_all);
	wait_draining(first);
	wakes = submit(&wake_all);
	again = submit(&sleep_all);
	ck_assert_ptr_ne(first, again);
	assert_end(first, VS_CANCELLED);
	assert_end(wakes, VS_OK);
	wait_draining(again);
	let_drain();
	assert_end(again, VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
}
END_TEST

/* With the streams held the copies wait.  _i: 1 the sleep then fails. */
START_TEST(a_wake_during_the_copy_waits_for_the_sleep)
{
	struct vs_job *sleeps, *wakes;

	start();
	if (_i)
		sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	sim_hold(1);
	sleeps = submit(&sleep_all);
	wait_phase(sleeps, "copying out");
	wait_state(VS_SLEEPING);
	wakes = submit(&wake_all);
	ck_assert_str_eq(phase_of(wakes), "waiting");
	sim_hold(0);
	assert_end(sleeps, _i ? VS_CUDA : VS_OK);
	assert_end(wakes, VS_OK);
	assert_awake();
	ck_assert_uint_eq(fixture_ledger().sequence, _i ? 0 : 2);
}
END_TEST

START_TEST(a_wake_that_waits_for_memory_lets_others_pass)
{
	struct vs_request patient = wake_all, one = wake_all;
	struct vs_job *waits;
	CUdeviceptr small;

	start();
	small = fixture_alloc("small", 3000);
	assert_end(submit(&sleep_all), VS_OK);
	sim_limit(0, MIB);
	patient.wait_ms = 60000;
	waits = submit(&patient);
	wait_phase(waits, "waiting for memory");
	one.all_tags = false;
	one.tags = fixture_tags("small");
	assert_end(submit(&one), VS_OK);
	fixture_assert_filled(small, 3000);
	ck_assert_int_eq(fixture_ledger().state, VS_PARTLY);
	assert_end(submit(&sleep_all), VS_OK);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	sim_limit(0, 256 * MIB);
	assert_end(waits, VS_OK);
	assert_awake();
	fixture_assert_filled(small, 3000);
}
END_TEST

START_TEST(a_wake_gives_up_waiting_with_both_figures)
{
	struct vs_request patient = wake_all;
	struct vs_reply reply;

	start();
	assert_end(submit(&sleep_all), VS_OK);
	sim_limit(0, MIB);
	patient.wait_ms = 100;
	reply = end_of(submit(&patient));
	ck_assert_int_eq(reply.status, VS_NOMEM);
	ck_assert_ptr_nonnull(strstr(reply.why.text,
				     "need 17 MiB, have 1 MiB"));
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
	sim_limit(0, 256 * MIB);
	assert_end(submit(&wake_all), VS_OK);
	assert_awake();
}
END_TEST

START_TEST(a_forgotten_request_is_carried_out)
{
	struct vs_job *job;

	start();
	hold_drain();
	job = submit(&sleep_all);
	wait_draining(job);
	vs_operation_forget(job);
	let_drain();
	wait_state(VS_ASLEEP);
	vs_operation_forget(submit(&wake_all));
	wait_state(VS_AWAKE);
	assert_end(submit(&wake_all), VS_OK);
	assert_awake();
	ck_assert_uint_eq(fixture_ledger().sequence, 2);
}
END_TEST

START_TEST(the_end_of_a_request_is_notified)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct vs_reply reply;
	struct vs_job *job;
	uint64_t count;

	start();
	hold_drain();
	job = vs_operation_submit(&sleep_all, fd, NULL);
	wait_draining(job);
	ck_assert(!vs_operation_done(job, &reply));
	ck_assert_int_eq(poll(&ready, 1, 0), 0);
	let_drain();
	ck_assert_int_eq(poll(&ready, 1, 30000), 1);
	ck_assert_int_eq(read(fd, &count, sizeof(count)), sizeof(count));
	ck_assert_uint_eq(count, 1);
	ck_assert(vs_operation_done(job, &reply));
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
	vs_operation_forget(job);
	close(fd);
}
END_TEST

START_TEST(who_waits_too_short_is_told_and_the_request_goes_on)
{
	struct vs_reply reply;

	start();
	hold_drain();
	vs_operation_run(&sleep_all, 0.05, &reply);
	ck_assert_int_eq(reply.status, VS_BUSY);
	wait_state(VS_DRAINING);
	let_drain();
	wait_state(VS_ASLEEP);
	vs_operation_run(&wake_all, 60, &reply);
	ck_assert_int_eq(reply.status, VS_OK);
	assert_awake();
}
END_TEST

START_TEST(progress_is_in_bytes_of_the_phase)
{
	struct vs_progress progress;
	struct vs_job *job;

	start();
	job = submit(&sleep_all);
	assert_end(submit(&sleep_all), VS_OK);
	vs_operation_progress(job, &progress);
	ck_assert_str_eq(progress.phase, "releasing");
	ck_assert_uint_eq(progress.total_bytes, LARGE);
	vs_operation_forget(job);
	job = submit(&wake_all);
	assert_end(submit(&wake_all), VS_OK);
	vs_operation_progress(job, &progress);
	ck_assert_str_eq(progress.phase, "copying in");
	ck_assert_uint_eq(progress.total_bytes, LARGE);
	ck_assert_uint_eq(progress.done_bytes, LARGE);
	vs_operation_forget(job);
}
END_TEST

START_TEST(the_state_can_be_asked_for_at_any_time)
{
	struct vs_reply reply;
	struct vs_job *job;

	start();
	hold_drain();
	job = submit(&sleep_all);
	wait_draining(job);
	vs_operation_status(&reply);
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_DRAINING);
	ck_assert_uint_eq(reply.ledger.live_bytes, LARGE);
	let_drain();
	assert_end(job, VS_OK);
	vs_operation_status(&reply);
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
}
END_TEST

static void *free_meanwhile(void *address)
{
	fixture_current(fixture_context);
	ck_ok(vs_allocator_free(*(CUdeviceptr *)address));
	return NULL;
}

/* _i: 0 small, 1 large, which waits; freed while it is being copied out. */
START_TEST(what_is_freed_during_a_sleep_is_gone_after_it)
{
	CUdeviceptr target, other;
	pthread_t thread;
	struct vs_job *job;

	start();
	target = fixture_alloc("target", _i ? LARGE : 3 * MIB);
	other = fixture_alloc("other", 3000);
	sim_hold(1);
	job = submit(&sleep_all);
	wait_phase(job, "copying out");
	pthread_create(&thread, NULL, free_meanwhile, &target);
	while (fixture_segment(target))
		sched_yield();
	sim_hold(0);
	assert_end(job, VS_OK);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	assert_end(submit(&sleep_all), VS_OK);
	ck_assert_uint_eq(fixture_ledger().tags[vs_tag_find("target")]
			  .evicted_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().live_bytes, LARGE + 3000);
	assert_end(submit(&wake_all), VS_OK);
	assert_awake();
	fixture_assert_filled(other, 3000);
	fixture_free(other);
	fixture_free(base);
	assert_end(submit(&wake_all), VS_OK);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_same_request_joins_the_one_that_runs);
	tcase_add_test(tc, another_request_waits_its_turn);
	tcase_add_test(tc, who_joins_with_a_longer_breath_is_waited_for);
	tcase_add_test(tc, a_wake_cancels_a_sleep_that_still_drains);
	tcase_add_test(tc, a_sleep_asked_for_after_the_wake_is_not_cancelled);
	tcase_add_loop_test(tc, a_wake_during_the_copy_waits_for_the_sleep, 0,
			    2);
	tcase_add_test(tc, a_wake_that_waits_for_memory_lets_others_pass);
	tcase_add_test(tc, a_wake_gives_up_waiting_with_both_figures);
	tcase_add_test(tc, a_forgotten_request_is_carried_out);
	tcase_add_test(tc, the_end_of_a_request_is_notified);
	tcase_add_test(tc, who_waits_too_short_is_told_and_the_request_goes_on);
	tcase_add_test(tc, progress_is_in_bytes_of_the_phase);
	tcase_add_test(tc, the_state_can_be_asked_for_at_any_time);
	tcase_add_loop_test(tc,
		what_is_freed_during_a_sleep_is_gone_after_it, 0, 2);
}

int main(void)
{
	return fixture_main("operation", fill);
}
