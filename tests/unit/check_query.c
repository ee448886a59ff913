/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told about its memory is what it would be told without us:
 * answers are held against those about plain memory of the driver's own. */
#include <config.h>

#include "memory_fixture.h"

#include "base/context.h"
#include "memory/allocator.h"
#include "memory/query.h"
#include "memory/vmm.h"

#include <string.h>

#define LAST 21		/* attributes are numbered from 1 */
#define TOKENS CU_POINTER_ATTRIBUTE_P2P_TOKENS
#define PAGE ((CUdeviceptr)2 << 20)

static const size_t sizes[] = { 5000, 17 * MIB + 3 };

enum when { AWAKE, ASLEEP, WOKEN, WHENS };

/* The same about plain memory and about ours. */
static struct pair {
	CUdeviceptr native, ours;
	size_t size;
} pair;

static void make_pair(size_t size)
{
	pair.size = size;
	ck_ok(vs_real.cuMemAlloc_v2(&pair.native, size));
	pair.ours = fixture_alloc("w", size);
}

static void start(size_t size, enum when when)
{
	fixture_start("default", "");
	make_pair(size);
	if (when >= ASLEEP)
		ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	if (when == WOKEN)
		ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

/* What is an address, seen from the start of the allocation. */
static uint64_t relative(CUpointer_attribute a, uint64_t value,
			 CUdeviceptr base)
{
	if (a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
	    a == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
		return value - base;
	return value;
}

/* Differs from one allocation to the next, or is our own affair. */
static bool is_own(CUpointer_attribute a)
{
	return a == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
	       a == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
	       a == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
	       a == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ||
	       a == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
}

static void assert_attribute(CUpointer_attribute a, size_t at)
{
	uint64_t native = 0, ours = 0;
	CUresult rc;

	rc = vs_real.cuPointerGetAttribute(&native, a, pair.native + at);
	ck_assert_msg(vs_query_attribute(&ours, a, pair.ours + at) == rc,
		      "attribute %d at %zu", (int)a, at);
	if (rc || is_own(a))
		return;
	native = relative(a, native, pair.native);
	ours = relative(a, ours, pair.ours);
	ck_assert_msg(ours == native, "attribute %d at %zu: 0x%llx instead "
		      "of 0x%llx", (int)a, at, (unsigned long long)ours,
		      (unsigned long long)native);
}

/* _i: size and when. */
START_TEST(each_attribute_is_as_that_of_plain_memory_wherever_asked)
{
	size_t size = sizes[_i % 2];
	int a;

	start(size, (enum when)(_i / 2));
	for (a = 0; a <= LAST + 1; a++) {
		if (a == TOKENS)
			continue;
		assert_attribute((CUpointer_attribute)a, 0);
		assert_attribute((CUpointer_attribute)a, size / 2);
		assert_attribute((CUpointer_attribute)a, size - 1);
	}
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
END_TEST

/* _i: size and when. */
START_TEST(the_plural_form_gives_the_same_as_the_singular_one)
{
	CUpointer_attribute list[LAST];
	uint64_t one, all[LAST];
	size_t at = sizes[_i % 2] / 2;
	void *data[LAST];
	unsigned i, n = 0;
	int a;

	start(sizes[_i % 2], (enum when)(_i / 2));
	for (a = 1; a <= LAST; a++) {
		one = 0;
		if (a == TOKENS ||
		    vs_query_attribute(&one, (CUpointer_attribute)a,
				       pair.ours + at))
			continue;
		all[n] = 0;
		data[n] = &all[n];
		list[n++] = (CUpointer_attribute)a;
	}
	ck_assert_uint_gt(n, 10);
	ck_ok(vs_query_attributes(n, list, data, pair.ours + at));
	for (i = 0; i < n; i++) {
		one = 0;
		ck_ok(vs_query_attribute(&one, list[i], pair.ours + at));
		ck_assert_msg(all[i] == one, "attribute %d", (int)list[i]);
	}
}
END_TEST

/* _i: size and when.  A large one has pages to itself. */
START_TEST(the_mapping_is_pages_around_the_allocation)
{
	CUdeviceptr base;
	size_t size;

	start(sizes[_i % 2], (enum when)(_i / 2));
	ck_ok(vs_query_attribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
				 pair.ours + 1));
	ck_ok(vs_query_attribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
				 pair.ours + 1));
	if (_i % 2)
		ck_assert_uint_eq(base, pair.ours);
	else
		ck_assert_uint_eq(base, pair.ours & ~(PAGE - 1));
	ck_assert_uint_eq(size % PAGE, 0);
	ck_assert_uint_ge(base + size, pair.ours + pair.size);
	ck_assert_uint_lt(base + size, pair.ours + pair.size + PAGE);
}
END_TEST

static void assert_range(size_t at)
{
	CUdeviceptr base = 0;
	size_t size = 0;

	ck_ok(vs_query_range(&base, &size, pair.ours + at));
	ck_assert_uint_eq(base, pair.ours);
	ck_assert_uint_eq(size, pair.size);
	base = size = 0;
	ck_ok(vs_query_range(&base, NULL, pair.ours + at));
	ck_ok(vs_query_range(NULL, &size, pair.ours + at));
	ck_ok(vs_query_range(NULL, NULL, pair.ours + at));
	ck_assert_uint_eq(base, pair.ours);
	ck_assert_uint_eq(size, pair.size);
	ck_assert(vs_query_ours(pair.ours + at));
}

/* _i: size and when. */
START_TEST(the_range_is_the_allocation_wherever_asked)
{
	start(sizes[_i % 2], (enum when)(_i / 2));
	assert_range(0);
	assert_range(pair.size / 2);
	assert_range(pair.size - 1);
}
END_TEST

/* _i: when.  Each bad argument against the driver's answer. */
START_TEST(bad_arguments_give_the_drivers_errors)
{
	CUpointer_attribute list[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	};
	CUdeviceptr native, ours;
	uint64_t values[2];
	void *data[] = { &values[0], NULL };

	start(5000, (enum when)_i);
	native = pair.native;
	ours = pair.ours;
	ck_cu(vs_query_attribute(NULL, list[0], ours),
	      vs_real.cuPointerGetAttribute(NULL, list[0], native));
	ck_cu(vs_query_attributes(2, NULL, data, ours),
	      vs_real.cuPointerGetAttributes(2, NULL, data, native));
	ck_cu(vs_query_attributes(2, list, NULL, ours),
	      vs_real.cuPointerGetAttributes(2, list, NULL, native));
	ck_cu(vs_query_attributes(2, list, data, ours),
	      vs_real.cuPointerGetAttributes(2, list, data, native));
	ck_cu(vs_query_attributes(0, list, data, ours),
	      vs_real.cuPointerGetAttributes(0, list, data, native));
	ck_cu(vs_query_set_attribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				     ours),
	      vs_real.cuPointerSetAttribute(NULL,
		      CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, native));
	ck_cu(vs_query_set_attribute(values,
				     CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ours),
	      vs_real.cuPointerSetAttribute(values,
		      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, native));
}
END_TEST

