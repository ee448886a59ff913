/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted only: each byte once, for as long as it is there. */
#include <config.h>

#include "memory_fixture.h"

#include "memory/unmanaged.h"

#define HANDLE ((CUmemGenericAllocationHandle)0xa0)
#define ADDRESS ((CUdeviceptr)0x7f0000000000)

static void assert_bytes(enum vs_unmanaged_kind kind, size_t bytes)
{
	ck_assert_uint_eq(vs_unmanaged_bytes(kind), bytes);
}

/* _i: the kind. */
START_TEST(what_is_added_is_counted_by_kind_until_it_is_removed)
{
	enum vs_unmanaged_kind kind = (enum vs_unmanaged_kind)_i;
	int other;

	fixture_start("w", "");
	vs_unmanaged_add(kind, ADDRESS, 5000);
	vs_unmanaged_add(kind, ADDRESS + 5000, 70);
	for (other = 0; other < VS_UNMANAGED_KINDS; other++)
		assert_bytes((enum vs_unmanaged_kind)other,
			     other == _i ? 5070 : 0);
	ck_assert_uint_eq(vs_unmanaged_total(), 5070);
	ck_assert_uint_eq(fixture_ledger().unmanaged[kind], 5070);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 5070);
	ck_assert_uint_eq(vs_unmanaged_remove(kind, ADDRESS), 5000);
	assert_bytes(kind, 70);
	ck_assert_uint_eq(vs_unmanaged_remove(kind, ADDRESS), 0);
	ck_assert_uint_eq(vs_unmanaged_remove(kind, ADDRESS + 5000), 70);
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
}
END_TEST

START_TEST(the_same_key_of_two_kinds_is_two_things)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_ARRAY, ADDRESS, 100);
	vs_unmanaged_add(VS_UNMANAGED_POOL, ADDRESS, 10);
	ck_assert_uint_eq(vs_unmanaged_remove(VS_UNMANAGED_NATIVE, ADDRESS),
			  0);
	ck_assert_uint_eq(vs_unmanaged_remove(VS_UNMANAGED_ARRAY, ADDRESS),
			  100);
	assert_bytes(VS_UNMANAGED_POOL, 10);
}
END_TEST

/* Its end was not seen; the driver does not hand out what is in use. */
START_TEST(a_key_that_comes_again_replaces_the_old_one)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_NATIVE, ADDRESS, 100);
	vs_unmanaged_add(VS_UNMANAGED_NATIVE, ADDRESS, 30);
	assert_bytes(VS_UNMANAGED_NATIVE, 30);
	ck_assert_uint_eq(vs_unmanaged_remove(VS_UNMANAGED_NATIVE, ADDRESS),
			  30);
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
}
END_TEST

/* _i: 0 released first, 1 unmapped first. */
START_TEST(created_memory_goes_with_its_handle_and_its_last_mapping)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE, 4096);
	vs_unmanaged_mapped(ADDRESS, HANDLE);
	vs_unmanaged_mapped(ADDRESS + 8192, HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	if (_i)
		vs_unmanaged_unmapped(ADDRESS, 4096);
	else
		vs_unmanaged_released(HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	if (_i)
		vs_unmanaged_unmapped(ADDRESS + 8192, 4096);
	else
		vs_unmanaged_unmapped(ADDRESS, 4096);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	if (_i)
		vs_unmanaged_released(HANDLE);
	else
		vs_unmanaged_unmapped(ADDRESS + 8192, 4096);
	assert_bytes(VS_UNMANAGED_VMM, 0);
}
END_TEST

START_TEST(one_unmap_may_end_several_mappings_and_no_neighbour)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE, 4096);
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE + 1, 100);
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE + 2, 7);
	vs_unmanaged_mapped(ADDRESS, HANDLE);
	vs_unmanaged_mapped(ADDRESS + 4096, HANDLE + 1);
	vs_unmanaged_mapped(ADDRESS + 8192, HANDLE + 2);
	vs_unmanaged_released(HANDLE);
	vs_unmanaged_released(HANDLE + 1);
	vs_unmanaged_released(HANDLE + 2);
	assert_bytes(VS_UNMANAGED_VMM, 4203);
	vs_unmanaged_unmapped(ADDRESS, 8192);
	assert_bytes(VS_UNMANAGED_VMM, 7);
	vs_unmanaged_unmapped(ADDRESS + 8192, 1);
	assert_bytes(VS_UNMANAGED_VMM, 0);
}
END_TEST

/* _i: 1 retained from its mapping when it had been released already. */
START_TEST(a_retained_handle_keeps_its_memory_counted)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE, 4096);
	vs_unmanaged_mapped(ADDRESS, HANDLE);
	if (_i)
		vs_unmanaged_released(HANDLE);
	vs_unmanaged_retained(HANDLE);
	vs_unmanaged_unmapped(ADDRESS, 4096);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	if (!_i)
		vs_unmanaged_released(HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	vs_unmanaged_released(HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 0);
}
END_TEST

