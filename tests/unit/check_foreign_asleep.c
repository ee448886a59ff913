/* SPDX-License-Identifier: Apache-2.0 */
/* What the program does with memory of its own while that sleeps. */
#include <config.h>

#include "foreign_fixture.h"

#include "memory/allocator.h"
#include "memory/foreign_query.h"
#include "base/tag.h"

#include <string.h>

#define SIZE (2 * MIB)

static CUdeviceptr base, other;
static handle_t asleep, awake;

/* One tag sleeps, the other does not, and what is mapped is adjacent. */
static void start(void)
{
	fixture_start("default", "");
	base = foreign_reserve(4 * SIZE);
	other = base + SIZE;
	asleep = foreign_make("weights", SIZE);
	awake = foreign_make("kv", SIZE);
	foreign_map(base, SIZE, asleep);
	foreign_map(other, SIZE, awake);
	foreign_allow(base, 2 * SIZE, 0, RW);
	fixture_fill(base, 2 * SIZE);
	ck_assert_int_eq(fixture_sleep(1, "weights").status, VS_OK);
	ck_assert_uint_eq(fixture_sim().device_bytes, SIZE);
	ck_assert_uint_eq(fixture_sim().mappings, 1);
}

static void finish(void)
{
	foreign_wake();
	ck_ok(vs_foreign_release(asleep));
	ck_ok(vs_foreign_release(awake));
	ck_ok(vs_foreign_unreserve(base, 4 * SIZE));
	fixture_assert_empty();
}

static CUresult set_access(CUdeviceptr at, size_t size, int device, int flags)
{
	CUmemAccessDesc desc = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = device, .flags = (CUmemAccess_flags)flags,
	};

	return vs_foreign_set_access(at, size, &desc, 1);
}

static unsigned recorded(CUdeviceptr at, CUdevice device)
{
	CUmemLocation where = {
		.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device,
	};
	unsigned long long flags = 77;
	CUresult rc = CUDA_ERROR_UNKNOWN;

	ck_assert(vs_foreign_get_access(&flags, &where, at, &rc));
	ck_ok(rc);
	return (unsigned)flags;
}

START_TEST(the_other_tag_is_mapped_and_unmapped_as_ever)
{
	start();
	foreign_map(base + 2 * SIZE, SIZE, awake);
	foreign_allow(base + 2 * SIZE, SIZE, 0, RO);
	ck_assert_mem_eq((void *)(base + 2 * SIZE), (void *)other, SIZE);
	ck_ok(vs_foreign_unmap(base + 2 * SIZE, SIZE));
	ck_assert_uint_eq(fixture_sim().mappings, 1);
	foreign_wake();
	fixture_assert_filled(base, 2 * SIZE);
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	finish();
}
END_TEST

START_TEST(what_is_mapped_meanwhile_is_there_when_it_wakes)
{
	CUdeviceptr at;

	start();
	at = base + 2 * SIZE;
	foreign_map(at, SIZE, asleep);
	ck_ok(set_access(at, SIZE, 0, RO));
	ck_ok(set_access(at + UNIT, UNIT, 0, RW));
	ck_assert_uint_eq(recorded(at, 0), RO);
	ck_assert_uint_eq(recorded(at + UNIT, 0), RW);
	ck_assert_uint_eq(fixture_sim().mappings, 1);
	foreign_wake();
	ck_assert_uint_eq(foreign_access(at, 0), RO);
	ck_assert_uint_eq(foreign_access(at + UNIT, 0), RW);
	ck_assert_mem_eq((void *)at, (void *)base, SIZE);
	ck_ok(vs_foreign_unmap(base, 3 * SIZE));
	finish();
}
END_TEST

START_TEST(what_is_unmapped_meanwhile_stays_so)
{
	start();
	ck_ok(vs_foreign_unmap(base, SIZE));
	foreign_wake();
	ck_assert_uint_eq(fixture_sim().mappings, 1);
	foreign_map(base, SIZE, asleep);
	foreign_allow(base, SIZE, 0, RO);
	fixture_assert_filled(base, SIZE);
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	finish();
}
END_TEST

