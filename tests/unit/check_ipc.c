/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory lent and borrowed within one process.  Every driver call on the way
 * fails in turn.
 */
#include <config.h>

#include "ipc_fixture.h"

#include "memory/arena.h"
#include "memory/detach.h"
#include "memory/query.h"
#include "memory/vmm.h"

#include <string.h>

#define LIVES 40		/* more calls of a kind than a life makes */

static struct vs_reply wake_own(void)
{
	return fixture_ask(&(struct vs_request){
		.verb = VS_VERB_WAKE, .level = 1, .all_tags = true,
		.own_only = true });
}

START_TEST(what_is_opened_is_the_same_memory_and_there_once)
{
	CUdeviceptr at, again, small, little;
	struct sim_ledger before;
	CUipcMemHandle other;
	size_t size;

	ipc_start();
	small = fixture_alloc("default", 5000);
	other = ipc_handle_of(small + 4999);
	before = fixture_sim();
	at = ipc_opened(&ipc_handle);
	again = ipc_opened(&ipc_handle);
	ck_assert_uint_eq(at, again);
	little = ipc_opened(&other);
	ipc_same(at, ipc_base, LARGE);
	ipc_same(little, small, 5000);
	ck_ok(vs_query_range(&again, &size, at + LARGE - 1));
	ck_assert_uint_eq(again, at);
	ck_assert_uint_eq(size, LARGE);
	ipc_closed(at);
	ipc_same(at, ipc_base, LARGE);
	ipc_closed(at);
	ipc_closed(little);
	ck_assert_uint_eq(ipc_lent(), 0);
	ck_assert_uint_eq(fixture_sim().mappings, before.mappings);
	ck_assert_uint_eq(fixture_sim().reservations, before.reservations);
	ck_assert_uint_eq(fixture_sim().handles, before.handles);
	fixture_assert_sound();
}
END_TEST

START_TEST(two_allocations_of_a_segment_share_its_mapping)
{
	CUdeviceptr a, b, at, bt;
	CUipcMemHandle ha, hb;
	unsigned long before;

	ipc_start();
	a = ipc_made(5000, &ha);
	b = ipc_made(9000, &hb);
	at = ipc_opened(&ha);
	before = fixture_sim().mappings;
	bt = ipc_opened(&hb);
	ck_assert_uint_eq(fixture_sim().mappings, before);
	ck_assert_int_eq((long long)(bt - at), (long long)(b - a));
	ipc_closed(at);
	ipc_same(bt, b, 9000);
	ipc_closed(bt);
	ck_assert_uint_eq(ipc_lent(), 0);
}
END_TEST

