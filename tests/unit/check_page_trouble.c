/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "page_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPANS 5

static struct vs_page_span spans[SPANS];
static struct vs_page_sum sums[SPANS];
static struct vs_why why;

static void set_up(void)
{
	CUdeviceptr base;
	size_t i;

	fixture_start("default", "");
	page_use(fixture_context);
	base = page_alloc(SPANS);
	for (i = 0; i < SPANS; i++) {
		spans[i].base = base + i * VS_PAGE;
		spans[i].size = 1 + i * 70001;
	}
}

/* In rounds of two; the sums are right if it succeeds. */
static enum vs_status live(void)
{
	struct vs_page_hash *hash;
	enum vs_status st;
	size_t i, n;

	memset(sums, 0, sizeof(sums));
	why.text[0] = '\0';
	st = vs_page_hash_open(page_context, 2, &hash, &why);
	if (st)
		return st;
	for (i = 0; !st && i < SPANS; i += n) {
		n = SPANS - i < 2 ? SPANS - i : 2;
		st = page_run(hash, spans + i, n, sums + i, &why);
	}
	vs_page_hash_close(hash);
	if (!st)
		page_assert_sums(spans, sums, SPANS);
	return st;
}

static void assert_nothing_left(void)
{
	ck_assert_uint_eq(fixture_sim().allocations, 1);
	ck_assert_uint_eq(fixture_sim().invalid, 0);
	ck_ok(vs_real.cuStreamQuery(page_stream));
}

static const struct {
	const char *name;
	unsigned calls;			/* in one life */
	enum vs_status without;		/* memory; else VS_CUDA */
} calls[] = {
	{ "cuModuleLoadData", 1, VS_NOMEM },
	{ "cuModuleGetFunction", 1, VS_NOMEM },
	{ "cuModuleGetGlobal_v2", 1, VS_NOMEM },
	{ "cuMemHostAlloc", 1, VS_NOHOST },
	{ "cuMemcpyHtoDAsync_v2", 3, VS_NOMEM },
	{ "cuLaunchKernel", 3, VS_NOMEM },
	{ "cuStreamSynchronize", 3, VS_CUDA },
};

static void known(const char *name, unsigned long made, void *arg)
{
	int i, *seen = arg;

	for (i = 0; i < COUNT(calls); i++)
		if (!strcmp(name, calls[i].name)) {
			ck_assert_uint_eq(made, calls[i].calls);
			++*seen;
			return;
		}
	ck_assert_msg(!made || !strcmp(name, "cuMemFreeHost"),
		      "%s is not failed", name);
}

/* So that none is left out below. */
START_TEST(no_other_call_is_made)
{
	int seen = 0;

	set_up();
	sim_calls_reset();
	ck_assert_int_eq(live(), VS_OK);
	sim_each_call(known, &seen);
	ck_assert_int_eq(seen, COUNT(calls));
}
END_TEST

/* _i: the call that fails; the life after it is whole. */
START_TEST(a_call_that_fails_is_said_and_leaves_nothing)
{
	static const CUresult codes[] = {
		CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
	};
	unsigned nth;
	int i;

	set_up();
	for (nth = 1; nth <= calls[_i].calls; nth++)
		for (i = 0; i < COUNT(codes); i++) {
			page_context->page_hash = NULL;
			sim_fail(calls[_i].name, nth, (int)codes[i]);
			ck_assert_int_eq(live(), i ? VS_CUDA :
						 calls[_i].without);
			ck_assert_ptr_nonnull(strstr(why.text, "on device 0"));
			ck_assert_ptr_nonnull(strstr(why.text, i ? "(1)" :
								   "(2)"));
			assert_nothing_left();
			sim_fail_clear();
			ck_assert_int_eq(live(), VS_OK);
			assert_nothing_left();
		}
}
END_TEST