/* Both at once, adjacent, one asleep and one not. */
START_TEST(one_call_may_be_about_both)
{
	start();
	ck_ok(set_access(base, 2 * SIZE, 0, RO));
	ck_assert_uint_eq(recorded(base, 0), RO);
	ck_assert_uint_eq(foreign_access(other, 0), RO);
	sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	ck_cu(vs_foreign_unmap(base + UNIT, 2 * SIZE - UNIT),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(sim_injected(), 0);
	sim_fail_clear();
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	ck_assert_uint_eq(fixture_sim().mappings, 0);
	fixture_assert_sound();
	finish();
}
END_TEST

START_TEST(mistakes_are_answered_as_the_driver_does)
{
	CUdeviceptr stranger;

	start();
	ck_cu(vs_foreign_map(base, SIZE, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base, SIZE, 0, awake, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 3 * SIZE, 2 * SIZE, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 2 * SIZE, SIZE, UNIT, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 2 * SIZE, SIZE, 0, asleep, 1),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 2 * SIZE, SIZE - 1, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 2 * SIZE + 1, SIZE, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_map(base + 5 * SIZE, SIZE, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_unmap(base, SIZE - UNIT), CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_unmap(base, 3 * SIZE), CUDA_ERROR_INVALID_VALUE);
	ck_cu(set_access(base, SIZE, 7, RW), CUDA_ERROR_INVALID_DEVICE);
	ck_cu(set_access(base, SIZE, 0, 2), CUDA_ERROR_INVALID_VALUE);
	ck_cu(set_access(base, 3 * SIZE, 0, RW), CUDA_ERROR_INVALID_VALUE);
	ck_cu(vs_foreign_unreserve(base, 4 * SIZE), CUDA_ERROR_INVALID_VALUE);
	stranger = foreign_reserve(SIZE);
	ck_ok(vs_foreign_unreserve(stranger, SIZE));
	ck_cu(vs_foreign_map(stranger, SIZE, 0, asleep, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(recorded(base, 0), RW);
	fixture_assert_sound();
	foreign_wake();
	fixture_assert_filled(base, 2 * SIZE);
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	finish();
}
END_TEST

START_TEST(what_is_created_in_a_sleeping_tag_is_there_at_once)
{
	CUdeviceptr at;
	handle_t fresh;

	start();
	at = foreign_whole("weights", SIZE, &fresh);
	fixture_assert_filled(at, SIZE);
	foreign_wake();
	fixture_assert_filled(at, SIZE);
	fixture_assert_filled(base, SIZE);
	foreign_end(at, SIZE, fresh);
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	finish();
}
END_TEST

#define ATTRIBUTES 15
static const CUpointer_attribute asked[ATTRIBUTES] = {
	CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_MANAGED,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
};

static void ask(CUdeviceptr at, uint64_t out[2 * ATTRIBUTES + 2])
{
	CUpointer_attribute list[ATTRIBUTES];
	void *data[ATTRIBUTES];
	CUresult rc = CUDA_ERROR_UNKNOWN;
	size_t size = 0;
	CUdeviceptr start = 0;
	int i;

	memset(out, 0, (2 * ATTRIBUTES + 2) * sizeof(*out));
	for (i = 0; i < ATTRIBUTES; i++) {
		list[i] = asked[i];
		data[i] = &out[i];
		ck_assert(vs_foreign_attribute(&out[ATTRIBUTES + i], asked[i],
					       at, &rc));
		ck_ok(rc);
	}
	ck_assert(vs_foreign_attributes(ATTRIBUTES, list, data, at, &rc));
	ck_ok(rc);
	ck_assert(vs_foreign_range(&start, &size, at, &rc));
	ck_ok(rc);
	out[2 * ATTRIBUTES] = start;
	out[2 * ATTRIBUTES + 1] = size;
}

/* _i: where: first, middle and last byte. */
START_TEST(questions_are_answered_alike_asleep_and_awake)
{
	static const size_t places[] = { 0, SIZE / 2 + 5, SIZE - 1 };
	uint64_t before[2 * ATTRIBUTES + 2], seen[2 * ATTRIBUTES + 2];
	CUdeviceptr at;
	CUresult rc;
	void *host = &host;

	start();
	at = base + places[_i];
	ask(at, seen);
	foreign_wake();
	ask(at, before);
	ck_assert_mem_eq(seen, before, sizeof(seen));
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	ask(at, seen);
	ck_assert_mem_eq(seen, before, sizeof(seen));
	ck_assert(vs_foreign_attribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
				       at, &rc));
	ck_cu(rc, CUDA_ERROR_INVALID_VALUE);
	ck_assert(!vs_foreign_attribute(NULL, asked[0], at, &rc));
	ck_assert(!vs_foreign_range(NULL, NULL, base + 3 * SIZE, &rc));
	ck_assert(vs_foreign_range(NULL, NULL, at, &rc));
	ck_ok(rc);
	ck_ok(vs_foreign_unmap(base, 2 * SIZE));
	finish();
}
END_TEST

/* Level 1 to 2, and gone for good. */
START_TEST(it_can_be_deepened_and_freed_meanwhile)
{
	start();
	ck_assert_int_eq(fixture_sleep(2, "weights").status, VS_OK);
	ck_assert_uint_eq(fixture_ledger().host_bytes, 0);
	ck_ok(vs_foreign_unmap(base, SIZE));
	ck_ok(vs_foreign_release(asleep));
	ck_assert_ptr_null(foreign_of(asleep));
	ck_assert_uint_eq(fixture_ledger().evicted_bytes, 0);
	asleep = foreign_make("weights", SIZE);
	foreign_wake();
	ck_ok(vs_foreign_unmap(other, SIZE));
	finish();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_other_tag_is_mapped_and_unmapped_as_ever);
	tcase_add_test(tc, what_is_mapped_meanwhile_is_there_when_it_wakes);
	tcase_add_test(tc, what_is_unmapped_meanwhile_stays_so);
	tcase_add_test(tc, one_call_may_be_about_both);
	tcase_add_test(tc, mistakes_are_answered_as_the_driver_does);
	tcase_add_test(tc, what_is_created_in_a_sleeping_tag_is_there_at_once);
	tcase_add_loop_test(tc, questions_are_answered_alike_asleep_and_awake,
			    0, 3);
	tcase_add_test(tc, it_can_be_deepened_and_freed_meanwhile);
}

int main(void)
{
	return fixture_main("foreign-asleep", fill);
}
