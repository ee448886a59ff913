/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a context goes with it, awake or asleep, and nothing else. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "base/context.h"
#include "memory/unmanaged.h"
#include "sleep/gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define SMALL (3 * MIB)
#define LARGE (17 * MIB)
#define BOTH (SMALL + LARGE)

/* A context with a small and a large allocation. */
struct home {
	CUcontext context;
	CUdeviceptr small, large;
};

static struct home homes[2];
static struct vs_reply reply;

static void furnish(struct home *home)
{
	fixture_current(home->context);
	home->small = fixture_alloc("w", SMALL);
	home->large = fixture_alloc("w", LARGE);
}

static void assert_furnished(const struct home *home)
{
	struct vs_segment *s = fixture_segment(home->small);

	ck_assert_ptr_nonnull(s);
	ck_assert_ptr_eq(s->context, home->context);
	ck_assert_ptr_nonnull(fixture_segment(home->large));
	fixture_assert_filled(home->small, SMALL);
	fixture_assert_filled(home->large, LARGE);
}

static void assert_gone(const struct home *home)
{
	ck_assert_ptr_null(fixture_segment(home->small));
	ck_assert_ptr_null(fixture_segment(home->large));
}

/* Two created contexts of one device, none of them the primary one. */
static void start(void)
{
	int i;

	fixture_start("w", "");
	for (i = 0; i < 2; i++) {
		ck_ok(cuCtxCreate_v4(&homes[i].context, NULL, 0, 0));
		furnish(&homes[i]);
	}
}

