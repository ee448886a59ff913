/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes that compare what came back with what went to sleep. */
#include <config.h>

#include "memory_fixture.h"

#include "backup/backup.h"
#include "base/config.h"
#include "sleep/gate.h"

#include <stdio.h>
#include <string.h>

#define LARGE (17 * MIB)	/* a segment of its own, of nine chunks */
#define SECOND (19 * MIB)	/* likewise, of ten, on the second device */
#define ALL (LARGE + SECOND)

static struct vs_reply reply;
static CUdeviceptr large, second;

/* A bit of this item is wrong once it is loaded; SIZE_MAX: of none. */
static size_t wrong_item = SIZE_MAX;

enum vs_status __real_vs_store_verify(struct vs_store_item *items,
				      size_t count,
				      struct vs_store_meter *meter,
				      struct vs_store_verdict *out,
				      struct vs_why *why);
enum vs_status __wrap_vs_store_verify(struct vs_store_item *items,
				      size_t count,
				      struct vs_store_meter *meter,
				      struct vs_store_verdict *out,
				      struct vs_why *why);
enum vs_status __wrap_vs_store_verify(struct vs_store_item *items,
				      size_t count,
				      struct vs_store_meter *meter,
				      struct vs_store_verdict *out,
				      struct vs_why *why)
{
	char *bytes;

	if (wrong_item < count) {
		bytes = (char *)(uintptr_t)items[wrong_item].base;
		bytes[items[wrong_item].size - 1] ^= 1;
	}
	return __real_vs_store_verify(items, count, meter, out, why);
}

static void start(void)
{
	wrong_item = SIZE_MAX;
	fixture_start("default", "");
	large = fixture_alloc("w", LARGE);
	fixture_new_context(1);
	second = fixture_alloc("v", SECOND);
	fixture_current(fixture_context);
}

static void assert_status(enum vs_status status)
{
	ck_assert_msg(reply.status == status, "%s instead of %s: %s",
		      vs_why_word(reply.status), vs_why_word(status),
		      reply.why.text);
}

static void assert_says(const char *text)
{
	ck_assert_msg(strstr(reply.why.text, text) != NULL,
		      "no \"%s\" in \"%s\"", text, reply.why.text);
}

static void assert_still_asleep(void)
{
	struct vs_ledger l = fixture_ledger();

	ck_assert_int_eq(l.state, VS_ASLEEP);
	ck_assert_uint_eq(l.sequence, 1);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	ck_assert_uint_eq(l.evicted_bytes, ALL);
	ck_assert_uint_eq(l.resident_bytes, 0);
	ck_assert_uint_eq(fixture_sim().handles, 0);
	ck_assert_uint_eq(fixture_sim().mappings, 0);
	fixture_assert_sound();
}

static void sleep_ok(void)
{
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	assert_still_asleep();
	ck_assert_uint_eq(reply.ledger.host_bytes, ALL);
}

static void wake(enum vs_choice verify)
{
	reply = fixture_ask(&(struct vs_request){ .verb = VS_VERB_WAKE,
		.level = 1, .all_tags = true, .verify = verify });
}

