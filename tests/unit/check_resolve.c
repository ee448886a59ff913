/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "init.h"
#include "intercept/hooks.h"
#include "intercept/resolve.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 16

static const int versions[] = { 2000, 3020, 11030, 12000, 12090, 13000 };
#define VERSIONS (sizeof(versions) / sizeof(*versions))
#define FLAGS 3

/* What hooks.def says, kept apart from what resolve.c makes of it. */
static const struct wrapped {
	const char *name;
	void *wrapper;
} wrapped[] = {
#define VS_OWN(sym)			{ #sym, (void *)sym },
#define VS_OWN2(sym, suffix)		VS_OWN(sym) VS_OWN(sym##suffix)
#define VS_GATED(sym, params, args)	VS_OWN(sym)
#define VS_GATED2(sym, suffix, params, args)	VS_OWN2(sym, suffix)
#include "intercept/hooks.def"
};
#define WRAPPED (sizeof(wrapped) / sizeof(*wrapped))

static const char *const strangers[] = {
	"cuNoSuchEntryPoint", "cuMemAlloc_v9", "cublasCreate", "malloc", "",
};
#define STRANGERS (sizeof(strangers) / sizeof(*strangers))

static void *libcuda;
static __typeof__(&cuGetProcAddress) plain_v1;
static __typeof__(&cuGetProcAddress_v2) plain_v2;
static int contexts_seen;

void vs_init_context(CUcontext context)
{
	contexts_seen += context != NULL;
}

static void set_up(void)
{
	libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(libcuda, "%s", dlerror());
	plain_v1 = vs_driver_dlsym(libcuda, "cuGetProcAddress");
	plain_v2 = vs_driver_dlsym(libcuda, "cuGetProcAddress_v2");
	ck_assert(plain_v1 && plain_v2);
	ck_assert(plain_v1 != cuGetProcAddress);
}

static void *wrapper_of(const char *name)
{
	size_t i;

	for (i = 0; i < WRAPPED; i++)
		if (!strcmp(wrapped[i].name, name))
			return wrapped[i].wrapper;
	return NULL;
}

/* Our wrapper where the pointer is that of a name with one. */
static void *expected_for(void *plain)
{
	static void *real[WRAPPED];
	size_t i;

	for (i = 0; plain && i < WRAPPED; i++) {
		if (!real[i])
			real[i] = vs_driver_dlsym(libcuda, wrapped[i].name);
		if (real[i] == plain)
			return wrapped[i].wrapper;
	}
	return plain;
}

static unsigned count_unhooked(void)
{
	char name[64];

	return (unsigned)vs_driver_unhooked_count(name, sizeof(name));
}

/* One query in each form, plain and ours; how many gave a wrapper. */
static int compare(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult plain_status = -1, status = -1;
	void *plain = &plain, *ours = &plain, *expected;
	CUresult plain_rc, rc;
	int wrappers = 0;

	plain_rc = plain_v1(name, &plain, version, flags);
	rc = cuGetProcAddress(name, &ours, version, flags);
	expected = plain_rc ? plain : expected_for(plain);
	ck_assert_int_eq(rc, plain_rc);
	ck_assert_msg(ours == expected, "%s %d", name, version);
	wrappers += ours != plain;

	plain = ours = &plain;
	plain_rc = plain_v2(name, &plain, version, flags, &plain_status);
	rc = cuGetProcAddress_v2(name, &ours, version, flags, &status);
	expected = plain_rc ? plain : expected_for(plain);
	ck_assert_int_eq(rc, plain_rc);
	ck_assert_int_eq(status, plain_status);
	ck_assert_msg(ours == expected, "%s %d", name, version);
	wrappers += ours != plain;
	return wrappers;
}

static int compare_everywhere(const char *name)
{
	int wrappers = 0;
	cuuint64_t flags;
	size_t i;

	for (i = 0; i < VERSIONS; i++)
		for (flags = 0; flags < FLAGS; flags++)
			wrappers += compare(name, versions[i], flags);
	return wrappers;
}

