/* SPDX-License-Identifier: Apache-2.0 */
/* What other processes ask for memory, and which memory is for others. */
#include <config.h>

#include "memory_fixture.h"

#include "control/lend.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const char *asked(struct vs_lending *lending,
			 const struct vs_lend_words *words, bool lend)
{
	static char out[2048];
	struct vs_text text = { .buf = out, .size = sizeof(out) };

	if (lend)
		vs_lend_answer(lending, words, &text);
	else
		vs_lend_return(lending, words, &text);
	ck_assert(!text.full);
	return out;
}

START_TEST(requests_that_are_wrong_lend_nothing)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	const struct vs_lend_words good = {
		.key = key, .segment = "1", .offset = "0", .allocation = "2",
		.first = "0", .from = "0", .to = "9223372036854775807",
	};
	struct vs_lend_words bad;
	struct vs_lending lending;

	fixture_start("default", "");
	vs_lend_begin(&lending, -1);
	bad = good;
	bad.key = "0123456789ABCDEF0123456789abcdef";
	ck_assert(!strncmp(asked(&lending, &bad, true),
			   "status=bad-request\n", 19));
	bad.key = "00";
	ck_assert(!strncmp(asked(&lending, &bad, false),
			   "status=bad-request\n", 19));
	bad = good;
	bad.segment = NULL;
	ck_assert(!strncmp(asked(&lending, &bad, false),
			   "status=bad-request\n", 19));
	bad = good;
	bad.first = "-1";
	ck_assert(!strncmp(asked(&lending, &bad, true),
			   "status=bad-request\n", 19));
	bad = good;
	bad.offset = "99999999999999999999";
	ck_assert(!strncmp(asked(&lending, &bad, true),
			   "status=bad-request\n", 19));
	ck_assert_ptr_null(lending.peer);
	/* One that cannot be told who it is, and one that is no connection. */
	ck_assert(!strncmp(asked(&lending, &good, true),
			   "status=no-host-memory\n", 22));
	ck_assert(!strncmp(asked(NULL, &good, false),
			   "status=no-host-memory\n", 22));
	lending.peer = vs_ipc_peer_begin(getpid());
	ck_assert(!strncmp(asked(&lending, &good, true), "status=refused\n",
			   15));
	ck_assert(!strncmp(asked(&lending, &good, false), "status=refused\n",
			   15));
	ck_assert_uint_eq(lending.count, 0);
	vs_lend_end(&lending);
}
END_TEST

START_TEST(sizes_are_left_to_the_driver_as_the_setting_says)
{
	fixture_start("default", "");
	ck_assert(!vs_ipc_native(1));
	vs_ipc_configure("native");
	ck_assert(vs_ipc_native(1));
	ck_assert(vs_ipc_native(SIZE_MAX));
	vs_ipc_configure("native:2M");
	ck_assert(!vs_ipc_native(2 * MIB - 1));
	ck_assert(vs_ipc_native(2 * MIB));
	vs_ipc_configure("native:4K-2M");
	ck_assert(vs_ipc_native(4096));
	ck_assert(!vs_ipc_native(2 * MIB + 1));
	vs_ipc_configure("native:9-8");
	ck_assert(!vs_ipc_native(8));
	vs_ipc_configure("nativ");
	ck_assert(!vs_ipc_native(8));
	vs_ipc_configure("auto");
	ck_assert(!vs_ipc_native(8));
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, requests_that_are_wrong_lend_nothing);
	tcase_add_test(tc, sizes_are_left_to_the_driver_as_the_setting_says);
}

int main(void)
{
	return fixture_main("lend", fill);
}