static void sleep_ok(void)
{
	reply = fixture_sleep(1, NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
	ck_assert_uint_eq(sim_used(0), 0);
}

static void wake_ok(void)
{
	reply = fixture_wake(NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(reply.ledger.resident_bytes, sim_used(0));
	fixture_assert_sound();
}

static void move_out(struct home *home)
{
	fixture_current(home->context);
	ck_ok(cuMemFree_v2(home->small));
	ck_ok(cuMemFree_v2(home->large));
}

/* _i: which of them; the other one stays. */
START_TEST(a_destroyed_context_takes_its_memory_and_no_other)
{
	struct home *gone = &homes[_i], *stays = &homes[!_i];

	start();
	ck_ok(cuCtxDestroy_v2(gone->context));
	assert_gone(gone);
	assert_furnished(stays);
	ck_assert_uint_eq(sim_used(0), BOTH);
	ck_assert_uint_eq(fixture_ledger().live_bytes, BOTH);
	sleep_ok();
	wake_ok();
	assert_furnished(stays);
	move_out(stays);
	fixture_assert_empty();
}
END_TEST

/* _i: which of them.  One of the two has pinned the backups of both. */
START_TEST(a_context_destroyed_while_asleep_takes_its_backups_and_no_other)
{
	struct home *gone = &homes[_i], *stays = &homes[!_i];

	start();
	sleep_ok();
	ck_assert_uint_eq(vs_store_bytes(), 2 * BOTH);
	ck_ok(cuCtxDestroy_v2(gone->context));
	assert_gone(gone);
	ck_assert_uint_eq(vs_store_bytes(), BOTH);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, BOTH);
	ck_assert_uint_eq(fixture_ledger().host_bytes, BOTH);
	ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
	fixture_assert_sound();
	wake_ok();
	ck_assert_uint_eq(sim_used(0), BOTH);
	assert_furnished(stays);
	sleep_ok();
	wake_ok();
	assert_furnished(stays);
	move_out(stays);
	fixture_assert_empty();
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
}
END_TEST

START_TEST(all_contexts_may_go_while_asleep)
{
	start();
	sleep_ok();
	ck_ok(cuCtxDestroy_v2(homes[0].context));
	ck_ok(cuCtxDestroy_v2(homes[1].context));
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	wake_ok();
	fixture_current(fixture_context);
	fixture_assert_empty();
}
END_TEST

/* The value of the handle comes back with the next context. */
START_TEST(a_new_context_in_place_of_the_old_begins_with_nothing)
{
	struct home old, *home = &homes[1];

	start();
	old = *home;
	ck_ok(cuCtxDestroy_v2(home->context));
	ck_ok(cuCtxCreate_v4(&home->context, NULL, 0, 0));
	ck_assert_ptr_eq(home->context, old.context);
	ck_assert_uint_eq(fixture_ledger().live_bytes, BOTH);
	furnish(home);
	sleep_ok();
	wake_ok();
	assert_furnished(&homes[0]);
	assert_furnished(home);
	sleep_ok();
	ck_ok(cuCtxDestroy_v2(home->context));
	ck_ok(cuCtxCreate_v4(&home->context, NULL, 0, 0));
	wake_ok();
	assert_gone(home);
	furnish(home);
	assert_furnished(home);
	assert_furnished(&homes[0]);
	fixture_assert_sound();
}
END_TEST

/* _i: 1 while asleep. */
START_TEST(a_destruction_that_fails_changes_nothing)
{
	struct vs_ledger before, after;

	start();
	if (_i)
		sleep_ok();
	before = fixture_ledger();
	sim_fail("cuCtxDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(cuCtxDestroy_v2(homes[0].context), CUDA_ERROR_UNKNOWN);
	after = fixture_ledger();
	ck_assert_mem_eq(&after, &before, sizeof(after));
	if (!_i)
		sleep_ok();
	wake_ok();
	assert_furnished(&homes[0]);
	assert_furnished(&homes[1]);
	move_out(&homes[0]);
	move_out(&homes[1]);
	fixture_assert_empty();
}
END_TEST

/* Another thread has used it while its destruction failed: both records may
 * be pinned, and have host memory and a stream. */
START_TEST(a_context_noted_again_meanwhile_has_two_records)
{
	CUcontext context;
	struct vs_context *old, *fresh;

	start();
	context = homes[0].context;
	sleep_ok();
	wake_ok();
	old = vs_context_detach(context);
	ck_assert(vs_context_note(context));
	fresh = vs_context_pin(context);
	ck_assert_ptr_ne(fresh, old);
	vs_context_attach(old);
	ck_assert_ptr_eq(vs_context_pin_serial(old->serial), old);
	ck_assert_ptr_eq(vs_context_pin_serial(fresh->serial), fresh);
	vs_context_unpin(old);
	vs_context_unpin(fresh);
	vs_context_unpin(fresh);
	sleep_ok();
	wake_ok();
	assert_furnished(&homes[0]);
	assert_furnished(&homes[1]);
	ck_ok(cuCtxDestroy_v2(context));
	ck_assert_ptr_null(vs_context_pin(context));
	sleep_ok();
	wake_ok();
	assert_furnished(&homes[1]);
	move_out(&homes[1]);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_is_no_context_destroys_nothing)
{
	unsigned long before;
	CUresult rc;

	start();
	rc = vs_real.cuCtxDestroy_v2(NULL);
	ck_cu(cuCtxDestroy_v2(NULL), rc);
	before = fixture_sim().invalid;
	ck_cu(cuCtxDestroy_v2((CUcontext)&reply),
	      vs_real.cuCtxDestroy_v2((CUcontext)&reply));
	ck_assert_uint_eq(fixture_sim().invalid, before + 2);
	assert_furnished(&homes[0]);
	assert_furnished(&homes[1]);
}
END_TEST

static atomic_bool destroyed;

static void *destroy(void *context)
{
	ck_ok(cuCtxDestroy_v2(context));
	atomic_store(&destroyed, true);
	return NULL;
}

/* The streams are held, so that the sleep stays in its copies. */
START_TEST(a_destruction_waits_for_a_running_operation)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 60000,
	};
	struct vs_progress progress;
	struct vs_job *job;
	pthread_t thread;
	int i;

	start();
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	sim_hold(1);
	job = vs_operation_submit(&request, -1, NULL);
	do
		vs_operation_progress(job, &progress);
	while (strcmp(progress.phase, "copying out"));
	pthread_create(&thread, NULL, destroy, homes[1].context);
	for (i = 0; i < 1000; i++)
		sched_yield();
	ck_assert(!atomic_load(&destroyed));
	sim_hold(0);
	while (!vs_operation_done(job, &reply))
		sched_yield();
	vs_operation_forget(job);
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(vs_store_bytes(), BOTH);
	wake_ok();
	assert_gone(&homes[1]);
	assert_furnished(&homes[0]);
	fixture_assert_sound();
}
END_TEST

/* The primary context, retained so many times by the program. */
static void start_primary(int retains)
{
	struct home *home = &homes[0];

	fixture_start("w", "");
	ck_ok(vs_real.cuDevicePrimaryCtxRelease_v2(0));
	fixture_current(NULL);
	while (retains--)
		ck_ok(cuDevicePrimaryCtxRetain(&home->context, 0));
	furnish(home);
}

static void restart_primary(void)
{
	struct home *home = &homes[0];

	ck_ok(cuDevicePrimaryCtxRetain(&home->context, 0));
	furnish(home);
	sleep_ok();
	wake_ok();
	assert_furnished(home);
	move_out(home);
	fixture_assert_empty();
}