/* An arena gives chunks without allocations back; not while one is mapped. */
START_TEST(a_lent_chunk_is_not_used_for_other_memory)
{
	CUipcMemHandle small;
	CUdeviceptr at, first;
	uint64_t before;

	ipc_start();
	first = ipc_made(700 * KIB, &small);
	at = ipc_opened(&small);
	fixture_fill(first, 700 * KIB);
	fixture_free(first);
	vs_arena_trim(0);
	before = fixture_ledger().resident_bytes;
	ck_assert_uint_gt(ipc_lent(), 0);
	ck_assert_uint_gt(before, LARGE);
	ipc_closed(at);
	ck_assert_uint_eq(ipc_lent(), 0);
	vs_arena_trim(0);
	ck_assert_uint_lt(fixture_ledger().resident_bytes, before);
	ck_cu(vs_ipc_open(&at, &small, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_borrower_wakes_once_its_owner_is_awake)
{
	struct vs_reply reply;
	CUdeviceptr at, rest;

	ipc_start();
	rest = fixture_alloc("default", 20 * MIB);
	at = ipc_opened(&ipc_handle);
	ipc_same(at, ipc_base, LARGE);
	ck_assert_uint_eq(ipc_unmap_all(), 0);
	ck_assert_uint_eq(ipc_lent(), 0);
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(reply.ledger.resident_bytes, 0);
	ck_assert_int_eq(vs_ipc_wake(ALL, &reply.why), VS_NOMEM);
	ck_assert(vs_ipc_sleeps(ALL));
	ck_assert_int_eq(wake_own().status, VS_OK);
	ck_assert_int_eq(vs_ipc_wake(ALL, &reply.why), VS_OK);
	ipc_same(at, ipc_base, LARGE);
	fixture_assert_filled(rest, 20 * MIB);
	ipc_closed(at);
}
END_TEST

/* A program that is not held may open while what it has open sleeps. */
START_TEST(a_second_mapping_keeps_what_the_first_gives_back)
{
	CUdeviceptr small, other, at, bt;
	CUipcMemHandle first, second;
	struct vs_why why;

	ipc_start();
	small = ipc_made(5000, &first);
	other = ipc_made(6000, &second);
	at = ipc_opened(&first);
	ipc_unmap_all();
	bt = ipc_opened(&second);
	ck_assert_int_ne((long long)(bt - at), (long long)(other - small));
	ck_cu(vs_ipc_open(&at, &first, 1), CUDA_ERROR_NOT_READY);
	ck_assert_uint_eq(ipc_lent(), 1);
	ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	ipc_same(at, small, 5000);
	ipc_same(bt, other, 6000);
	ipc_closed(at);
	ck_assert_uint_eq(ipc_lent(), 1);
	ipc_same(bt, other, 6000);
	ipc_closed(bt);
	ck_assert_uint_eq(ipc_lent(), 0);
}
END_TEST

START_TEST(an_owner_that_moves_or_sleeps_is_waited_for)
{
	CUdeviceptr at;

	ipc_start();
	ipc_answer = VS_BUSY;
	ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_NOT_READY);
	ipc_answer = VS_NOMEM;
	ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_NOT_READY);
	ipc_answer = VS_REFUSED;
	ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_INVALID_VALUE);
	ipc_answer = VS_OK;
	at = ipc_opened(&ipc_handle);
	ipc_same(at, ipc_base, LARGE);
	ipc_closed(at);
}
END_TEST

START_TEST(a_connection_that_breaks_is_made_anew)
{
	CUdeviceptr at;

	ipc_start();
	ipc_broken = 1;
	at = ipc_opened(&ipc_handle);
	ipc_same(at, ipc_base, LARGE);
	ipc_broken = 1;
	ipc_closed(at);
	ipc_broken = 0;
	at = ipc_opened(&ipc_handle);
	ipc_closed(at);
	ipc_broken = 100;
	ck_cu(vs_ipc_open(&at, &ipc_handle, 1), CUDA_ERROR_MAP_FAILED);
	ipc_broken = 0;
	ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	ck_assert_uint_eq(ipc_lent(), 0);
}
END_TEST

START_TEST(a_context_that_ends_closes_what_was_opened_in_it)
{
	struct vs_detached *gone;
	CUcontext context;
	CUdeviceptr at;

	ipc_start();
	context = fixture_new_context(0);
	fixture_current(context);
	at = ipc_opened(&ipc_handle);
	ipc_same(at, ipc_base, LARGE);
	gone = vs_detach_take(context, 0);
	ck_ok(vs_real.cuCtxDestroy_v2(context));
	vs_detach_drop(gone);
	ck_assert_uint_eq(ipc_lent(), 0);
	ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	fixture_current(fixture_context);
	ipc_closed(ipc_opened(&ipc_handle));
	fixture_assert_sound();
}
END_TEST

