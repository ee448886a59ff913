/* SPDX-License-Identifier: Apache-2.0 */
/* Memory whose physical pages somebody may know stays where it is. */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/allocator.h"
#include "memory/ipc_export.h"
#include "memory/query.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define SYNC CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
#define TOKENS CU_POINTER_ATTRIBUTE_P2P_TOKENS
#define DMA_BUF CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define OWN (17 * MIB)

static const size_t sizes[] = { 5000, OWN };

/* The simulated driver gives neither descriptors nor tokens; this one does. */
static CUresult give = CUDA_SUCCESS;
static __typeof__(&cuPointerGetAttribute) plain_attribute;
static atomic_bool asked;

static CUresult give_handle(void *handle, CUdeviceptr base, size_t size,
			    CUmemRangeHandleType type,
			    unsigned long long flags)
{
	(void)base;
	(void)size;
	(void)type;
	(void)flags;
	atomic_store(&asked, true);
	if (!give)
		*(int *)handle = 77;
	return give;
}

static CUresult give_tokens(void *data, CUpointer_attribute attribute,
			    CUdeviceptr address)
{
	if (attribute != TOKENS)
		return plain_attribute(data, attribute, address);
	return give_handle(data, address, 0, DMA_BUF, 0);
}

static CUdeviceptr base, other;

static void start(int size)
{
	fixture_start("default", "");
	vs_real.cuMemGetHandleForAddressRange = give_handle;
	plain_attribute = vs_real.cuPointerGetAttribute;
	vs_real.cuPointerGetAttribute = give_tokens;
	base = fixture_alloc("registered", sizes[size]);
	other = fixture_alloc("rest", 3 * MIB);
}

static CUresult set_sync(CUdeviceptr at, unsigned on)
{
	return vs_query_set_attribute(&on, SYNC, at);
}

static unsigned get_sync(CUdeviceptr at)
{
	unsigned on = 77;

	ck_ok(vs_query_attribute(&on, SYNC, at));
	return on;
}

/* Sleeps; @base stays and is said to, for this reason. */
static void assert_stays(const char *reason)
{
	struct vs_segment *s = fixture_segment(base);
	struct vs_reply reply;
	size_t i, bytes = 0;

	ck_assert_str_eq(s->kept_why, reason);
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_PARTIAL);
	ck_assert_ptr_nonnull(strstr(reply.why.text, reason));
	ck_assert_str_eq(reply.ledger.last.kept[0].why, reason);
	for (i = 0; i < s->chunk_count; i++) {
		ck_assert_int_eq(s->chunks[i].state, VS_CHUNK_RESIDENT);
		bytes += s->chunks[i].size;
	}
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, bytes);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, 3 * MIB);
	ck_assert_uint_eq(reply.ledger.resident_bytes, bytes);
	fixture_assert_filled(base, sizes[bytes >= OWN]);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(base, sizes[bytes >= OWN]);
	fixture_assert_filled(other, 3 * MIB);
	fixture_assert_sound();
}

/* Sleeps as a whole. */
static void assert_goes(void)
{
	struct vs_reply reply = fixture_sleep(1, NULL);

	ck_assert_int_eq(reply.status, VS_OK);
	ck_assert_uint_eq(reply.ledger.resident_bytes, 0);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(base, 5000);
}

/* _i: size. */
START_TEST(memory_with_synchronous_copies_asked_for_stays)
{
	unsigned flags;

	start(_i);
	ck_assert_uint_eq(get_sync(base), 0);
	ck_ok(set_sync(base + 100, 1));
	ck_assert_uint_eq(get_sync(base), 1);
	ck_assert_uint_eq(get_sync(base + sizes[_i] - 1), 1);
	ck_assert_uint_eq(get_sync(other), 0);
	ck_ok(vs_real.cuCtxGetFlags(&flags));
	ck_assert_uint_ne(flags & CU_CTX_SYNC_MEMOPS, 0);
	assert_stays("SYNC_MEMOPS was set");
	ck_assert_uint_eq(get_sync(base), 1);
}
END_TEST

START_TEST(synchronous_copies_turned_off_keep_nothing)
{
	start(0);
	ck_ok(set_sync(base, 0));
	ck_assert_uint_eq(get_sync(base), 0);
	assert_goes();
}
END_TEST

