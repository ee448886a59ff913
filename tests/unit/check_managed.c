/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory is on the host while it sleeps, and is what it was after. */
#include <config.h>

#include "managed_fixture.h"

#include "backup/host_pool.h"
#include "base/config.h"

#include <stdlib.h>
#include <string.h>

START_TEST(what_is_on_a_device_leaves_it_and_comes_back)
{
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	ck_assert_uint_eq(managed_held(0), SIZE);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, SIZE);
	managed_sleep(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(managed_held(0), 0);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes, 0);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, 0);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, SIZE);
	ck_assert_uint_eq(vs_host_pool_taken(), SIZE);
	fixture_assert_filled(base, SIZE);
	managed_wake(SIZE);
	ck_assert_uint_eq(managed_held(0), SIZE);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, SIZE);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_is_on_the_host_only_leaves_nothing_partial)
{
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE + 5);
	managed_sleep(VS_OK, NULL, 0);
	ck_assert_int_eq(managed_reply.ledger.state, VS_ASLEEP);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, 0);
	managed_wake(0);
	ck_assert_uint_eq(managed_held(0), 0);
	fixture_assert_filled(base, SIZE + 5);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: how many pieces went before. */
START_TEST(what_the_driver_does_not_move_is_kept_and_said)
{
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	sim_fail("cuMemPrefetchAsync_v2", (unsigned)_i + 1,
		 CUDA_ERROR_UNKNOWN);
	managed_sleep(VS_PARTIAL, NULL, (size_t)_i * PAGE);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes,
			  SIZE - (size_t)_i * PAGE);
	ck_assert_ptr_nonnull(strstr(managed_reply.ledger.last.kept[0].why,
				     "managed memory"));
	ck_assert_uint_eq(managed_held(0), SIZE - (size_t)_i * PAGE);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, SIZE);
	ck_assert_int_eq(managed_reply.ledger.state, VS_ASLEEP);
	managed_wake((size_t)_i * PAGE);
	ck_assert_uint_eq(managed_held(0), SIZE);
	fixture_assert_filled(base, SIZE);
	managed_put_on(0, base, SIZE);
	managed_sleep(VS_OK, NULL, SIZE);
	managed_wake(SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(too_little_host_memory_keeps_it)
{
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	vs_config.host_limit = 3 * PAGE;
	managed_sleep(VS_PARTIAL, NULL, 3 * PAGE);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes, PAGE);
	ck_assert_ptr_nonnull(strstr(managed_reply.ledger.last.kept[0].why,
				     "host memory"));
	managed_wake(3 * PAGE);
	vs_config.host_limit = 0;
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_device_that_moves_nothing_keeps_it)
{
	CUdeviceptr base;

	setenv("VSLEEP_SIM_STILL", "0", 1);
	managed_start("");
	base = managed_get("w", SIZE);
	managed_sleep(VS_PARTIAL, NULL, 0);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes, SIZE);
	ck_assert_str_eq(managed_reply.ledger.last.kept[0].why,
			 "its device does not move managed memory when asked "
			 "to");
	ck_assert_uint_eq(managed_held(0), SIZE);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, SIZE);
	managed_wake(0);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(tags_and_policies_apply)
{
	CUdeviceptr w, kept, dropped, untagged;

	managed_start("k=keep,d=discard");
	w = managed_get("w", PAGE);
	kept = managed_get("k", PAGE);
	dropped = managed_get("d", PAGE);
	untagged = managed_get("", PAGE);
	managed_put_on(0, w, PAGE);
	managed_put_on(0, kept, PAGE);
	managed_put_on(0, dropped, PAGE);
	managed_put_on(0, untagged, PAGE);
	managed_sleep(VS_OK, "w", PAGE);
	ck_assert_int_eq(managed_reply.ledger.state, VS_PARTLY);
	managed_sleep(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes, PAGE);
	ck_assert_str_eq(managed_reply.ledger.last.kept[0].why, "policy keep");
	ck_assert_uint_eq(managed_reply.ledger.last.lost_bytes, 0);
	/* What stays shows: by the policy, and without a tag. */
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, 2 * PAGE);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, 2 * PAGE);
	ck_assert_uint_eq(managed_held(0), 2 * PAGE);
	managed_wake(2 * PAGE);
	fixture_assert_filled(dropped, PAGE);
	fixture_free(w);
	fixture_free(kept);
	fixture_free(dropped);
	fixture_free(untagged);
	fixture_assert_empty();
}
END_TEST