START_TEST(a_key_that_is_wrong_gets_nothing)
{
	struct vs_ipc_handle wrong;
	struct vs_ipc_loan loan;
	struct vs_why why;

	ipc_start();
	ipc_closed(ipc_opened(&ipc_handle));
	memcpy(&wrong, &ipc_handle, sizeof(wrong));
	ck_assert_int_eq(vs_ipc_lend(ipc_peer, &wrong, 0, &loan, &why),
			 VS_REFUSED);
	ipc_turn_key(&wrong);
	wrong.block++;
	ck_assert_int_eq(vs_ipc_lend(ipc_peer, &wrong, 0, &loan, &why),
			 VS_REFUSED);
	wrong.block--;
	wrong.offset += 512;
	ck_assert_int_eq(vs_ipc_lend(ipc_peer, &wrong, 0, &loan, &why),
			 VS_REFUSED);
	ck_assert_uint_eq(ipc_lent(), 0);
}
END_TEST

static const char *const calls[] = {
	"cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
	"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
	"cuMemRelease", "cuMemAddressFree", "cuCtxGetDevice",
	"cuDeviceGetCount", "cuThreadExchangeStreamCaptureMode",
};

/* What fails succeeds when it is tried again. */
static void live(void)
{
	struct vs_why why;
	CUdeviceptr at;
	CUresult rc;

	rc = vs_ipc_open(&at, &ipc_handle, 1);
	if (rc) {
		ck_cu(rc == CUDA_ERROR_INVALID_CONTEXT ||
		      rc == CUDA_ERROR_MAP_FAILED, 1);
		ck_assert_uint_eq(ipc_lent(), 0);
		at = ipc_opened(&ipc_handle);
	}
	ipc_same(at, ipc_base, LARGE);
	ipc_unmap_all();
	ck_assert_uint_eq(ipc_lent(), 0);
	vs_vmm_retry();
	if (vs_ipc_wake(ALL, &why)) {
		ck_assert_uint_eq(ipc_lent(), 0);
		ck_assert(vs_ipc_sleeps(ALL));
		vs_vmm_retry();
		ck_assert_int_eq(vs_ipc_wake(ALL, &why), VS_OK);
	}
	ipc_same(at, ipc_base, LARGE);
	vs_ipc_close(at, &rc);
	ck_assert_uint_eq(vs_ipc_bytes(false), 0);
	ck_assert_uint_eq(ipc_lent(), 0);
	vs_vmm_retry();
}

/* _i: of calls. */
START_TEST(a_call_that_fails_leaves_nothing_behind)
{
	struct sim_ledger before;
	unsigned nth, struck;

	ipc_start();
	live();
	before = fixture_sim();
	for (nth = 1; nth < LIVES; nth++) {
		struck = sim_injected();
		sim_fail(calls[_i], nth, CUDA_ERROR_UNKNOWN);
		live();
		struck = sim_injected() - struck;
		sim_fail_clear();
		vs_vmm_retry();
		ck_assert_uint_eq(fixture_sim().mappings, before.mappings);
		ck_assert_uint_eq(fixture_sim().handles, before.handles);
		ck_assert_uint_eq(fixture_sim().reservations,
				  before.reservations);
		if (!struck)
			break;
	}
	ck_assert_uint_gt(nth, 1);
	ck_assert_uint_lt(nth, LIVES);
	fixture_assert_sound();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_is_opened_is_the_same_memory_and_there_once);
	tcase_add_test(tc, two_allocations_of_a_segment_share_its_mapping);
	tcase_add_test(tc, a_lent_chunk_is_not_used_for_other_memory);
	tcase_add_test(tc, a_borrower_wakes_once_its_owner_is_awake);
	tcase_add_test(tc,
		       a_second_mapping_keeps_what_the_first_gives_back);
	tcase_add_test(tc, an_owner_that_moves_or_sleeps_is_waited_for);
	tcase_add_test(tc, a_connection_that_breaks_is_made_anew);
	tcase_add_test(tc,
		       a_context_that_ends_closes_what_was_opened_in_it);
	tcase_add_test(tc, a_key_that_is_wrong_gets_nothing);
	tcase_add_loop_test(tc, a_call_that_fails_leaves_nothing_behind, 0,
			    COUNT(calls));
}

int main(void)
{
	return fixture_main("ipc", fill);
}