START_TEST(each_query_gives_the_wrapper_of_what_the_driver_gave)
{
	int row, wrappers = 0;

	for (row = 0; row < VS_ROW_COUNT; row++)
		wrappers += compare_everywhere(vs_driver_name(row));
	ck_assert_int_gt(wrappers, 1000);
	ck_assert_uint_eq(count_unhooked(), 0);
}
END_TEST

START_TEST(a_name_the_driver_lacks_is_answered_as_it_does)
{
	size_t i;

	for (i = 0; i < STRANGERS; i++)
		ck_assert_int_eq(compare_everywhere(strangers[i]), 0);
	ck_assert_uint_eq(count_unhooked(), 0);
}
END_TEST

START_TEST(arguments_that_the_driver_refuses_do_no_harm)
{
	CUdriverProcAddressQueryResult status;
	void *pointer;

	ck_assert_int_eq(cuGetProcAddress("cuInit", NULL, 12000, 0),
			 plain_v1("cuInit", NULL, 12000, 0));
	ck_assert_int_eq(cuGetProcAddress_v2(NULL, &pointer, 12000, 0, &status),
			 plain_v2(NULL, &pointer, 12000, 0, &status));
	ck_assert_int_eq(cuGetProcAddress_v2("cuMemAlloc", &pointer, 12000, 0,
					     NULL), CUDA_SUCCESS);
	ck_assert_ptr_eq(pointer, (void *)cuMemAlloc_v2);
}
END_TEST

START_TEST(looking_up_the_look_up_gives_its_wrapper)
{
	__typeof__(&cuGetProcAddress) v1;
	__typeof__(&cuGetProcAddress_v2) v2;
	void *pointer;

	ck_assert(!cuGetProcAddress("cuGetProcAddress", (void **)&v1, 11030,
				    0));
	ck_assert(v1 == cuGetProcAddress);
	ck_assert(!v1("cuGetProcAddress", (void **)&v2, 12000, 0));
	ck_assert(v2 == cuGetProcAddress_v2);
	ck_assert(!v2("cuMemFree", &pointer, 12000, 0, NULL));
	ck_assert_ptr_eq(pointer, (void *)cuMemFree_v2);
}
END_TEST

START_TEST(dlsym_on_the_driver_gives_wrappers_for_its_rows)
{
	void *plain, *ours, *wrapper;
	const char *name;
	int row;

	for (row = 0; row < VS_ROW_COUNT; row++) {
		name = vs_driver_name(row);
		wrapper = wrapper_of(name);
		plain = vs_driver_dlsym(libcuda, name);
		ours = dlsym(libcuda, name);
		ck_assert_msg(ours == (plain && wrapper ? wrapper : plain),
			      "%s", name);
	}
	ck_assert_ptr_null(dlsym(libcuda, "cuNoSuchEntryPoint"));
	ck_assert_uint_eq(count_unhooked(), 0);
}
END_TEST

START_TEST(each_real_pointer_is_found_as_its_row)
{
	void *plain;
	int row;

	ck_assert(vs_driver_load());
	ck_assert_ptr_eq(vs_driver_handle(), libcuda);
	for (row = 0; row < VS_ROW_COUNT; row++) {
		plain = vs_driver_dlsym(libcuda, vs_driver_name(row));
		ck_assert_int_eq(vs_driver_row(vs_driver_name(row)), row);
		ck_assert_int_eq(vs_driver_find(plain), plain ? row : -1);
	}
	ck_assert_int_eq(vs_driver_row("cu"), -1);
	ck_assert_int_eq(vs_driver_row("cuZ"), -1);
	ck_assert_int_eq(vs_driver_find(&plain), -1);
}
END_TEST

static pthread_barrier_t together;

static void *fill_and_look_up(void *arg)
{
	void *pointer = NULL;

	(void)arg;
	pthread_barrier_wait(&together);
	if (cuGetProcAddress("cuLaunchKernel", &pointer, 12000, 0))
		return NULL;
	if (vs_driver_find((void *)vs_real.cuLaunchKernel) !=
	    VS_ROW_cuLaunchKernel)
		return NULL;
	return pointer;
}

