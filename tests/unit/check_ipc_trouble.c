/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of borrowed memory that do not answer, lie, or free it. */
#include <config.h>

#include "ipc_fixture.h"

#include "memory/detach.h"

#include <string.h>

/* At one address, but each for itself. */
START_TEST(two_contexts_have_one_mapping)
{
	struct vs_detached *gone;
	CUcontext second;
	CUdeviceptr at;

	ipc_start();
	second = fixture_new_context(0);
	fixture_current(fixture_context);
	at = ipc_opened(&ipc_handle);
	fixture_current(second);
	ck_assert_uint_eq(ipc_opened(&ipc_handle), at);
	fixture_current(fixture_context);
	gone = vs_detach_take(fixture_context, 0);
	ck_assert_ptr_nonnull(gone);
	vs_ipc_drop_context(fixture_context);
	vs_detach_restore(gone);
	ipc_same(at, ipc_base, LARGE);
	fixture_current(second);
	ipc_closed(at);
	ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	ck_assert_uint_eq(ipc_lent(), 0);
	fixture_assert_sound();
}
END_TEST

/* One that is stopped is not waited for, message by message. */
START_TEST(an_owner_that_does_not_answer_is_asked_once)
{
	CUdeviceptr at;

	ipc_start();
	at = ipc_opened(&ipc_handle);
	ipc_mute = true;
	ipc_asked = 0;
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	ck_assert(vs_ipc_sleeps(ALL));
	ck_assert_int_eq(ipc_asked, 1);
	ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_NOT_READY);
	ck_assert_int_eq(ipc_asked, 1);
	ipc_mute = false;
	ck_assert_uint_eq(ipc_lent(), 0);
}
END_TEST

/* An answer about another place than the handle is of is not believed. */
START_TEST(an_answer_that_makes_no_sense_maps_nothing)
{
	CUdeviceptr at;

	ipc_start();
	for (ipc_nonsense = 1; ipc_nonsense <= 4; ipc_nonsense++) {
		ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_MAP_FAILED);
		ck_assert_uint_eq(ipc_lent(), 0);
		ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	}
	ipc_nonsense = 0;
	at = ipc_opened(&ipc_handle);
	ipc_same(at, ipc_base, LARGE);
	ipc_closed(at);
	fixture_assert_sound();
}
END_TEST

/* It may be had where it was opened, and is no reason not to wake. */
START_TEST(what_its_owner_has_freed_is_kept_while_it_is_there)
{
	CUdeviceptr at, bt, other;
	CUipcMemHandle second;
	struct vs_why why;
	char bytes[4096];

	ipc_start();
	other = ipc_made(LARGE, &second);
	at = ipc_opened(&ipc_handle);
	bt = ipc_opened(&second);
	memcpy(bytes, (void *)(uintptr_t)ipc_base, sizeof(bytes));
	fixture_free(ipc_base);
	ck_assert_uint_ge(ipc_unmap_all(), LARGE);
	ck_assert(!memcmp((void *)(uintptr_t)at, bytes, sizeof(bytes)));
	ck_assert(vs_ipc_sleeps(ALL));
	fixture_free(other);
	ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	ck_assert(!vs_ipc_sleeps(ALL));
	ipc_closed(at);
	ipc_closed(bt);
	ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	fixture_assert_sound();
}
END_TEST

/* Bytes that are zero for the want of their owner. */
static uint64_t lost(void)
{
	struct vs_ipc_relation owners[4];
	uint64_t sum = 0;
	int count = vs_ipc_owners(owners, 4);

	while (count)
		sum += owners[--count].lost;
	return sum;
}

START_TEST(what_an_owner_had_that_has_ended_is_zero)
{
	struct sim_ledger before;
	struct vs_why why;
	CUdeviceptr at;

	ipc_start();
	before = fixture_sim();
	at = ipc_opened(&ipc_handle);
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	ipc_lives = 0;
	ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	ck_assert(!vs_ipc_sleeps(ALL));
	ck_assert_uint_ge(lost(), LARGE);
	fixture_assert_zero(at, LARGE);
	/* Now it is here alone. */
	fixture_fill(at, LARGE);
	ck_assert_uint_ge(ipc_unmap_all(), LARGE);
	fixture_assert_filled(at, LARGE);
	ipc_closed(at);
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(fixture_sim().mappings, before.mappings);
	ck_assert_uint_eq(fixture_sim().handles, before.handles);
	ck_assert_uint_eq(fixture_sim().reservations, before.reservations);
	fixture_assert_sound();
}
END_TEST

