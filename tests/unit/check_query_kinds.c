/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about memory of pools and what the program maps itself: when they
 * meet a sleep, which ids they give, and what keeps the memory awake. */
#include <config.h>

#include "pool_fixture.h"

#include "memory/query.h"

#include <string.h>

#define BUFFER CU_POINTER_ATTRIBUTE_BUFFER_ID
#define BLOCK CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID
#define SYNC CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
#define TOKENS CU_POINTER_ATTRIBUTE_P2P_TOKENS
#define FLAGS CU_POINTER_ATTRIBUTE_ACCESS_FLAGS
#define DMA_BUF CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define LAST 21		/* attributes are numbered from 1 */
#define SIZE (3 * MIB)

typedef CUmemGenericAllocationHandle handle_t;

static handle_t create(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	handle_t handle = 0;

	ck_ok(cuMemCreate(&handle, SIZE, &prop, 0));
	return handle;
}

static CUdeviceptr reserve(void)
{
	CUdeviceptr at = 0;

	ck_ok(cuMemAddressReserve(&at, 2 * SIZE, 0, 0, 0));
	return at;
}

static void map(CUdeviceptr at, handle_t handle)
{
	CUmemAccessDesc access = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	ck_ok(cuMemMap(at, SIZE, 0, handle, 0));
	ck_ok(cuMemSetAccess(at, SIZE, &access, 1));
}

static CUdeviceptr map_new(handle_t handle)
{
	CUdeviceptr at = reserve();

	map(at, handle);
	return at;
}

enum kind { PLAIN, SMALL, POOLED, MAPPED, KINDS };

static CUdeviceptr base;
static size_t size;

static void start(int kind)
{
	pool_start();
	size = kind == SMALL ? 5000 : SIZE;
	if (kind == POOLED)
		base = pool_alloc(size, one);
	else if (kind == MAPPED)
		base = map_new(create());
	else
		base = fixture_alloc("w", size);
	ck_ok(vs_real.cuCtxSynchronize());
	fixture_fill(base, size);
}

/* ---- while it is asked it goes, or goes and comes ----------------------- */

static __typeof__(vs_real.cuPointerGetAttribute) real_one;
static __typeof__(vs_real.cuPointerGetAttributes) real_all;
static __typeof__(vs_real.cuMemGetAddressRange_v2) real_range;
static __typeof__(vs_real.cuMemGetAccess) real_access;
static bool armed, and_back;

