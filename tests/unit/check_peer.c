/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/config.h"
#include "base/context.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/peer.h"
#include "sleep/gate.h"
#include "sleep/transition.h"

#include <stdlib.h>
#include <string.h>

#define SMALL ((size_t)70000)
#define LARGE ((size_t)17 << 20)

static CUcontext contexts[2];
static unsigned char there[256];

static void note(int device)
{
	ck_assert_int_eq(vs_real.cuCtxCreate_v4(&contexts[device], NULL, 0,
						device), 0);
	if (vs_context_note(contexts[device]))
		vs_peer_context(contexts[device]);
}

static void set_up(void)
{
	struct vs_why why;

	setenv("VSLEEP_SIM_DEVICES", "2", 1);
	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	ck_assert(vs_driver_load());
	ck_assert_int_eq(vs_real.cuInit(0), 0);
	vs_config_read();
	vs_tag_init("default", "");
	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
	note(0);
}

static CUdeviceptr get(int device, size_t size, int byte)
{
	CUdeviceptr base;

	ck_assert_int_eq(vs_real.cuCtxSetCurrent(contexts[device]), 0);
	ck_assert_int_eq(vs_allocator_alloc(&base, size), 0);
	memset((void *)(uintptr_t)base, byte, size);
	return base;
}

/* What a copy made by the other device sees of the last bytes. */
static void see(int device, CUdeviceptr base, size_t size, int byte)
{
	size_t i;

	memset(there, 0, sizeof(there));
	ck_assert_int_eq(vs_real.cuCtxSetCurrent(contexts[device]), 0);
	ck_assert_int_eq(vs_real.cuMemcpyDtoH_v2(there,
				base + size - sizeof(there), sizeof(there)),
			 0);
	for (i = 0; i < sizeof(there); i++)
		ck_assert_int_eq(there[i], byte);
}

static void cycle(void)
{
	struct vs_request r = {
		.level = 1, .all_tags = true, .timeout_ms = 5000,
	};
	struct vs_transition t;
	struct vs_why why;

	memset(&t, 0, sizeof(t));
	r.verb = VS_VERB_SLEEP;
	ck_assert_int_eq(vs_transition_sleep(&r, &t, &why), VS_OK);
	ck_assert_uint_eq(sim_used(0) + sim_used(1), 0);
	r.verb = VS_VERB_WAKE;
	memset(&t, 0, sizeof(t));
	ck_assert_int_eq(vs_transition_wake(&r, &t, &why), VS_OK);
	vs_transition_clean_up();
}

START_TEST(memory_from_before_the_second_device_is_reached_by_it)
{
	CUdeviceptr small = get(0, SMALL, 1), large = get(0, LARGE, 2);

	note(1);
	see(1, small, SMALL, 1);
	see(1, large, LARGE, 2);
}
END_TEST

START_TEST(memory_from_after_it_is_reached_both_ways)
{
	CUdeviceptr small, large;

	note(1);
	small = get(1, SMALL, 3);
	large = get(0, LARGE, 4);
	see(0, small, SMALL, 3);
	see(1, large, LARGE, 4);
}
END_TEST

START_TEST(a_cycle_gives_the_same_access_again)
{
	CUdeviceptr small = get(0, SMALL, 5), large = get(0, LARGE, 6);

	note(1);
	cycle();
	see(1, small, SMALL, 5);
	see(1, large, LARGE, 6);
}
END_TEST

static void fill(TCase *tests)
{
	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests,
		       memory_from_before_the_second_device_is_reached_by_it);
	tcase_add_test(tests, memory_from_after_it_is_reached_both_ways);
	tcase_add_test(tests, a_cycle_gives_the_same_access_again);
}

int main(void)
{
	return fixture_main("peer", fill);
}