START_TEST(a_kernel_that_was_not_loaded_is_loaded_later)
{
	set_up();
	sim_fail_from("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY);
	sim_calls_reset();
	ck_assert_int_eq(live(), VS_NOMEM);
	ck_assert_int_eq(live(), VS_NOMEM);
	ck_assert_ptr_null(page_context->page_hash);
	sim_fail_clear();
	ck_assert_int_eq(live(), VS_OK);
	ck_assert_int_eq(live(), VS_OK);
	ck_assert_uint_eq(sim_calls("cuModuleLoadData"), 3);
}
END_TEST

static void *let_go(void *arg)
{
	while (!sim_calls("cuStreamQuery"))
		sched_yield();
	sim_hold(0);
	return arg;
}

START_TEST(a_wait_that_fails_is_no_reason_to_go)
{
	struct vs_page_hash *hash;
	pthread_t thread;

	set_up();
	hash = page_open(SPANS);
	sim_calls_reset();
	sim_hold(1);
	sim_fail("cuStreamSynchronize", 1, CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
	ck_assert_int_eq(page_run(hash, spans, SPANS, sums, &why), VS_CUDA);
	ck_ok(vs_real.cuStreamQuery(page_stream));
	pthread_join(thread, NULL);
	vs_page_hash_close(hash);
	assert_nothing_left();
}
END_TEST

START_TEST(a_context_that_is_lost_is_said)
{
	struct vs_page_hash *hash;

	set_up();
	hash = page_open(SPANS);
	sim_fail_from("cuStreamSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	sim_fail_from("cuStreamQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(page_run(hash, spans, SPANS, sums, &why), VS_CUDA);
	ck_assert_ptr_nonnull(strstr(why.text, "(700)"));
	sim_fail_clear();
	vs_page_hash_close(hash);
	assert_nothing_left();
}
END_TEST

/* Refused: the calloc of page_hash; what gives random bytes, from the Nth
 * call on. */
static bool no_calloc;
static int random_calls = 1000, open_calls = 1000, read_calls = 1000;
static size_t random_most = 1 << 20;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return no_calloc ? NULL : __real_calloc(count, size);
}

ssize_t __real_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
	if (random_calls-- <= 0) {
		errno = ENOSYS;
		return -1;
	}
	return __real_getrandom(to, size < random_most ? size : random_most,
				flags);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	if (open_calls-- > 0)
		return __real_open(path, flags, 0);
	errno = EMFILE;
	return -1;
}

/* Interrupted each other time; then over. */
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size)
{
	if (read_calls-- <= 0)
		return 0;
	if (read_calls % 2)
		return __real_read(fd, to, size < 100 ? size : 100);
	errno = EINTR;
	return -1;
}

START_TEST(no_memory_for_the_handle_is_said)
{
	struct vs_page_hash *hash;

	set_up();
	no_calloc = true;
	ck_assert_int_eq(vs_page_hash_open(page_context, 1, &hash, &why),
			 VS_NOHOST);
	no_calloc = false;
	assert_nothing_left();
	ck_assert_int_eq(live(), VS_OK);
}
END_TEST

/* All words of the keys are there: of so few no two are the same. */
static void assert_keys(const struct vs_page_keys *keys)
{
	static const uint64_t none[2];
	const char *at = (const char *)keys;
	size_t i;

	for (i = 0; i < sizeof(*keys); i += sizeof(none))
		ck_assert_msg(memcmp(at + i, none, sizeof(none)),
			      "no keys at %zu", i);
}

/* The keys of another process, which must not be ours; errno is kept. */
static void assert_own_keys(void)
{
	static struct vs_page_keys theirs;
	const struct vs_page_keys *keys;
	int ends[2], status;
	size_t i, same = 0;

	ck_assert_int_eq(pipe(ends), 0);
	if (!fork())
		_exit(write(ends[1], vs_page_hash_keys(), sizeof(theirs)) !=
		      sizeof(theirs));
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(__real_read(ends[0], &theirs, sizeof(theirs)),
			 sizeof(theirs));
	errno = 77;
	keys = vs_page_hash_keys();
	ck_assert_int_eq(errno, 77);
	assert_keys(keys);
	assert_keys(&theirs);
	for (i = 0; i < sizeof(theirs); i++)
		same += ((char *)&theirs)[i] == ((const char *)keys)[i];
	ck_assert_uint_lt(same, sizeof(theirs) / 64);
}

START_TEST(random_bytes_may_come_in_pieces)
{
	random_most = 256;
	assert_own_keys();
}
END_TEST

/* _i: how many calls give something before the file has to. */
START_TEST(without_the_call_there_is_the_file)
{
	random_most = 3000;
	random_calls = _i;
	assert_own_keys();
	ck_assert_int_eq(open_calls, 999);
}
END_TEST

START_TEST(without_the_file_too_there_are_keys)
{
	random_most = 3000;
	random_calls = _i;
	if (_i % 2)
		open_calls = 0;
	else
		read_calls = _i;
	assert_own_keys();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, no_other_call_is_made);
	tcase_add_loop_test(tc, a_call_that_fails_is_said_and_leaves_nothing,
			    0, COUNT(calls));
	tcase_add_test(tc, a_kernel_that_was_not_loaded_is_loaded_later);
	tcase_add_test(tc, a_wait_that_fails_is_no_reason_to_go);
	tcase_add_test(tc, a_context_that_is_lost_is_said);
	tcase_add_test(tc, no_memory_for_the_handle_is_said);
	tcase_add_test(tc, random_bytes_may_come_in_pieces);
	tcase_add_loop_test(tc, without_the_call_there_is_the_file, 0, 2);
	tcase_add_loop_test(tc, without_the_file_too_there_are_keys, 0, 4);
}

int main(void)
{
	return fixture_main("page_trouble", fill);
}