START_TEST(a_handles_value_may_come_again_while_its_memory_is_mapped)
{
	fixture_start("w", "");
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE, 4096);
	vs_unmanaged_mapped(ADDRESS, HANDLE);
	vs_unmanaged_released(HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 4096);
	vs_unmanaged_add(VS_UNMANAGED_VMM, HANDLE, 100);
	assert_bytes(VS_UNMANAGED_VMM, 4196);
	vs_unmanaged_unmapped(ADDRESS, 4096);
	assert_bytes(VS_UNMANAGED_VMM, 100);
	vs_unmanaged_released(HANDLE);
	assert_bytes(VS_UNMANAGED_VMM, 0);
}
END_TEST

START_TEST(mappings_of_what_is_not_counted_are_not_either)
{
	fixture_start("w", "");
	vs_unmanaged_mapped(ADDRESS, HANDLE);
	vs_unmanaged_released(HANDLE);
	vs_unmanaged_unmapped(ADDRESS, 4096);
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
}
END_TEST

/* _i: the kind.  What cuMemCreate made belongs to no context. */
START_TEST(a_context_takes_what_was_made_in_it_and_no_more)
{
	enum vs_unmanaged_kind kind = (enum vs_unmanaged_kind)_i;
	CUcontext second;

	fixture_start("w", "");
	vs_unmanaged_add(kind, ADDRESS, 100);
	second = fixture_new_context(0);
	vs_unmanaged_add(kind, ADDRESS + 4096, 7);
	vs_unmanaged_drop_context(second);
	assert_bytes(kind, kind == VS_UNMANAGED_VMM ? 107 : 100);
	vs_unmanaged_drop_context(second);
	ck_assert_uint_eq(vs_unmanaged_remove(kind, ADDRESS), 100);
	vs_unmanaged_drop_context(fixture_context);
	assert_bytes(kind, kind == VS_UNMANAGED_VMM ? 7 : 0);
}
END_TEST

START_TEST(what_could_not_be_freed_is_still_counted)
{
	CUDA_ARRAY_DESCRIPTOR flat = {
		.Width = 64, .Height = 8, .NumChannels = 1,
		.Format = CU_AD_FORMAT_FLOAT,
	};
	CUdeviceptr base;
	CUarray array;

	fixture_start("w", "");
	ck_assert_int_eq(vs_tag_push("", NULL), VS_OK);
	ck_ok(cuMemAllocAsync(&base, 5000, NULL));
	ck_ok(cuArrayCreate_v2(&array, &flat));
	sim_fail("cuMemFreeAsync", 1, CUDA_ERROR_INVALID_CONTEXT);
	sim_fail("cuArrayDestroy", 1, CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuMemFreeAsync(base, NULL), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuArrayDestroy(array), CUDA_ERROR_INVALID_CONTEXT);
	assert_bytes(VS_UNMANAGED_POOL, 5000);
	assert_bytes(VS_UNMANAGED_ARRAY, 64 * 8 * 4);
	ck_cu(cuMemFreeAsync(ADDRESS, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_bytes(VS_UNMANAGED_POOL, 5000);
	ck_ok(cuMemFreeAsync(base, NULL));
	ck_ok(cuArrayDestroy(array));
	ck_assert_uint_eq(vs_unmanaged_total(), 0);
}
END_TEST

START_TEST(each_kind_has_a_word_of_its_own)
{
	int i, k;

	for (i = 0; i < VS_UNMANAGED_KINDS; i++)
		for (k = 0; k < i; k++)
			ck_assert_str_ne(
				vs_unmanaged_word((enum vs_unmanaged_kind)i),
				vs_unmanaged_word((enum vs_unmanaged_kind)k));
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		what_is_added_is_counted_by_kind_until_it_is_removed, 0,
		VS_UNMANAGED_KINDS);
	tcase_add_test(tc, the_same_key_of_two_kinds_is_two_things);
	tcase_add_test(tc, a_key_that_comes_again_replaces_the_old_one);
	tcase_add_loop_test(tc,
		created_memory_goes_with_its_handle_and_its_last_mapping, 0,
		2);
	tcase_add_test(tc,
		one_unmap_may_end_several_mappings_and_no_neighbour);
	tcase_add_loop_test(tc, a_retained_handle_keeps_its_memory_counted, 0,
			    2);
	tcase_add_test(tc,
		a_handles_value_may_come_again_while_its_memory_is_mapped);
	tcase_add_test(tc, mappings_of_what_is_not_counted_are_not_either);
	tcase_add_loop_test(tc, a_context_takes_what_was_made_in_it_and_no_more,
			    0, VS_UNMANAGED_KINDS);
	tcase_add_test(tc, what_could_not_be_freed_is_still_counted);
	tcase_add_test(tc, each_kind_has_a_word_of_its_own);
}

int main(void)
{
	return fixture_main("unmanaged", fill);
}