/* However little there is besides. */
START_TEST(what_stays_by_policy_makes_nothing_partial)
{
	CUdeviceptr kept, w;

	managed_start("k=keep");
	kept = managed_get("k", SIZE);
	w = managed_get("w", PAGE);
	managed_put_on(0, kept, SIZE);
	managed_put_on(0, w, PAGE);
	managed_sleep(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(managed_reply.ledger.last.kept_bytes, SIZE);
	ck_assert_uint_eq(managed_reply.ledger.unmanaged_bytes, SIZE);
	ck_assert_uint_eq(managed_held(0), SIZE);
	managed_sleep(VS_OK, NULL, PAGE);
	managed_wake(PAGE);
	ck_assert_uint_eq(managed_held(0), SIZE + PAGE);
	fixture_free(kept);
	fixture_free(w);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_tag_that_has_nothing_else_wakes_by_itself)
{
	CUdeviceptr a, b;

	managed_start("");
	a = managed_get("a", PAGE);
	b = managed_get("b", PAGE);
	managed_put_on(0, a, PAGE);
	managed_put_on(0, b, PAGE);
	managed_sleep(VS_OK, NULL, 2 * PAGE);
	managed_reply = fixture_wake("a");
	ck_assert_int_eq(managed_reply.ledger.state, VS_PARTLY);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, PAGE);
	ck_assert_uint_eq(managed_held(0), PAGE);
	managed_wake(PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 the first free fails. */
START_TEST(what_is_freed_asleep_is_gone)
{
	CUdeviceptr a, b;

	managed_start("");
	a = managed_get("w", SIZE);
	b = managed_get("w", PAGE);
	managed_put_on(0, a, SIZE);
	managed_put_on(0, b, PAGE);
	managed_sleep(VS_OK, NULL, SIZE + PAGE);
	if (_i) {
		sim_fail("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN);
		ck_cu(cuMemFree_v2(a), CUDA_ERROR_UNKNOWN);
		ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
		ck_assert_uint_eq(fixture_ledger().managed_away, SIZE + PAGE);
	}
	fixture_free(a);
	ck_assert_uint_eq(fixture_ledger().managed_away, PAGE);
	ck_assert_uint_eq(vs_host_pool_taken(), PAGE);
	managed_wake(PAGE);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_context_takes_its_managed_memory_with_it)
{
	CUdeviceptr mine, base;
	CUcontext context;

	managed_start("");
	mine = managed_get("w", PAGE);
	managed_put_on(0, mine, PAGE);
	ck_ok(cuCtxCreate_v4(&context, NULL, 0, 0));
	base = managed_get("w", SIZE);
	managed_put_on(0, base, SIZE);
	managed_sleep(VS_OK, NULL, SIZE + PAGE);
	ck_ok(cuCtxDestroy_v2(context));
	ck_assert_uint_eq(fixture_ledger().managed_away, PAGE);
	ck_assert_uint_eq(vs_host_pool_taken(), PAGE);
	fixture_current(fixture_context);
	managed_wake(PAGE);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, PAGE);
	fixture_free(mine);
	fixture_assert_empty();
}
END_TEST

/* _i: the call that renews the advice fails so often. */
START_TEST(advice_stays_as_it_was)
{
	const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUdeviceptr base;

	managed_start("");
	base = managed_get("w", SIZE);
	ck_ok(cuMemAdvise_v2(base + PAGE, 2 * PAGE,
			     CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ck_ok(cuMemAdvise_v2(base, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY,
			     device));
	ck_ok(cuMemAdvise_v2(base, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			     device));
	managed_put_on(0, base, SIZE);
	if (_i)
		sim_fail("cuMemAdvise_v2", 2, CUDA_ERROR_UNKNOWN);
	managed_sleep(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(managed_held(0), 0);
	managed_wake(SIZE);
	ck_assert_int_eq(managed_attribute(base + PAGE, 2 * PAGE,
				   CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
	ck_assert_int_eq(managed_attribute(base, PAGE,
				   CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
	ck_assert_int_eq(managed_attribute(base, SIZE,
				   CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), 0);
	ck_assert_int_eq(managed_attribute(base, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
	ck_assert_int_ne(managed_attribute(base + PAGE, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_came_after_a_sleep_sleeps_with_the_next)
{
	CUdeviceptr a, b;

	managed_start("");
	a = managed_get("w", PAGE);
	managed_put_on(0, a, PAGE);
	managed_reply = fixture_ask(&(struct vs_request){ .verb = VS_VERB_SLEEP,
			.level = 1, .all_tags = true, .timeout_ms = 10000,
			.hold = VS_NO });
	ck_assert_uint_eq(managed_reply.ledger.managed_away, PAGE);
	b = managed_get("w", PAGE);
	managed_put_on(0, b, PAGE);
	managed_sleep(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(managed_held(0), 0);
	ck_assert_uint_eq(managed_reply.ledger.managed_away, 2 * PAGE);
	managed_wake(2 * PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_is_on_a_device_leaves_it_and_comes_back);
	tcase_add_test(tc, what_is_on_the_host_only_leaves_nothing_partial);
	tcase_add_loop_test(tc, what_the_driver_does_not_move_is_kept_and_said,
			    0, 4);
	tcase_add_test(tc, too_little_host_memory_keeps_it);
	tcase_add_test(tc, a_device_that_moves_nothing_keeps_it);
	tcase_add_test(tc, tags_and_policies_apply);
	tcase_add_test(tc, what_stays_by_policy_makes_nothing_partial);
	tcase_add_test(tc, a_tag_that_has_nothing_else_wakes_by_itself);
	tcase_add_loop_test(tc, what_is_freed_asleep_is_gone,
			    0, 2);
	tcase_add_test(tc, a_context_takes_its_managed_memory_with_it);
	tcase_add_loop_test(tc, advice_stays_as_it_was,
			    0, 2);
	tcase_add_test(tc, what_came_after_a_sleep_sleeps_with_the_next);
}

int main(void)
{
	return fixture_main("managed", fill);
}
