/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory is on the host while it sleeps, and where it was after. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_pool.h"
#include "base/config.h"
#include "base/context.h"
#include "memory/managed.h"
#include "memory/unmanaged.h"

#include <stdlib.h>
#include <string.h>

#define PAGE (2 * MIB)		/* that the simulated driver moves */
#define SIZE (4 * PAGE)

static struct vs_reply reply;

static void start(const char *tags)
{
	fixture_start("w", tags);
	vs_managed_piece = PAGE;
}

static CUdeviceptr get(const char *tag, size_t size)
{
	CUdeviceptr base;

	ck_assert_int_eq(vs_tag_push(tag, NULL), VS_OK);
	ck_ok(cuMemAllocManaged(&base, size, CU_MEM_ATTACH_GLOBAL));
	vs_tag_pop(NULL);
	fixture_fill(base, size);
	return base;
}

static void put_on(CUdevice device, CUdeviceptr base, size_t size)
{
	CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
				.id = device };

	ck_ok(cuMemPrefetchAsync_v2(base, size, where, 0, NULL));
	ck_ok(vs_real.cuCtxSynchronize());
}

static void sleep_gives(enum vs_status status, const char *tags, size_t bytes)
{
	reply = fixture_sleep(1, tags);
	ck_assert_msg(reply.status == status, "%s", reply.why.text);
	ck_assert_uint_eq(reply.ledger.last.released_bytes, bytes);
}