static void meanwhile(void)
{
	if (!armed)
		return;
	armed = false;
	ck_assert_int_eq(fixture_sleep(1, NULL).status, VS_OK);
	if (and_back)
		ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

static CUresult late_one(void *data, CUpointer_attribute a, CUdeviceptr at)
{
	meanwhile();
	return real_one(data, a, at);
}

static CUresult late_all(unsigned n, CUpointer_attribute *a, void **data,
			 CUdeviceptr at)
{
	meanwhile();
	return real_all(n, a, data, at);
}

static CUresult late_range(CUdeviceptr *out, size_t *length, CUdeviceptr at)
{
	meanwhile();
	return real_range(out, length, at);
}

static CUresult late_access(unsigned long long *flags,
			    const CUmemLocation *where, CUdeviceptr at)
{
	meanwhile();
	return real_access(flags, where, at);
}

static void be_late(bool back)
{
	real_one = vs_real.cuPointerGetAttribute;
	real_all = vs_real.cuPointerGetAttributes;
	real_range = vs_real.cuMemGetAddressRange_v2;
	real_access = vs_real.cuMemGetAccess;
	vs_real.cuPointerGetAttribute = late_one;
	vs_real.cuPointerGetAttributes = late_all;
	vs_real.cuMemGetAddressRange_v2 = late_range;
	vs_real.cuMemGetAccess = late_access;
	and_back = back;
}

static void awake_again(void)
{
	armed = false;
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

static CUresult one_of(int a, CUdeviceptr at, uint64_t *value)
{
	*value = 0;
	return cuPointerGetAttribute(value, (CUpointer_attribute)a, at);
}

static CUresult all_of(CUdeviceptr at, uint64_t *values)
{
	CUpointer_attribute list[LAST];
	void *data[LAST];
	unsigned n = 0;
	int a;

	memset(values, 0, (LAST + 1) * sizeof(*values));
	for (a = 1; a <= LAST; a++) {
		if (a == TOKENS)
			continue;
		data[n] = &values[a];
		list[n++] = (CUpointer_attribute)a;
	}
	return cuPointerGetAttributes(n, list, data, at);
}

/* _i: kind, and whether it comes back. */
START_TEST(an_answer_is_right_although_a_sleep_meets_the_question)
{
	uint64_t value, first[LAST + 1], again[LAST + 1];
	CUresult rc;
	int a;

	start(_i % KINDS);
	ck_ok(all_of(base + 1, first));
	be_late(_i / KINDS);
	for (a = 1; a <= LAST; a++) {
		if (a == TOKENS)
			continue;
		rc = one_of(a, base + 1, &value);
		armed = true;
		ck_cu(one_of(a, base + 1, &value), rc);
		ck_assert_msg(rc || value == first[a], "attribute %d: 0x%llx, "
			      "was 0x%llx", a, (unsigned long long)value,
			      (unsigned long long)first[a]);
		awake_again();
	}
	armed = true;
	ck_ok(all_of(base + 1, again));
	ck_assert_mem_eq(again, first, sizeof(first));
	awake_again();
	fixture_assert_filled(base, size);
}
END_TEST

/* _i: kind, and whether it comes back. */
START_TEST(the_range_is_right_although_a_sleep_meets_the_question)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	unsigned long long flags = 0;
	CUdeviceptr found = 0;
	size_t length = 0;

	start(_i % KINDS);
	be_late(_i / KINDS);
	armed = true;
	ck_ok(cuMemGetAddressRange_v2(&found, &length, base + size - 1));
	ck_assert_uint_eq(found, base);
	ck_assert_uint_eq(length, size);
	awake_again();
	armed = true;
	ck_cu(cuMemGetAccess(&flags, &here, base), _i % KINDS == MAPPED ?
	      CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	if (_i % KINDS == MAPPED)
		ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	awake_again();
	fixture_assert_filled(base, size);
}
END_TEST

/* ---- ids ---------------------------------------------------------------- */

static uint64_t id_of(CUpointer_attribute which, CUdeviceptr at)
{
	uint64_t alone = 0, together = 0;
	void *data[] = { &together };

	ck_ok(cuPointerGetAttribute(&alone, which, at));
	ck_ok(cuPointerGetAttributes(1, &which, data, at));
	ck_assert_uint_ne(alone, 0);
	ck_assert_uint_eq(alone, together);
	return alone;
}

/* The program runs on, so that it can map meanwhile. */
static void sleeps(void)
{
	const struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
		.timeout_ms = 10000, .hold = VS_NO,
	};

	ck_assert_int_eq(fixture_ask(&request).status, VS_OK);
}

static void wakes(void)
{
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

/* _i: kind. */
START_TEST(ids_stay_what_they_are)
{
	uint64_t buffer, block;
	int i;

	start(_i);
	buffer = id_of(BUFFER, base);
	block = id_of(BLOCK, base);
	for (i = 0; i < 6; i++) {
		ck_assert_uint_eq(id_of(BUFFER, base + size - 1), buffer);
		ck_assert_uint_eq(id_of(BLOCK, base + size - 1), block);
		if (i % 2)
			wakes();
		else
			sleeps();
	}
}
END_TEST

START_TEST(mappings_of_one_memory_have_one_block_whenever_they_are_made)
{
	handle_t handle, other;
	CUdeviceptr at[4];
	uint64_t block;
	int i;

	pool_start();
	handle = create();
	other = create();
	at[0] = map_new(handle);
	block = id_of(BLOCK, at[0]);
	at[1] = reserve();
	sleeps();
	map(at[1], handle);
	wakes();
	at[2] = map_new(handle);
	sleeps();
	wakes();
	at[3] = map_new(handle);
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(id_of(BLOCK, at[i]), block);
	ck_assert_uint_ne(id_of(BLOCK, map_new(other)), block);
}
END_TEST

START_TEST(an_id_that_was_given_while_asleep_is_for_good)
{
	CUdeviceptr at[2], later;
	uint64_t ids[2], block;
	handle_t handle;

	pool_start();
	handle = create();
	at[0] = reserve();
	at[1] = reserve();
	later = reserve();
	sleeps();
	map(at[0], handle);
	map(at[1], handle);
	ids[0] = id_of(BUFFER, at[0]);
	ids[1] = id_of(BUFFER, at[1]);
	block = id_of(BLOCK, at[0]);
	ck_assert_uint_ne(ids[0], ids[1]);
	ck_assert_uint_eq(id_of(BLOCK, at[1]), block);
	wakes();
	ck_assert_uint_eq(id_of(BUFFER, at[0]), ids[0]);
	ck_assert_uint_eq(id_of(BUFFER, at[1]), ids[1]);
	map(later, handle);
	ck_assert_uint_eq(id_of(BLOCK, later), block);
	ck_assert_uint_ne(id_of(BUFFER, later), ids[0]);
	ck_assert_uint_ne(id_of(BUFFER, later), ids[1]);
	ck_assert_uint_eq(id_of(BLOCK, at[1]), block);
}
END_TEST

/* A mapping at the same place is another one. */
START_TEST(what_is_mapped_anew_has_a_new_id)
{
	handle_t handle;
	uint64_t first;
	int i;

	pool_start();
	handle = create();
	base = map_new(handle);
	for (i = 0; i < 2; i++) {
		first = id_of(BUFFER, base);
		sleeps();
		ck_ok(cuMemUnmap(base, SIZE));
		map(base, handle);
		ck_assert_uint_ne(id_of(BUFFER, base), first);
		wakes();
		ck_assert_uint_ne(id_of(BUFFER, base), first);
	}
}
END_TEST

/* ---- pools -------------------------------------------------------------- */

static unsigned flags_of(CUdeviceptr at)
{
	unsigned flags = 77;

	ck_ok(cuPointerGetAttribute(&flags, FLAGS, at));
	return flags;
}

/* As the driver says of memory of the same pool that is its own. */
static void assert_flags(CUdeviceptr native, unsigned expected)
{
	unsigned theirs = 77;

	ck_ok(vs_real.cuPointerGetAttribute(&theirs, FLAGS, native));
	ck_assert_uint_eq(theirs, expected);
	ck_assert_uint_eq(flags_of(base), expected);
}

START_TEST(access_to_memory_of_a_pool_is_the_pools)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READ,
	};
	CUdeviceptr native;

	start(POOLED);
	ck_ok(vs_real.cuMemAllocAsync(&native, SIZE, one));
	assert_flags(native, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	fixture_new_context(1);
	assert_flags(native, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ck_ok(vs_real.cuMemPoolSetAccess(pool_default(), &access, 1));
	assert_flags(native, CU_MEM_ACCESS_FLAGS_PROT_READ);
	sleeps();
	assert_flags(native, CU_MEM_ACCESS_FLAGS_PROT_READ);
	fixture_current(fixture_context);
	assert_flags(native, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	wakes();
}
END_TEST

static CUresult given;

static CUresult give_handle(void *handle, CUdeviceptr at, size_t length,
			    CUmemRangeHandleType type,
			    unsigned long long flags)
{
	(void)at;
	(void)length;
	(void)type;
	(void)flags;
	if (!given)
		*(int *)handle = 77;
	return given;
}

static CUresult give_tokens(void *data, CUpointer_attribute attribute,
			    CUdeviceptr at)
{
	return attribute == TOKENS ? give_handle(data, at, 0, DMA_BUF, 0) :
	       real_one(data, attribute, at);
}

static CUresult make_known(int way)
{
	uint64_t tokens[2];
	unsigned on = 1;
	int fd;

	if (way == 0)
		return cuMemGetHandleForAddressRange(&fd, base, size, DMA_BUF,
						     0);
	if (way == 1)
		return cuPointerGetAttribute(tokens, TOKENS, base + 1);
	return cuPointerSetAttribute(&on, SYNC, base + 1);
}

static void give(CUresult rc)
{
	real_one = vs_real.cuPointerGetAttribute;
	vs_real.cuPointerGetAttribute = give_tokens;
	vs_real.cuMemGetHandleForAddressRange = give_handle;
	given = rc;
}

/* _i: the way, and whether the driver refuses. */
START_TEST(memory_of_a_pool_that_others_may_know_stays)
{
	static const char *const reasons[] = {
		"a dma-buf was made of it", "P2P tokens were asked for",
		"SYNC_MEMOPS was set",
	};
	bool refused = _i / 3;
	struct vs_reply reply;

	start(POOLED);
	give(refused ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
	if (refused)
		sim_fail("cuCtxSetFlags", 1, CUDA_ERROR_NOT_SUPPORTED);
	ck_cu(make_known(_i % 3), given);
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, refused ? VS_OK : VS_PARTIAL);
	if (!refused)
		ck_assert_str_eq(reply.ledger.last.kept[0].why,
				 reasons[_i % 3]);
	wakes();
	fixture_assert_filled(base, size);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		an_answer_is_right_although_a_sleep_meets_the_question, 0,
		2 * KINDS);
	tcase_add_loop_test(tc,
		the_range_is_right_although_a_sleep_meets_the_question, 0,
		2 * KINDS);
	tcase_add_loop_test(tc, ids_stay_what_they_are, 0, KINDS);
	tcase_add_test(tc,
		mappings_of_one_memory_have_one_block_whenever_they_are_made);
	tcase_add_test(tc, an_id_that_was_given_while_asleep_is_for_good);
	tcase_add_test(tc, what_is_mapped_anew_has_a_new_id);
	tcase_add_test(tc, access_to_memory_of_a_pool_is_the_pools);
	tcase_add_loop_test(tc, memory_of_a_pool_that_others_may_know_stays,
			    0, 6);
}

int main(void)
{
	return fixture_main("query_kinds", fill);
}
