/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of freed memory is nobody's: it goes back when it is wanted,
 * and is not kept where others may know it. */
#include <config.h>

#include "spare_fixture.h"

#include "base/context.h"
#include "base/device.h"
#include "base/lock.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/capture.h"
#include "memory/detach.h"
#include "memory/foreign.h"
#include "memory/ipc_export.h"
#include "memory/peer.h"
#include "memory/query.h"
#include "memory/vmm.h"

#include <pthread.h>
#include <sched.h>

static void keep_one(void)
{
	fixture_free(fixture_alloc("w", OWN));
	ck_assert_uint_eq(spare_bytes(0), OWN);
}

enum way { OF_ANOTHER_TAG, SMALL, LARGER, NATIVE, MAPPED, WAYS };

static CUresult allocate(enum way way)
{
	static const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;

	if (way == MAPPED)
		return vs_foreign_create(&handle, OWN, &prop, 0);
	ck_assert_int_eq(vs_tag_push(way == NATIVE ? "" : "v", NULL), VS_OK);
	return vs_allocator_alloc(&base, way == SMALL ? 8 * MIB :
				  way == LARGER ? 19 * MIB : OWN);
}

/* _i: the way of allocating. */
START_TEST(whoever_finds_no_memory_gets_it)
{
	fixture_start("default", "");
	keep_one();
	sim_limit(0, 20 * MIB);
	ck_ok(allocate((enum way)_i));
	ck_assert_uint_eq(spare_bytes(0), 0);
	ck_assert_uint_le(sim_used(0), 19 * MIB);
	fixture_assert_sound();
}
END_TEST

static __typeof__(&cuMemUnmap) unmap;
static pthread_t asker;

static void *ask_meanwhile(void *unused)
{
	fixture_current(fixture_context);
	ck_ok(allocate(OF_ANOTHER_TAG));
	return unused;
}

/* Once it finds no memory the first of nine chunks goes. */
static CUresult unmap_late(CUdeviceptr base, size_t size)
{
	unsigned long creates = sim_calls("cuMemCreate");

	if (!asker) {
		pthread_create(&asker, NULL, ask_meanwhile, NULL);
		while (sim_calls("cuMemCreate") < creates + 2)
			sched_yield();
	}
	return unmap(base, size);
}

START_TEST(who_finds_no_memory_waits_for_what_is_going)
{
	fixture_start("default", "");
	keep_one();
	sim_limit(0, 20 * MIB);
	unmap = vs_real.cuMemUnmap;
	vs_real.cuMemUnmap = unmap_late;
	fixture_later();
	vs_real.cuMemUnmap = unmap;
	ck_assert_int_eq(pthread_join(asker, NULL), 0);
	ck_assert_uint_eq(sim_used(0), OWN);
	fixture_assert_sound();
}
END_TEST

START_TEST(it_is_free_in_what_the_program_sees)
{
	size_t before, after, total;

	fixture_start("default", "");
	ck_ok(vs_allocator_info(&before, &total));
	keep_one();
	ck_ok(vs_allocator_info(&after, &total));
	ck_assert_uint_eq(after, before);
	ck_assert_uint_eq(sim_used(0), OWN);
	ck_assert_uint_eq(fixture_ledger().resident_bytes, OWN);
	ck_assert_uint_eq(fixture_ledger().live_bytes, 0);
	ck_assert_uint_eq(fixture_ledger().allocations, 0);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_sleep_gives_it_back_before)
{
	struct vs_reply reply;
	CUdeviceptr base;

	fixture_start("default", "");
	base = fixture_alloc("w", OWN + MIB);
	keep_one();
	reply = fixture_sleep(1, "w");
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, OWN + MIB);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, OWN + MIB);
	ck_assert_uint_eq(sim_used(0), 0);
	reply = fixture_wake(NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(sim_used(0), OWN + MIB);
	fixture_assert_filled(base, OWN + MIB);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* Somebody works on it just then. */
START_TEST(a_sleep_that_meets_it_copies_nothing)
{
	struct vs_segment *s;
	struct vs_reply reply;
	CUdeviceptr base, other;

	fixture_start("default", "");
	base = fixture_alloc("w", OWN);
	s = fixture_segment(base);
	fixture_free(base);
	vs_lock_take(&vs_segment_lock);
	vs_segment_pin(s);
	vs_lock_drop(&vs_segment_lock);
	other = fixture_alloc("w", OWN);
	ck_assert_uint_ne(other, base);
	reply = fixture_sleep(1, "w");
	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, OWN);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, 2 * OWN);
	ck_assert_uint_eq(reply.ledger.last.lost_bytes, 0);
	ck_assert_uint_eq(sim_used(0), 0);
	reply = fixture_wake(NULL);
	ck_assert_int_eq(reply.status, VS_OK);
	fixture_assert_filled(other, OWN);
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(s);
	vs_lock_drop(&vs_segment_lock);
	ck_assert_uint_eq(fixture_alloc("w", OWN), base);
	fixture_free(base);
	fixture_free(other);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_is_freed_asleep_is_not_kept)
{
	CUdeviceptr base;

	fixture_start("default", "");
	base = fixture_alloc("w", OWN);
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	fixture_free(base);
	ck_assert_uint_eq(vs_segment_count(), 0);
	ck_assert_uint_eq(fixture_sim().reservations, 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_empty();
}
END_TEST

/* _i: the context goes, or stays after all. */
START_TEST(it_goes_with_its_context)
{
	struct vs_detached *detached;
	CUcontext context;
	CUdeviceptr base;

	fixture_start("default", "");
	context = fixture_new_context(0);
	base = fixture_alloc("w", OWN);
	fixture_free(base);
	detached = vs_detach_take(context, 0);
	ck_assert_ptr_nonnull(detached);
	/* The handle may be another context's from here on. */
	ck_assert(!vs_spare_take(0, context, vs_tag_find("w"), OWN, &base));
	if (_i) {
		vs_detach_restore(detached);
		ck_assert_uint_eq(fixture_alloc("w", OWN), base);
		fixture_free(base);
	} else {
		ck_ok(vs_real.cuCtxDestroy_v2(context));
		vs_detach_drop(detached);
		ck_assert_uint_eq(sim_used(0), 0);
	}
	fixture_assert_empty();
}
END_TEST

START_TEST(what_was_freed_beside_a_capture_is_spare_when_that_is_over)
{
	CUdeviceptr base;
	CUstream stream;
	CUgraph graph;

	fixture_start("default", "");
	base = fixture_alloc("w", OWN);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false, vs_real.cuStreamBeginCapture_v2(stream,
				CU_STREAM_CAPTURE_MODE_RELAXED));
	fixture_free(base);
	ck_assert_uint_eq(spare_bytes(0), 0);
	ck_assert_uint_ne(fixture_alloc("w", OWN), base);
	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	vs_capture_ended(stream, false);
	ck_ok(vs_real.cuGraphDestroy(graph));
	fixture_free(fixture_alloc("w", 4 * KIB));
	ck_assert_uint_ge(spare_bytes(0), OWN);
	ck_assert_uint_eq(fixture_alloc("w", OWN), base);
	fixture_assert_sound();
}
END_TEST