static int reset(void *unused)
{
	(void)unused;
	return (int)cuDevicePrimaryCtxReset_v2(0);
}

/* _i: 1 while asleep, 2 by another thread. */
START_TEST(a_reset_device_begins_with_nothing)
{
	start_primary(1);
	if (_i & 1)
		sleep_ok();
	if (_i & 2)
		ck_ok(fixture_on_thread(reset, NULL));
	else
		ck_ok(reset(NULL));
	assert_gone(&homes[0]);
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	wake_ok();
	fixture_current(NULL);
	restart_primary();
}
END_TEST

/* _i: 1 while asleep. */
START_TEST(a_reset_that_fails_changes_nothing)
{
	start_primary(1);
	if (_i)
		sleep_ok();
	sim_fail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(reset(NULL), CUDA_ERROR_UNKNOWN);
	if (!_i)
		sleep_ok();
	wake_ok();
	assert_furnished(&homes[0]);
	move_out(&homes[0]);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 while asleep. */
START_TEST(the_last_release_takes_the_memory)
{
	start_primary(2);
	if (_i)
		sleep_ok();
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	ck_assert_uint_eq(fixture_ledger().live_bytes, BOTH);
	if (!_i)
		assert_furnished(&homes[0]);
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	assert_gone(&homes[0]);
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	wake_ok();
	fixture_current(NULL);
	restart_primary();
}
END_TEST

/* _i: 1 while asleep.  Whoever holds it came by a way that we do not see. */
START_TEST(a_release_that_is_not_the_last_after_all_changes_nothing)
{
	CUcontext same;

	start_primary(1);
	ck_ok(vs_real.cuDevicePrimaryCtxRetain(&same, 0));
	if (_i)
		sleep_ok();
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	ck_assert_uint_eq(fixture_ledger().live_bytes, BOTH);
	if (!_i)
		sleep_ok();
	wake_ok();
	assert_furnished(&homes[0]);
	ck_ok(cuDevicePrimaryCtxRelease_v2(0));
	assert_gone(&homes[0]);
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

/* Plain memory of the driver's own, then ours. */
START_TEST(a_free_after_the_reset_gives_the_drivers_error)
{
	CUdeviceptr native;
	CUresult rc;

	start_primary(1);
	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	ck_ok(reset(NULL));
	rc = vs_real.cuMemFree_v2(native);
	ck_assert_int_ne(rc, CUDA_SUCCESS);
	ck_cu(cuMemFree_v2(homes[0].large), rc);
	ck_cu(cuMemFree_v2(homes[0].small), rc);
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

START_TEST(native_memory_is_no_longer_counted_once_its_context_is_gone)
{
	CUdeviceptr base;

	fixture_start("", "");
	ck_ok(cuMemAlloc_v2(&base, 5000));
	ck_ok(cuCtxCreate_v4(&homes[0].context, NULL, 0, 0));
	ck_ok(cuMemAlloc_v2(&base, 7000));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), 12000);
	ck_ok(cuCtxDestroy_v2(homes[0].context));
	ck_assert_uint_eq(vs_unmanaged_bytes(VS_UNMANAGED_NATIVE), 5000);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		a_destroyed_context_takes_its_memory_and_no_other, 0, 2);
	tcase_add_loop_test(tc,
	a_context_destroyed_while_asleep_takes_its_backups_and_no_other, 0,
		2);
	tcase_add_test(tc, all_contexts_may_go_while_asleep);
	tcase_add_test(tc,
		a_new_context_in_place_of_the_old_begins_with_nothing);
	tcase_add_loop_test(tc, a_destruction_that_fails_changes_nothing, 0, 2);
	tcase_add_test(tc, a_context_noted_again_meanwhile_has_two_records);
	tcase_add_test(tc, what_is_no_context_destroys_nothing);
	tcase_add_test(tc, a_destruction_waits_for_a_running_operation);
	tcase_add_loop_test(tc, a_reset_device_begins_with_nothing, 0, 4);
	tcase_add_loop_test(tc, a_reset_that_fails_changes_nothing, 0, 2);
	tcase_add_loop_test(tc, the_last_release_takes_the_memory, 0, 2);
	tcase_add_loop_test(tc,
		a_release_that_is_not_the_last_after_all_changes_nothing, 0, 2);
	tcase_add_test(tc, a_free_after_the_reset_gives_the_drivers_error);
	tcase_add_test(tc,
		native_memory_is_no_longer_counted_once_its_context_is_gone);
}

int main(void)
{
	return fixture_main("contexts", fill);
}