START_TEST(what_came_before_its_owner_ended_stays)
{
	const size_t size = 2 * MIB * (VS_IPC_PARTS + 5);
	const size_t came = 2 * MIB * VS_IPC_PARTS;
	CUdeviceptr base, at;
	CUipcMemHandle long_one;
	struct vs_why why;

	ipc_start();
	base = ipc_made(size, &long_one);
	at = ipc_opened(&long_one);
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	ipc_lives = 1;
	ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	ck_assert_uint_eq(lost(), size - came);
	ipc_same(at, base, came);
	fixture_assert_zero(at + came, size - came);
	ipc_closed(at);
	fixture_assert_sound();
}
END_TEST

/* A program that is not held has opened it a second time meanwhile. */
START_TEST(what_another_mapping_has_is_not_lost)
{
	CUdeviceptr small, other, at, bt;
	CUipcMemHandle first, second;
	struct vs_why why;

	ipc_start();
	small = ipc_made(5000, &first);
	other = ipc_made(6000, &second);
	at = ipc_opened(&first);
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	bt = ipc_opened(&second);
	ipc_lives = 0;
	ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	ck_assert_uint_eq(lost(), 0);
	ipc_same(at, small, 5000);
	ipc_same(bt, other, 6000);
	ipc_closed(bt);
	ipc_same(at, small, 5000);
	ipc_closed(at);
	fixture_assert_sound();
}
END_TEST

static const char *const renewing[] = {
	"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async",
	"cuStreamSynchronize",
};

/* _i: of renewing.  It stays asleep, and wakes when it is tried again. */
START_TEST(a_renewal_that_fails_leaves_nothing_behind)
{
	struct sim_ledger before;
	unsigned long struck;
	struct vs_why why;
	CUdeviceptr at;
	unsigned nth;

	ipc_start();
	at = ipc_opened(&ipc_handle);
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	ipc_lives = 0;
	before = fixture_sim();
	for (nth = 1; nth < 40; nth++) {
		struck = sim_injected();
		sim_fail(renewing[_i], nth, CUDA_ERROR_UNKNOWN);
		if (!vs_ipc_wake(ALL, &why)) {
			sim_fail_clear();
			break;
		}
		ck_assert_uint_eq(sim_injected(), struck + 1);
		sim_fail_clear();
		ck_assert_int_eq(why.status, VS_CUDA);
		ck_assert(vs_ipc_sleeps(ALL));
		ck_assert_uint_eq(lost(), 0);
		ck_assert_uint_eq(fixture_sim().mappings, before.mappings);
		ck_assert_uint_eq(fixture_sim().handles, before.handles);
	}
	ck_assert_uint_gt(nth, 1);
	ck_assert_uint_lt(nth, 40);
	fixture_assert_zero(at, LARGE);
	ipc_closed(at);
	fixture_assert_sound();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, two_contexts_have_one_mapping);
	tcase_add_test(tc, an_owner_that_does_not_answer_is_asked_once);
	tcase_add_test(tc, an_answer_that_makes_no_sense_maps_nothing);
	tcase_add_test(tc,
		       what_its_owner_has_freed_is_kept_while_it_is_there);
	tcase_add_test(tc, what_an_owner_had_that_has_ended_is_zero);
	tcase_add_test(tc, what_came_before_its_owner_ended_stays);
	tcase_add_test(tc, what_another_mapping_has_is_not_lost);
	tcase_add_loop_test(tc, a_renewal_that_fails_leaves_nothing_behind, 0,
			    COUNT(renewing));
}

int main(void)
{
	return fixture_main("ipc trouble", fill);
}
