/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "store_fixture.h"

#include "backup/host_pool.h"
#include "backup/look.h"

#include <string.h>

struct vs_store_item store_items[STORE_ITEMS];
struct vs_store_meter store_meter;
struct vs_context *store_contexts[2];
atomic_size_t store_readied, store_refused;
size_t store_last[2];

const size_t store_sizes[STORE_ITEMS] = {
	40 * MIB, 3 * MIB, 26 * MIB + 64 * KIB, 512, 5 * MIB,
};
const int store_devices[STORE_ITEMS] = { 0, 1, 0, 0, 1 };

void store_set_up(void)
{
	int i;

	fixture_start("default", "");
	vs_look_batch = 3;
	store_contexts[0] = vs_context_pin(fixture_context);
	store_contexts[1] = vs_context_pin(fixture_new_context(1));
	for (i = 0; i < STORE_ITEMS; i++) {
		store_items[i].context = store_contexts[store_devices[i]];
		fixture_current(store_items[i].context->handle);
		ck_ok(vs_real.cuMemAlloc_v2(&store_items[i].base,
					    store_sizes[i]));
		store_items[i].size = store_sizes[i];
		fixture_fill(store_items[i].base, store_sizes[i]);
	}
	fixture_current(NULL);
}

void store_overwrite(void)
{
	int i;

	for (i = 0; i < STORE_ITEMS; i++)
		memset((void *)(uintptr_t)store_items[i].base, 0x33,
		       store_sizes[i]);
}

size_t store_total(void)
{
	size_t sum = 0;
	int i;

	for (i = 0; i < STORE_ITEMS; i++)
		sum += store_sizes[i];
	return sum;
}

void store_drop_all(void)
{
	int i;

	for (i = 0; i < STORE_ITEMS; i++) {
		vs_store_drop(store_items[i].backup);
		store_items[i].backup = NULL;
	}
}

enum vs_status store_save(struct vs_why *why)
{
	memset(&store_meter, 0, sizeof(store_meter));
	return vs_store_save(store_items, STORE_ITEMS, &store_meter, why);
}

void store_save_well(void)
{
	struct vs_why why = { .text = "" };

	ck_assert_msg(store_save(&why) == VS_OK, "%s", why.text);
	ck_assert_uint_eq(store_meter.done, store_total());
	ck_assert_uint_eq(store_meter.copied + store_meter.unchanged +
			  store_meter.zero, store_total());
}

void store_load_well(void)
{
	struct vs_why why = { .text = "" };

	ck_assert_msg(store_load(0, STORE_ITEMS, &why) == VS_OK, "%s",
		      why.text);
}

char *store_at(int item, size_t page)
{
	return (char *)(uintptr_t)store_items[item].base + page * VS_PAGE;
}

void store_assert_loaded(void)
{
	int i;

	for (i = 0; i < STORE_ITEMS; i++)
		fixture_assert_filled(store_items[i].base, store_sizes[i]);
}

static enum vs_status ready(void *arg, size_t index, struct vs_why *why)
{
	const struct vs_store_item *loaded = arg;
	CUdevice device = loaded[index].context->device, now;

	ck_ok(vs_real.cuCtxGetDevice(&now));
	ck_assert_int_eq(now, device);
	ck_assert_uint_lt(store_last[device], index + 1);
	store_last[device] = index + 1;
	atomic_fetch_add(&store_readied, 1);
	if (index + 1 == store_refused)
		return vs_why_set(why, VS_NOMEM, "none");
	return VS_OK;
}

enum vs_status store_load(size_t first, size_t count, struct vs_why *why)
{
	memset(&store_meter, 0, sizeof(store_meter));
	memset(store_last, 0, sizeof(store_last));
	store_readied = 0;
	return vs_store_load(&store_items[first], count, ready,
			     &store_items[first], &store_meter, why);
}

void store_assert_nothing_taken(void)
{
	int i;

	for (i = 0; i < STORE_ITEMS; i++) {
		ck_assert_ptr_null(store_items[i].backup);
		fixture_assert_filled(store_items[i].base, store_sizes[i]);
	}
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(vs_store_bytes(), 0);
	ck_assert_uint_eq(fixture_sim().registered, 0);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
}