static void wake_restores(size_t bytes)
{
	reply = fixture_wake(NULL);
	ck_assert_msg(reply.status == VS_OK, "%s", reply.why.text);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(reply.ledger.last.restored_bytes, bytes);
	ck_assert_uint_eq(reply.ledger.managed_away, 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	fixture_assert_sound();
}

static int attribute(CUdeviceptr base, size_t size, CUmem_range_attribute what)
{
	int value = 0;

	ck_ok(vs_real.cuMemRangeGetAttribute(&value, sizeof(value), what,
					     base, size));
	return value;
}

START_TEST(what_is_on_a_device_leaves_it_and_comes_back)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE);
	put_on(0, base, SIZE);
	ck_assert_uint_eq(sim_used(0), SIZE);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, SIZE);
	sleep_gives(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, 0);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 0);
	ck_assert_uint_eq(reply.ledger.managed_away, SIZE);
	ck_assert_uint_eq(vs_host_pool_taken(), SIZE);
	fixture_assert_filled(base, SIZE);
	wake_restores(SIZE);
	ck_assert_uint_eq(sim_used(0), SIZE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, SIZE);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_is_on_the_host_only_leaves_nothing_partial)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE + 5);
	sleep_gives(VS_OK, NULL, 0);
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 0);
	wake_restores(0);
	ck_assert_uint_eq(sim_used(0), 0);
	fixture_assert_filled(base, SIZE + 5);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_was_on_the_host_stays_there_after_a_wake)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE + 70);
	put_on(0, base + PAGE, 2 * PAGE);
	sleep_gives(VS_OK, NULL, 2 * PAGE);
	wake_restores(2 * PAGE);
	ck_assert_int_eq(attribute(base + PAGE, 2 * PAGE,
			CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), 0);
	ck_assert_int_eq(attribute(base, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION),
			CU_DEVICE_CPU);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(each_device_gets_its_own_back)
{
	CUdeviceptr a, b;

	start("");
	fixture_new_context(1);
	fixture_current(fixture_context);
	a = get("w", PAGE);
	b = get("w", 3 * PAGE);
	put_on(0, a, PAGE);
	put_on(1, b, 3 * PAGE);
	sleep_gives(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(sim_used(0) + sim_used(1), 0);
	wake_restores(SIZE);
	ck_assert_uint_eq(sim_used(0), PAGE);
	ck_assert_uint_eq(sim_used(1), 3 * PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_full_device_gets_back_what_fits_and_no_error)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE);
	put_on(0, base, SIZE);
	sleep_gives(VS_OK, NULL, SIZE);
	sim_limit(0, PAGE + PAGE / 2);
	wake_restores(PAGE);
	ck_assert_uint_eq(sim_used(0), PAGE);
	fixture_assert_filled(base, SIZE);
	sleep_gives(VS_OK, NULL, PAGE);
	sim_limit(0, 256 * MIB);
	wake_restores(PAGE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* _i: how many pieces went before. */
START_TEST(what_the_driver_does_not_move_is_kept_and_said)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE);
	put_on(0, base, SIZE);
	sim_fail("cuMemPrefetchAsync_v2", (unsigned)_i + 1,
		 CUDA_ERROR_UNKNOWN);
	sleep_gives(VS_PARTIAL, NULL, (size_t)_i * PAGE);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes,
			  SIZE - (size_t)_i * PAGE);
	ck_assert_ptr_nonnull(strstr(reply.ledger.last.kept[0].why,
				     "managed memory"));
	ck_assert_uint_eq(sim_used(0), SIZE - (size_t)_i * PAGE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, SIZE);
	ck_assert_int_eq(reply.ledger.state, VS_ASLEEP);
	wake_restores((size_t)_i * PAGE);
	ck_assert_uint_eq(sim_used(0), SIZE);
	fixture_assert_filled(base, SIZE);
	sleep_gives(VS_OK, NULL, SIZE);
	wake_restores(SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(too_little_host_memory_keeps_it)
{
	CUdeviceptr base;

	start("");
	base = get("w", SIZE);
	put_on(0, base, SIZE);
	vs_config.host_limit = 3 * PAGE;
	sleep_gives(VS_PARTIAL, NULL, 3 * PAGE);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, PAGE);
	ck_assert_ptr_nonnull(strstr(reply.ledger.last.kept[0].why,
				     "host memory"));
	wake_restores(3 * PAGE);
	vs_config.host_limit = 0;
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_device_that_moves_nothing_keeps_it)
{
	CUdeviceptr base;

	setenv("VSLEEP_SIM_STILL", "0", 1);
	start("");
	base = get("w", SIZE);
	sleep_gives(VS_PARTIAL, NULL, 0);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, SIZE);
	ck_assert_str_eq(reply.ledger.last.kept[0].why,
			 "its device does not move managed memory when asked "
			 "to");
	ck_assert_uint_eq(sim_used(0), SIZE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, SIZE);
	wake_restores(0);
	fixture_assert_filled(base, SIZE);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(tags_and_policies_apply)
{
	CUdeviceptr w, kept, dropped, untagged;

	start("k=keep,d=discard");
	w = get("w", PAGE);
	kept = get("k", PAGE);
	dropped = get("d", PAGE);
	untagged = get("", PAGE);
	put_on(0, w, PAGE);
	put_on(0, kept, PAGE);
	put_on(0, dropped, PAGE);
	put_on(0, untagged, PAGE);
	sleep_gives(VS_OK, "w", PAGE);
	ck_assert_int_eq(reply.ledger.state, VS_PARTLY);
	sleep_gives(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, PAGE);
	ck_assert_str_eq(reply.ledger.last.kept[0].why, "policy keep");
	ck_assert_uint_eq(reply.ledger.last.lost_bytes, 0);
	/* What stays shows: by the policy, and without a tag. */
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, 2 * PAGE);
	ck_assert_uint_eq(reply.ledger.managed_away, 2 * PAGE);
	ck_assert_uint_eq(sim_used(0), 2 * PAGE);
	wake_restores(2 * PAGE);
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

	start("k=keep");
	kept = get("k", SIZE);
	w = get("w", PAGE);
	put_on(0, kept, SIZE);
	put_on(0, w, PAGE);
	sleep_gives(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(reply.ledger.last.kept_bytes, SIZE);
	ck_assert_uint_eq(reply.ledger.unmanaged_bytes, SIZE);
	ck_assert_uint_eq(sim_used(0), SIZE);
	sleep_gives(VS_OK, NULL, PAGE);
	wake_restores(PAGE);
	ck_assert_uint_eq(sim_used(0), SIZE + PAGE);
	fixture_free(kept);
	fixture_free(w);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_tag_that_has_nothing_else_wakes_by_itself)
{
	CUdeviceptr a, b;

	start("");
	a = get("a", PAGE);
	b = get("b", PAGE);
	put_on(0, a, PAGE);
	put_on(0, b, PAGE);
	sleep_gives(VS_OK, NULL, 2 * PAGE);
	reply = fixture_wake("a");
	ck_assert_int_eq(reply.ledger.state, VS_PARTLY);
	ck_assert_uint_eq(reply.ledger.managed_away, PAGE);
	ck_assert_uint_eq(sim_used(0), PAGE);
	wake_restores(PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

/* _i: 1 the first free fails. */
START_TEST(what_is_freed_asleep_is_gone)
{
	CUdeviceptr a, b;

	start("");
	a = get("w", SIZE);
	b = get("w", PAGE);
	put_on(0, a, SIZE);
	put_on(0, b, PAGE);
	sleep_gives(VS_OK, NULL, SIZE + PAGE);
	if (_i) {
		sim_fail("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN);
		ck_cu(cuMemFree_v2(a), CUDA_ERROR_UNKNOWN);
		ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
		ck_assert_uint_eq(fixture_ledger().managed_away, SIZE + PAGE);
	}
	fixture_free(a);
	ck_assert_uint_eq(fixture_ledger().managed_away, PAGE);
	ck_assert_uint_eq(vs_host_pool_taken(), PAGE);
	wake_restores(PAGE);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_context_takes_its_managed_memory_with_it)
{
	CUdeviceptr mine, base;
	CUcontext context;

	start("");
	mine = get("w", PAGE);
	put_on(0, mine, PAGE);
	ck_ok(cuCtxCreate_v4(&context, NULL, 0, 0));
	base = get("w", SIZE);
	put_on(0, base, SIZE);
	sleep_gives(VS_OK, NULL, SIZE + PAGE);
	ck_ok(cuCtxDestroy_v2(context));
	ck_assert_uint_eq(fixture_ledger().managed_away, PAGE);
	ck_assert_uint_eq(vs_host_pool_taken(), PAGE);
	fixture_current(fixture_context);
	wake_restores(PAGE);
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

	start("");
	base = get("w", SIZE);
	ck_ok(cuMemAdvise_v2(base + PAGE, 2 * PAGE,
			     CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ck_ok(cuMemAdvise_v2(base, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY,
			     device));
	ck_ok(cuMemAdvise_v2(base, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			     device));
	put_on(0, base, SIZE);
	if (_i)
		sim_fail("cuMemAdvise_v2", 2, CUDA_ERROR_UNKNOWN);
	sleep_gives(VS_OK, NULL, SIZE);
	ck_assert_uint_eq(sim_used(0), 0);
	wake_restores(SIZE);
	ck_assert_int_eq(attribute(base + PAGE, 2 * PAGE,
				   CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
	ck_assert_int_eq(attribute(base, PAGE,
				   CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
	ck_assert_int_eq(attribute(base, SIZE,
				   CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), 0);
	ck_assert_int_eq(attribute(base, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
	ck_assert_int_ne(attribute(base + PAGE, PAGE,
			CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

START_TEST(what_came_after_a_sleep_sleeps_with_the_next)
{
	CUdeviceptr a, b;

	start("");
	a = get("w", PAGE);
	put_on(0, a, PAGE);
	reply = fixture_ask(&(struct vs_request){ .verb = VS_VERB_SLEEP,
			.level = 1, .all_tags = true, .timeout_ms = 10000,
			.hold = VS_NO });
	ck_assert_uint_eq(reply.ledger.managed_away, PAGE);
	b = get("w", PAGE);
	put_on(0, b, PAGE);
	sleep_gives(VS_OK, NULL, PAGE);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(reply.ledger.managed_away, 2 * PAGE);
	wake_restores(2 * PAGE);
	fixture_free(a);
	fixture_free(b);
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, what_is_on_a_device_leaves_it_and_comes_back);
	tcase_add_test(tc, what_is_on_the_host_only_leaves_nothing_partial);
	tcase_add_test(tc, what_was_on_the_host_stays_there_after_a_wake);
	tcase_add_test(tc, each_device_gets_its_own_back);
	tcase_add_test(tc, a_full_device_gets_back_what_fits_and_no_error);
	tcase_add_loop_test(tc,
		what_the_driver_does_not_move_is_kept_and_said, 0, 4);
	tcase_add_test(tc, too_little_host_memory_keeps_it);
	tcase_add_test(tc, a_device_that_moves_nothing_keeps_it);
	tcase_add_test(tc, tags_and_policies_apply);
	tcase_add_test(tc, what_stays_by_policy_makes_nothing_partial);
	tcase_add_test(tc, a_tag_that_has_nothing_else_wakes_by_itself);
	tcase_add_loop_test(tc, what_is_freed_asleep_is_gone, 0, 2);
	tcase_add_test(tc, a_context_takes_its_managed_memory_with_it);
	tcase_add_loop_test(tc, advice_stays_as_it_was, 0, 2);
	tcase_add_test(tc, what_came_after_a_sleep_sleeps_with_the_next);
}

int main(void)
{
	return fixture_main("managed", fill);
}