static uint64_t buffer_id(CUdeviceptr at)
{
	uint64_t id = 0;

	ck_ok(vs_query_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ck_assert_uint_ne(id, 0);
	return id;
}

/* _i: size. */
START_TEST(a_buffer_id_is_never_used_twice)
{
	uint64_t id, native, other;
	CUdeviceptr again;

	start(sizes[_i], AWAKE);
	id = buffer_id(pair.ours);
	ck_assert_uint_eq(buffer_id(pair.ours + pair.size - 1), id);
	ck_ok(vs_real.cuPointerGetAttribute(&native,
			CU_POINTER_ATTRIBUTE_BUFFER_ID, pair.native));
	ck_assert_uint_ne(id, native);
	other = buffer_id(fixture_alloc("w", sizes[_i]));
	ck_assert_uint_ne(other, id);
	fixture_free(pair.ours);
	again = fixture_alloc("w", sizes[_i]);
	ck_assert_uint_eq(again, pair.ours);
	ck_assert_uint_ne(buffer_id(again), id);
	ck_assert_uint_ne(buffer_id(again), other);
	id = buffer_id(again);
	fixture_sleep(1, NULL);
	ck_assert_uint_eq(buffer_id(again), id);
	fixture_wake(NULL);
	ck_assert_uint_eq(buffer_id(again), id);
}
END_TEST

/* Where several are asked for at once, what is nobody's is the host's. */
static void assert_host_pointer(CUdeviceptr at)
{
	CUpointer_attribute which = CU_POINTER_ATTRIBUTE_HOST_POINTER;
	uint64_t value = 77;
	void *out = &value;

	ck_ok(vs_query_attributes(1, &which, &out, at));
	ck_assert_uint_eq(value, at);
}

static void assert_unknown(CUdeviceptr at)
{
	CUdeviceptr base = 77;
	size_t size = 77;
	uint64_t value = 77, native = 77;
	CUresult rc;

	ck_assert(!vs_query_ours(at));
	rc = vs_real.cuMemGetAddressRange_v2(&base, &size, 64);
	ck_cu(vs_query_range(&base, &size, at), rc);
	ck_assert_uint_eq(base, 77);
	ck_assert_uint_eq(size, 77);
	rc = vs_real.cuPointerGetAttribute(&native,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 64);
	ck_cu(vs_query_attribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at),
	      rc);
	ck_assert_uint_eq(value, native);
	ck_cu(vs_query_attribute(&value, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at),
	      rc);
	assert_host_pointer(at);
}