static void assert_awake(uint64_t verified, uint64_t unverified)
{
	assert_status(VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(reply.ledger.last.verified_bytes, verified);
	ck_assert_uint_eq(reply.ledger.last.unverified_bytes, unverified);
	fixture_assert_sound();
}

static void assert_filled(void)
{
	fixture_assert_filled(large, LARGE);
	fixture_assert_filled(second, SECOND);
}

/* A byte of the backup of a page of the chunk, in host memory. */
static char *backup_byte(CUdeviceptr base, size_t chunk, size_t page)
{
	const struct vs_backup *b = fixture_segment(base)->chunks[chunk].backup;

	ck_assert_int_eq(b->pages[page].place, VS_PLACE_HOST);
	return b->pages[page].block->base + b->pages[page].index * VS_PAGE +
	       12345;
}

START_TEST(what_is_the_same_is_stated)
{
	start();
	sleep_ok();
	wake(VS_YES);
	assert_awake(ALL, 0);
	ck_assert_uint_eq(reply.ledger.last.copied_bytes, ALL);
	assert_filled();
}
END_TEST

/* _i: the setting.  A request has the last word. */
START_TEST(the_setting_is_for_wakes_that_do_not_say)
{
	start();
	vs_config.verify = _i;
	sleep_ok();
	wake(VS_DEFAULT);
	assert_awake(_i ? ALL : 0, 0);
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	wake(_i ? VS_NO : VS_YES);
	assert_awake(_i ? 0 : ALL, 0);
	assert_filled();
}
END_TEST

/* _i: the device. */
START_TEST(a_wrong_bit_of_a_backup_is_named_and_nothing_wakes)
{
	CUdeviceptr base;
	char text[128], *byte;

	start();
	base = _i ? second : large;
	sleep_ok();
	byte = backup_byte(base, 2, 0);
	*byte ^= 4;
	snprintf(text, sizeof(text), "verify: tag %s, 0x%llx, page 3 of %d",
		 _i ? "v" : "w", base, _i ? 10 : 9);
	wake(VS_YES);
	assert_status(VS_CUDA);
	assert_says(text);
	assert_still_asleep();
	ck_assert_uint_eq(fixture_ledger().host_bytes, ALL);
	wake(VS_NO);
	assert_awake(0, 0);
	((char *)(uintptr_t)base)[2 * VS_PAGE + 12345] ^= 4;
	assert_filled();
}
END_TEST

START_TEST(a_copy_that_went_wrong_can_be_made_again)
{
	start();
	sleep_ok();
	wrong_item = 1;
	wake(VS_YES);
	assert_status(VS_CUDA);
	assert_says("differs from its backup");
	assert_still_asleep();
	wrong_item = SIZE_MAX;
	wake(VS_YES);
	assert_awake(ALL, 0);
	assert_filled();
}
END_TEST

/* _i: 1, it was zero; 2, it was dropped. */
START_TEST(what_must_be_zero_is_looked_at)
{
	start();
	memset((void *)(uintptr_t)large, 0, LARGE);
	memset((void *)(uintptr_t)second, 0, SECOND);
	reply = fixture_ask(&(struct vs_request){ .verb = VS_VERB_SLEEP,
		.level = _i, .all_tags = true, .timeout_ms = 10000,
		.discard_all = _i == 2 });
	assert_status(VS_OK);
	wrong_item = 0;
	wake(VS_YES);
	assert_status(VS_CUDA);
	assert_still_asleep();
	wrong_item = SIZE_MAX;
	wake(VS_YES);
	assert_awake(ALL, 0);
	fixture_assert_zero(large, LARGE);
	fixture_assert_zero(second, SECOND);
}
END_TEST

/* _i: the kernel cannot be had when they go, or when they come.  Each context
 * loads it once. */
START_TEST(what_cannot_be_looked_at_wakes_unverified)
{
	start();
	sim_fail_from("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
	if (_i)
		sim_fail_clear();
	sleep_ok();
	sim_fail_clear();
	if (_i)
		sim_fail_from("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
	wake(VS_YES);
	sim_fail_clear();
	assert_awake(0, ALL);
	assert_filled();
}
END_TEST

static struct {
	char name[64];
	unsigned long calls;
} seen[64];
static int seen_count;

static void see(const char *name, unsigned long calls, void *arg)
{
	(void)arg;
	if (!calls || seen_count == COUNT(seen))
		return;
	snprintf(seen[seen_count].name, sizeof(seen[0].name), "%s", name);
	seen[seen_count++].calls = calls;
}

/* One call of a wake fails, whichever it is. */
static void fail_one(const char *name, unsigned nth)
{
	reply = fixture_sleep(1, NULL);
	assert_status(VS_OK);
	sim_fail(name, nth, CUDA_ERROR_UNKNOWN);
	wake(VS_YES);
	sim_fail_clear();
	if (reply.status) {
		ck_assert_int_eq(fixture_ledger().state, VS_ASLEEP);
		ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
		wake(VS_YES);
	}
	assert_status(VS_OK);
	ck_assert_int_eq(reply.ledger.state, VS_AWAKE);
	assert_filled();
}

START_TEST(no_failure_loses_anything)
{
	unsigned nth;
	int i;

	start();
	sleep_ok();
	sim_calls_reset();
	wake(VS_YES);
	assert_awake(ALL, 0);
	sim_each_call(see, NULL);
	ck_assert_int_gt(seen_count, 5);
	for (i = 0; i < seen_count; i++)
		for (nth = 1; nth <= seen[i].calls; nth++)
			fail_one(seen[i].name, nth);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, what_is_the_same_is_stated);
	tcase_add_loop_test(tc, the_setting_is_for_wakes_that_do_not_say, 0, 2);
	tcase_add_loop_test(tc,
		a_wrong_bit_of_a_backup_is_named_and_nothing_wakes, 0, 2);
	tcase_add_test(tc, a_copy_that_went_wrong_can_be_made_again);
	tcase_add_loop_test(tc, what_must_be_zero_is_looked_at, 1, 3);
	tcase_add_loop_test(tc, what_cannot_be_looked_at_wakes_unverified, 0,
			    2);
	tcase_add_test(tc, no_failure_loses_anything);
}

int main(void)
{
	return fixture_main("verify", fill);
}