static CUresult give_handle(void *handle, CUdeviceptr base, size_t size,
			    CUmemRangeHandleType type,
			    unsigned long long flags)
{
	(void)base;
	(void)size;
	(void)type;
	(void)flags;
	*(int *)handle = 77;
	return CUDA_SUCCESS;
}

enum known { LENT, SYNC, TO_A_NIC, OF_A_POOL, KNOWN };

static CUdeviceptr make_known(enum known how)
{
	static const unsigned on = 1;
	CUdeviceptr base;
	CUipcMemHandle handle;
	int fd;

	if (how == OF_A_POOL) {
		ck_assert(vs_vmm_usable(0));
		ck_assert_int_eq(vs_allocator_make(0, NULL,
			vs_tag_current(), OWN, &base, NULL), VS_OK);
		return base;
	}
	base = fixture_alloc("w", OWN);
	if (how == LENT)
		ck_ok(vs_ipc_get(&handle, base));
	else if (how == SYNC)
		ck_ok(vs_query_set_attribute(&on,
			CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base));
	else
		ck_ok(vs_query_handle_for_range(&fd, base, OWN,
			CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	return base;
}

/* _i: who. */
START_TEST(what_others_may_know_is_not_kept)
{
	fixture_start("default", "");
	vs_device_note(0);
	vs_real.cuMemGetHandleForAddressRange = give_handle;
	fixture_free(make_known((enum known)_i));
	ck_assert_uint_eq(spare_bytes(0), 0);
	ck_assert_uint_eq(sim_used(0), 0);
	fixture_assert_empty();
}
END_TEST

START_TEST(another_device_that_comes_in_reaches_it_too)
{
	unsigned char there[256];
	CUcontext other;
	CUdeviceptr base;

	fixture_start("default", "");
	vs_peer_context(fixture_context);
	keep_one();
	other = fixture_new_context(1);
	vs_peer_context(other);
	fixture_current(fixture_context);
	base = fixture_alloc("w", OWN);
	ck_assert_uint_eq(spare_bytes(0), 0);
	fixture_current(other);
	ck_ok(vs_real.cuMemcpyDtoH_v2(there, base, sizeof(there)));
	ck_assert_mem_eq(there, (void *)(uintptr_t)base, sizeof(there));
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, whoever_finds_no_memory_gets_it, 0, WAYS);
	tcase_add_test(tc, who_finds_no_memory_waits_for_what_is_going);
	tcase_add_test(tc, it_is_free_in_what_the_program_sees);
	tcase_add_test(tc, a_sleep_gives_it_back_before);
	tcase_add_test(tc, a_sleep_that_meets_it_copies_nothing);
	tcase_add_test(tc, what_is_freed_asleep_is_not_kept);
	tcase_add_loop_test(tc, it_goes_with_its_context, 0, 2);
	tcase_add_test(tc,
		what_was_freed_beside_a_capture_is_spare_when_that_is_over);
	tcase_add_loop_test(tc, what_others_may_know_is_not_kept, 0, KNOWN);
	tcase_add_test(tc, another_device_that_comes_in_reaches_it_too);
}

int main(void)
{
	return fixture_main("spare-ends", fill);
}