/* _i: size.  The memory behind it may still be there for the next request. */
START_TEST(a_freed_address_is_unknown)
{
	CUdeviceptr kept;

	start(sizes[_i], AWAKE);
	kept = fixture_alloc("w", sizes[_i]);
	fixture_free(pair.ours);
	assert_unknown(pair.ours);
	assert_unknown(pair.ours + pair.size - 1);
	fixture_free(kept);
	assert_unknown(kept);
}
END_TEST

/* _i: size. */
START_TEST(an_address_behind_the_allocation_is_not_its)
{
	start(sizes[_i], AWAKE);
	assert_unknown(pair.ours + pair.size);
}
END_TEST

START_TEST(memory_that_is_not_ours_is_answered_by_the_driver)
{
	CUdeviceptr base;
	uint64_t native, value;
	size_t size;
	int local;

	start(5000, AWAKE);
	ck_ok(vs_query_range(&base, &size, pair.native + 17));
	ck_assert_uint_eq(base, pair.native);
	ck_assert_uint_eq(size, 5000);
	ck_ok(vs_real.cuPointerGetAttribute(&native,
			CU_POINTER_ATTRIBUTE_BUFFER_ID, pair.native));
	ck_ok(vs_query_attribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID,
				 pair.native));
	ck_assert_uint_eq(value, native);
	assert_unknown((uintptr_t)&local);
	assert_unknown(0);
}
END_TEST

/* Others have taken what we gave back: there is nothing for a question. */
START_TEST(questions_are_answered_while_asleep_on_a_full_device)
{
	CUdeviceptr rest;

	start(5000, ASLEEP);
	while (!vs_real.cuMemAlloc_v2(&rest, 2 * MIB))
		;
	while (!vs_real.cuMemAlloc_v2(&rest, 512))
		;
	assert_attribute(CU_POINTER_ATTRIBUTE_CONTEXT, 0);
	assert_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0);
	assert_attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 0);
	assert_range(0);
	sim_limit(0, 512 * MIB);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_filled(pair.ours, 5000);
}
END_TEST

/* An operation has taken the memory and not yet said that all sleeps, or the
 * other way round: the driver knows no more of what is asked about. */
START_TEST(questions_are_answered_while_the_memory_goes_and_comes)
{
	struct vs_segment *s;
	struct vs_chunk *c;
	int a;

	start(sizes[_i], AWAKE);
	s = fixture_segment(pair.ours);
	vs_lock_take(&vs_segment_lock);
	vs_segment_pin(s);
	vs_lock_drop(&vs_segment_lock);
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		ck_ok(vs_real.cuMemUnmap(s->base + c->offset, c->size));
	for (a = 0; a <= LAST + 1; a++)
		if (a != TOKENS)
			assert_attribute((CUpointer_attribute)a, 0);
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		ck_assert(!vs_vmm_map(0, s->base + c->offset, c->size,
				      c->handle, NULL));
	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(s);
	vs_lock_drop(&vs_segment_lock);
	fixture_assert_filled(pair.ours, sizes[_i]);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
	each_attribute_is_as_that_of_plain_memory_wherever_asked, 0,
		2 * WHENS);
	tcase_add_loop_test(tc,
	the_plural_form_gives_the_same_as_the_singular_one, 0,
		2 * WHENS);
	tcase_add_loop_test(tc, the_mapping_is_pages_around_the_allocation, 0,
			    2 * WHENS);
	tcase_add_loop_test(tc, the_range_is_the_allocation_wherever_asked, 0,
			    2 * WHENS);
	tcase_add_loop_test(tc, bad_arguments_give_the_drivers_errors, 0,
			    WHENS);
	tcase_add_loop_test(tc, a_buffer_id_is_never_used_twice, 0, 2);
	tcase_add_loop_test(tc, a_freed_address_is_unknown, 0, 2);
	tcase_add_loop_test(tc, an_address_behind_the_allocation_is_not_its, 0,
			    2);
	tcase_add_test(tc, memory_that_is_not_ours_is_answered_by_the_driver);
	tcase_add_test(tc,
		questions_are_answered_while_asleep_on_a_full_device);
	tcase_add_loop_test(tc,
		questions_are_answered_while_the_memory_goes_and_comes, 0, 2);
}

int main(void)
{
	return fixture_main("query", fill);
}