START_TEST(synchronous_copies_that_cannot_be_had_keep_nothing)
{
	start(0);
	sim_fail("cuCtxSetFlags", 1, CUDA_ERROR_NOT_SUPPORTED);
	ck_cu(set_sync(base, 1), CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_uint_eq(get_sync(base), 0);
	assert_goes();
}
END_TEST

START_TEST(a_new_allocation_at_the_address_has_no_synchronous_copies)
{
	CUdeviceptr again;

	start(0);
	ck_ok(set_sync(base, 1));
	fixture_free(base);
	again = fixture_alloc("registered", 5000);
	ck_assert_uint_eq(again, base);
	ck_assert_uint_eq(get_sync(again), 0);
}
END_TEST

START_TEST(synchronous_copies_of_native_memory_are_the_drivers_affair)
{
	CUdeviceptr native;

	start(0);
	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	ck_ok(set_sync(native, 1));
	ck_assert_uint_eq(get_sync(native), 1);
	ck_assert_uint_eq(get_sync(base), 0);
	ck_assert_int_ne(set_sync(64, 1), CUDA_SUCCESS);
}
END_TEST

/* _i: size. */
START_TEST(memory_with_a_dma_buf_stays)
{
	int fd = 0;

	start(_i);
	ck_ok(vs_query_handle_for_range(&fd, base, 4096, DMA_BUF, 0));
	ck_assert_int_eq(fd, 77);
	assert_stays("a dma-buf was made of it");
}
END_TEST

/* _i: size. */
START_TEST(memory_with_tokens_for_a_peer_stays)
{
	int token = 0;

	start(_i);
	ck_ok(vs_query_attribute(&token, TOKENS, base + 1));
	ck_assert_int_eq(token, 77);
	assert_stays("P2P tokens were asked for");
}
END_TEST

START_TEST(what_the_driver_refuses_keeps_nothing)
{
	int fd = 0;

	start(0);
	give = CUDA_ERROR_NOT_SUPPORTED;
	ck_cu(vs_query_handle_for_range(&fd, base, 4096, DMA_BUF, 0), give);
	ck_cu(vs_query_attribute(&fd, TOKENS, base), give);
	ck_assert_int_eq(fd, 0);
	ck_assert_ptr_null(fixture_segment(base)->kept_why);
	assert_goes();
}
END_TEST

START_TEST(a_refusal_does_not_undo_an_earlier_reason)
{
	int fd = 0;

	start(0);
	ck_ok(vs_query_handle_for_range(&fd, base, 4096, DMA_BUF, 0));
	give = CUDA_ERROR_NOT_SUPPORTED;
	ck_cu(vs_query_handle_for_range(&fd, base, 4096, DMA_BUF, 0), give);
	ck_cu(vs_query_attribute(&fd, TOKENS, base), give);
	assert_stays("a dma-buf was made of it");
}
END_TEST

/* Small ones of a tag share their memory, and so this. */
START_TEST(what_lies_in_the_same_segment_stays_too)
{
	CUdeviceptr near;

	start(0);
	near = fixture_alloc("registered", 700);
	ck_assert_ptr_eq(fixture_segment(near), fixture_segment(base));
	ck_ok(set_sync(near, 1));
	assert_stays("SYNC_MEMOPS was set");
	fixture_assert_filled(near, 700);
}
END_TEST

static void *ask_there(void *fd)
{
	fixture_current(fixture_context);
	ck_ok(vs_query_handle_for_range(fd, base, 4096, DMA_BUF, 0));
	return NULL;
}

/* An operation has the segment pinned: it may be about to unmap it. */
START_TEST(a_dma_buf_waits_for_a_running_operation)
{
	struct vs_segment *s;
	pthread_t thread;
	int fd = 0, i;

	start(0);
	s = fixture_segment(base);
	vs_lock_take(&vs_segment_lock);
	vs_segment_pin(s);
	vs_lock_drop(&vs_segment_lock);
	pthread_create(&thread, NULL, ask_there, &fd);
	for (i = 0; i < 1000; i++)
		sched_yield();
	ck_assert(!atomic_load(&asked));
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(s);
	vs_lock_drop(&vs_segment_lock);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(fd, 77);
	assert_stays("a dma-buf was made of it");
}
END_TEST

static CUresult no_descriptors(int *value, CUdevice_attribute attribute,
			       CUdevice device)
{
	if (attribute !=
	    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
		return cuDeviceGetAttribute(value, attribute, device);
	*value = 0;
	return CUDA_SUCCESS;
}

/* _i: size. */
START_TEST(ipc_handles_that_cannot_be_had_are_refused_and_that_is_said)
{
	CUipcMemHandle handle;
	CUdeviceptr native;
	unsigned capable = 77;

	vs_real.cuDeviceGetAttribute = no_descriptors;
	start(_i);
	ck_ok(vs_real.cuMemAlloc_v2(&native, 4096));
	ck_ok(vs_ipc_get(&handle, native));
	ck_assert_int_ne(vs_ipc_get(&handle, 64), CUDA_SUCCESS);
	ck_assert(!vs_ipc_refused());
	ck_assert(!fixture_ledger().ipc_refused);
	ck_cu(vs_ipc_get(&handle, base), CUDA_ERROR_INVALID_VALUE);
	ck_assert(vs_ipc_refused());
	ck_assert(fixture_ledger().ipc_refused);
	ck_ok(vs_query_attribute(&capable,
			CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
			base));
	ck_assert_uint_eq(capable, 0);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		memory_with_synchronous_copies_asked_for_stays, 0, 2);
	tcase_add_test(tc, synchronous_copies_turned_off_keep_nothing);
	tcase_add_test(tc, synchronous_copies_that_cannot_be_had_keep_nothing);
	tcase_add_test(tc,
		a_new_allocation_at_the_address_has_no_synchronous_copies);
	tcase_add_test(tc,
		synchronous_copies_of_native_memory_are_the_drivers_affair);
	tcase_add_loop_test(tc, memory_with_a_dma_buf_stays, 0, 2);
	tcase_add_loop_test(tc, memory_with_tokens_for_a_peer_stays, 0, 2);
	tcase_add_test(tc, what_the_driver_refuses_keeps_nothing);
	tcase_add_test(tc, a_refusal_does_not_undo_an_earlier_reason);
	tcase_add_test(tc, what_lies_in_the_same_segment_stays_too);
	tcase_add_test(tc, a_dma_buf_waits_for_a_running_operation);
	tcase_add_loop_test(tc,
		ipc_handles_that_cannot_be_had_are_refused_and_that_is_said,
		0, 2);
}

int main(void)
{
	return fixture_main("kept", fill);
}
