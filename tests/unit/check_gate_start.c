/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel or the C library refuses what the gate asks for when it starts.
 * A whole library in one process, init.c too.
 */
#include <config.h>

#include "init.c"
#include "memory/segment.h"

#define VSLEEP_LIBRARY
#include <vsleep.h>

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)3 << 20)
#define ROUNDS 500
#define THREADS 4
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* What fails, or with LIE seems not to. */
enum {
	MAP = 1, KEY = 2, WIPE = 4, ATFORK = 8, REGISTER = 16, BARRIER = 32,
	LIE = 64,
};

struct fault {
	unsigned calls;
	bool lasting;		/* else each of them fails once */
};

static _Atomic unsigned broken;
static bool lasting;
static char folder[] = "/tmp/check-gate-start-XXXXXX";
static char log_path[64];
static CUcontext context;
static pthread_key_t keys[PTHREAD_KEYS_MAX];
static int key_count;
static CUdeviceptr block;
static struct vsleep_reply reply = { .size = sizeof(reply) };

static bool fails(unsigned call)
{
	bool now = atomic_load(&broken) & call;

	if (now && !lasting)
		atomic_fetch_and(&broken, ~call);
	if (now)
		errno = ENOMEM;
	return now;
}

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t offset)
{
	return fails(MAP) ? MAP_FAILED :
	       __real_mmap(at, size, prot, flags, fd, offset);
}

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
	if (advice == MADV_WIPEONFORK && fails(LIE))
		return 0;
	return advice == MADV_WIPEONFORK && fails(WIPE) ? -1 :
	       __real_madvise(at, size, advice);
}

int __real_pthread_atfork(void (*before)(void), void (*parent)(void),
			  void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
			  void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
			  void (*child)(void))
{
	return fails(ATFORK) ? ENOMEM :
	       __real_pthread_atfork(before, parent, child);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long a[4];
	va_list args;
	int i;

	va_start(args, number);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_membarrier &&
	    fails(a[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED ? BARRIER :
		  REGISTER))
		return -1;
	return __real_syscall(number, a[0], a[1], a[2], a[3]);
}

/* No key is left, as src/ binds to an old version of the function. */
static void use_up_keys(void)
{
	while (!pthread_key_create(&keys[key_count], NULL))
		key_count++;
}

static void empty_folder(void)
{
	struct dirent *entry;
	char path[300];
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
}

/* A program whose first calls meet @calls. */
static void begin(unsigned calls, bool for_good)
{
	snprintf(log_path, sizeof(log_path), "%s/log", folder);
	setenv("VSLEEP_LOG", log_path, 1);
	setenv("VSLEEP_DIR", folder, 1);
	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW));
	ck_assert(vs_driver_load());
	ck_assert_int_eq(vs_real.cuInit(0), 0);
	if (calls & KEY)
		use_up_keys();
	lasting = for_good;
	atomic_store(&broken, calls);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), 0);
	ck_assert_int_eq(cuCtxSetCurrent(context), 0);
	while (!for_good && key_count)
		pthread_key_delete(keys[--key_count]);
	ck_assert_int_eq(cuMemAlloc_v2(&block, BLOCK), 0);
	ck_assert_int_eq(cuMemsetD8_v2(block, 0x5a, BLOCK), 0);
}

static void assert_bytes(void)
{
	static unsigned char bytes[BLOCK];

	ck_assert_int_eq(cuMemcpyDtoH_v2(bytes, block, BLOCK), 0);
	ck_assert_uint_eq(*bytes, 0x5a);
	ck_assert(!memcmp(bytes, bytes + 1, BLOCK - 1));
}

