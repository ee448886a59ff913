/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "retain_fixture.h"

#include "backup/host_budget.h"
#include "backup/host_pool.h"
#include "backup/store.h"

#include <stdlib.h>

struct vs_reply retain_reply;
CUdeviceptr retain_some, retain_large;
atomic_bool retain_scarce;
atomic_int retain_looks;
int retain_failed, retain_lost;

bool __wrap_vs_host_budget_scarce(void);
bool __wrap_vs_host_budget_scarce(void)
{
	atomic_fetch_add(&retain_looks, 1);
	return atomic_load(&retain_scarce);
}

enum vs_status __real_vs_store_save(struct vs_store_item *items, size_t count,
				    struct vs_store_meter *meter,
				    struct vs_why *why);
enum vs_status __wrap_vs_store_save(struct vs_store_item *items, size_t count,
				    struct vs_store_meter *meter,
				    struct vs_why *why);
enum vs_status __wrap_vs_store_save(struct vs_store_item *items, size_t count,
				    struct vs_store_meter *meter,
				    struct vs_why *why)
{
	struct vs_backup **were = calloc(count + 1, sizeof(*were));
	enum vs_status st;
	size_t i;

	ck_assert_ptr_nonnull(were);
	for (i = 0; i < count; i++)
		were[i] = items[i].backup;
	st = __real_vs_store_save(items, count, meter, why);
	retain_failed += st != VS_OK;
	for (i = 0; i < count; i++)
		retain_lost += were[i] && items[i].backup != were[i];
	free(were);
	return st;
}

void retain_begin(const char *mode, const char *tags)
{
	setenv("VSLEEP_RETAIN", mode, 1);
	fixture_start("default", tags);
}

void retain_start(const char *mode)
{
	retain_begin(mode, "");
	retain_some = fixture_alloc("w", SOME);
	retain_large = fixture_alloc("w", LARGE);
}

void retain_assert_filled(void)
{
	fixture_assert_filled(retain_some, SOME);
	fixture_assert_filled(retain_large, LARGE);
}

void retain_end(void)
{
	fixture_free(retain_some);
	if (retain_large)
		fixture_free(retain_large);
	fixture_later();
	fixture_assert_empty();
	retain_assert_nothing_held();
}

void retain_sleep(int level, const char *tags)
{
	retain_reply = fixture_sleep(level, tags);
	ck_assert_msg(!retain_reply.status, "%s",
		      retain_reply.why.text);
	fixture_assert_sound();
}

void retain_wake(const char *tags)
{
	retain_reply = fixture_wake(tags);
	ck_assert_msg(!retain_reply.status, "%s",
		      retain_reply.why.text);
	fixture_assert_sound();
}

void retain_tidy_up(void)
{
	retain_wake(NULL);
}

void retain_assert_moved(uint64_t copied, uint64_t unchanged, uint64_t zero)
{
	ck_assert_uint_eq(retain_reply.ledger.last.copied_bytes, copied);
	ck_assert_uint_eq(retain_reply.ledger.last.unchanged_bytes, unchanged);
	ck_assert_uint_eq(retain_reply.ledger.last.zero_bytes, zero);
}

void retain_assert_held(uint64_t held, uint64_t retained)
{
	struct vs_ledger now = fixture_ledger();

	ck_assert_uint_eq(vs_store_bytes(), held);
	ck_assert_uint_eq(now.held_bytes, held);
	ck_assert_uint_eq(now.retained_bytes, retained);
}

void retain_assert_nothing_held(void)
{
	retain_assert_held(0, 0);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
}

uint64_t retain_trim(void)
{
	struct vs_request request = { .verb = VS_VERB_TRIM };

	retain_reply = fixture_ask(&request);
	ck_assert_msg(!retain_reply.status, "%s",
		      retain_reply.why.text);
	ck_assert(retain_reply.trimmed);
	fixture_assert_sound();
	return retain_reply.trimmed_bytes;
}