START_TEST(threads_that_fill_at_once_all_find_the_table_full)
{
	pthread_t threads[THREADS];
	void *found;
	int i;

	pthread_barrier_init(&together, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		ck_assert(!pthread_create(&threads[i], NULL, fill_and_look_up,
					  NULL));
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &found);
		ck_assert_ptr_eq(found, (void *)cuLaunchKernel);
	}
}
END_TEST

static int newer(int a, int b)
{
	return a * 100 + b;
}

START_TEST(a_newer_name_works_and_is_counted_once_called)
{
	int (*jump)(int, int);
	char name[64];

	jump = vs_resolve_pointer("cuBrandNew", (void *)newer, true);
	ck_assert(jump != newer);
	ck_assert(jump == vs_resolve_pointer("cuBrandNew", (void *)newer,
					     true));
	ck_assert_uint_eq(count_unhooked(), 0);
	ck_assert_int_eq(jump(12, 34), 1234);
	ck_assert_int_eq(jump(1, 2), 102);
	ck_assert_uint_eq(vs_driver_unhooked_count(name, sizeof(name)), 1);
	ck_assert_str_eq(name, "cuBrandNew");
}
END_TEST

START_TEST(newer_names_past_the_slots_are_passed_and_counted)
{
	static char targets[VS_DRIVER_SLOTS + 1];
	char *last = &targets[VS_DRIVER_SLOTS], name[32];
	int i;

	for (i = 0; i < VS_DRIVER_SLOTS; i++) {
		snprintf(name, sizeof(name), "cuNew%d", i);
		ck_assert(vs_resolve_pointer(name, &targets[i], true) !=
			  &targets[i]);
	}
	ck_assert_uint_eq(count_unhooked(), 0);
	ck_assert_ptr_eq(vs_resolve_pointer("cuNewLast", last, true), last);
	ck_assert_uint_eq(count_unhooked(), 1);
}
END_TEST

START_TEST(a_known_name_with_an_unknown_pointer_is_named)
{
	char name[64], other;

	ck_assert(vs_driver_load());
	ck_assert_ptr_eq(vs_resolve_pointer("cuInit", &other, false), &other);
	ck_assert_ptr_eq(vs_resolve_pointer("cuInit", &other, true), &other);
	ck_assert_uint_eq(vs_driver_unhooked_count(name, sizeof(name)), 1);
	ck_assert_str_eq(name, "cuInit");
}
END_TEST

START_TEST(a_name_of_another_library_is_nobodys_business)
{
	char other;

	ck_assert_ptr_eq(vs_resolve_pointer("cuFooCreate", &other, false),
			 &other);
	ck_assert_ptr_eq(vs_resolve_pointer("cublasCreate", &other, true),
			 &other);
	ck_assert_ptr_eq(vs_resolve_pointer("cuInit", (void *)cuMemAlloc_v2,
					    false), (void *)cuMemAlloc_v2);
	ck_assert_uint_eq(count_unhooked(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolve");
	TCase *tests = tcase_create("resolve");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests,
		each_query_gives_the_wrapper_of_what_the_driver_gave);
	tcase_add_test(tests, a_name_the_driver_lacks_is_answered_as_it_does);
	tcase_add_test(tests, arguments_that_the_driver_refuses_do_no_harm);
	tcase_add_test(tests, looking_up_the_look_up_gives_its_wrapper);
	tcase_add_test(tests, dlsym_on_the_driver_gives_wrappers_for_its_rows);
	tcase_add_test(tests, each_real_pointer_is_found_as_its_row);
	tcase_add_test(tests,
		threads_that_fill_at_once_all_find_the_table_full);
	tcase_add_test(tests, a_newer_name_works_and_is_counted_once_called);
	tcase_add_test(tests,
		newer_names_past_the_slots_are_passed_and_counted);
	tcase_add_test(tests, a_known_name_with_an_unknown_pointer_is_named);
	tcase_add_test(tests, a_name_of_another_library_is_nobodys_business);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