/* A child passes and is not the program; it may not wait for anything. */
static void assert_child_passes(bool raw)
{
	int status = -1;
	pid_t child;

	child = raw ? (pid_t)__real_syscall(SYS_clone, SIGCHLD, 0, 0, 0) :
		fork();
	if (!child) {
		alarm(10);
		if (!vs_gate_enter("cuOne"))
			_exit(2);
		vs_gate_leave();
		_exit(vs_gate_mine() ? 3 : 0);
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* The lines of the log, of which the last one is @line. */
static int read_log(char line[256])
{
	FILE *file = fopen(log_path, "r");
	int lines = 0;

	*line = '\0';
	while (file && fgets(line, 256, file))
		lines++;
	if (file)
		fclose(file);
	return lines;
}

static const struct {
	unsigned calls;
	const char *text;
} hopeless[] = {
	{ MAP, "gate: no memory" },
	{ KEY, "gate: no thread key" },
	{ WIPE | ATFORK, "gate: no fork handler" },
};

/* _i: a row, and whether for good. */
START_TEST(a_gate_that_cannot_start_passes_all_through_and_says_so_once)
{
	char line[256], expected[128];
	int before, row = _i / 2;

	begin(hopeless[row].calls, _i % 2);
	ck_assert(!vs_gate_cold());
	ck_assert(!vs_gate_mine());
	snprintf(expected, sizeof(expected),
		 "%s; every call is passed through\n", hopeless[row].text);
	before = read_log(line);
	ck_assert_int_eq(before, 1);
	ck_assert_msg(strstr(line, expected) != NULL, "%s", line);
	ck_assert_uint_eq(vs_segment_count(), 0);
	assert_child_passes(false);
	assert_child_passes(true);
	ck_assert_int_eq(vsleep_present(), 0);
	ck_assert_int_eq(vsleep_sleep(1, NULL, 0, 1, &reply),
			 VSLEEP_NOT_PRESENT);
	assert_bytes();
	ck_assert_int_eq(cuMemFree_v2(block), 0);
	ck_assert_int_eq(read_log(line), before);
	ck_assert_ptr_null(vs_gate_self);
}
END_TEST

static void *look(void *unused)
{
	(void)unused;
	ck_assert_int_eq(cuCtxSetCurrent(context), 0);
	assert_bytes();
	return NULL;
}

/* Asleep and held, with a thread that waits, and awake. */
static void sleep_and_wake(void)
{
	pthread_t thread;

	ck_assert_msg(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, &reply) ==
		      VSLEEP_OK, "%s", reply.message);
	ck_assert_uint_eq(reply.resident, 0);
	ck_assert_uint_ge(reply.evicted, BLOCK);
	ck_assert_int_eq(pthread_create(&thread, NULL, look, NULL), 0);
	while (vs_gate_held_now() != 1)
		sched_yield();
	ck_assert_msg(vsleep_wake(NULL, 0, 0, &reply) == VSLEEP_OK, "%s",
		      reply.message);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	assert_bytes();
}

static const unsigned harmless[] = {
	0, WIPE, REGISTER, WIPE | REGISTER, ATFORK, ATFORK | REGISTER,
};

/* _i: a row, and whether for good. */
START_TEST(where_the_kernel_refuses_sleep_and_wake_work_by_the_fence)
{
	unsigned calls = harmless[_i / 2];

	begin(calls, _i % 2);
	ck_assert(vs_gate_mine());
	ck_assert_int_eq(vs_gate_current()->flag,
			 calls & (WIPE | REGISTER) ? VS_GATE_FENCE : 0);
	ck_assert_uint_eq(vs_segment_count(), 1);
	sleep_and_wake();
	sleep_and_wake();
	ck_assert_int_eq(cuMemFree_v2(block), 0);
}
END_TEST

/* _i: a row, and whether it is a raw clone. */
START_TEST(where_the_kernel_refuses_a_child_passes_the_shut_gate)
{
	begin(harmless[_i / 2], true);
	assert_child_passes(_i % 2);
	ck_assert_int_eq(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, &reply),
			 VSLEEP_OK);
	assert_child_passes(_i % 2);
	ck_assert(vs_gate_mine());
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, &reply), VSLEEP_OK);
	assert_bytes();
}
END_TEST

/* An emulator may take any advice, and follow none. */
START_TEST(a_forked_child_is_told_though_its_page_was_not_wiped)
{
	begin(LIE, true);
	ck_assert_int_eq(vs_gate_current()->flag, 0);
	assert_child_passes(false);
	ck_assert_int_eq(vsleep_sleep(1, NULL, VSLEEP_HOLD, 10, &reply),
			 VSLEEP_OK);
	assert_child_passes(false);
	ck_assert(vs_gate_mine());
	ck_assert_int_eq(vsleep_wake(NULL, 0, 0, &reply), VSLEEP_OK);
	assert_bytes();
}
END_TEST

/* _i: whether for good.  A filter may come after the start. */
START_TEST(a_barrier_that_fails_refuses_the_sleep_and_changes_nothing)
{
	begin(0, _i);
	atomic_store(&broken, BARRIER);
	ck_assert_int_eq(vsleep_sleep(1, NULL, 0, 10, &reply),
			 VSLEEP_REFUSED);
	ck_assert_ptr_nonnull(strstr(reply.message, "membarrier"));
	ck_assert_ptr_nonnull(strstr(reply.message, strerror(ENOMEM)));
	ck_assert_int_eq(reply.state, VSLEEP_AWAKE);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_int_eq(vs_gate_current()->flag, 0);
	assert_bytes();
	atomic_store(&broken, 0);
	sleep_and_wake();
}
END_TEST

static atomic_bool is_shut, over;
static _Atomic unsigned long wrong;

/* Relaxed accesses, which cannot make up for what the gate itself lacks. */
static void *hammer(void *passed)
{
	int i;

	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		if (!vs_gate_enter("cuOne"))
			wrong++;
		for (i = 0; i < 100; i++)
			if (atomic_load_explicit(&is_shut,
						 memory_order_relaxed))
				wrong++;
		vs_gate_leave();
		atomic_store_explicit((atomic_bool *)passed, true,
				      memory_order_relaxed);
	}
	return NULL;
}

static void shut_and_open(int round)
{
	struct vs_why why;

	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION, 1e9, NULL, &why),
			 VS_OK);
	atomic_store(&is_shut, true);
	while (round % 8 == 0 && vs_gate_held_now() != THREADS)
		sched_yield();
	atomic_store(&is_shut, false);
	vs_gate_open(VS_HOLD_OPERATION);
}

START_TEST(with_the_fence_alone_nobody_is_inside_after_a_shut)
{
	atomic_bool passed[THREADS] = { false };
	pthread_t threads[THREADS];
	int i;

	begin(REGISTER | BARRIER, true);
	for (i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, hammer, &passed[i]);
		while (!atomic_load(&passed[i]))
			sched_yield();
	}
	for (i = 0; i < ROUNDS; i++)
		shut_and_open(i);
	atomic_store(&over, true);
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_ge(vs_gate_held_total(), THREADS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gate_start");
	TCase *tc = tcase_create("gate_start");
	SRunner *runner;
	int failed;

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, empty_folder, NULL);
	tcase_add_loop_test(tc,
	a_gate_that_cannot_start_passes_all_through_and_says_so_once, 0,
		2 * COUNT(hopeless));
	tcase_add_loop_test(tc,
		where_the_kernel_refuses_sleep_and_wake_work_by_the_fence, 0,
		2 * COUNT(harmless));
	tcase_add_loop_test(tc,
		where_the_kernel_refuses_a_child_passes_the_shut_gate, 0,
		2 * COUNT(harmless));
	tcase_add_test(tc,
		a_forked_child_is_told_though_its_page_was_not_wiped);
	tcase_add_loop_test(tc,
		a_barrier_that_fails_refuses_the_sleep_and_changes_nothing, 0,
		2);
	tcase_add_test(tc, with_the_fence_alone_nobody_is_inside_after_a_shut);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	empty_folder();
	rmdir(folder);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
