/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the kernel are a folder of the test: open() is the test's own
 * and leads there.
 */
#include <config.h>

#include "memory_fixture.h"

#include "backup/host_budget.h"
#include "backup/host_pool.h"
#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/vsleep-check-XXXXXX";
static char descriptors[256];	/* flags of those handed out */

/* Opening this file gives this error so many times. */
static const char *closed;
static int closed_error, closed_times;

int open(const char *path, int flags, ...)
{
	char inside[512];
	va_list args;
	mode_t mode;
	int fd;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (strncmp(path, "/proc/", 6) && strncmp(path, "/sys/", 5))
		return openat(AT_FDCWD, path, flags, mode);
	if (closed && !strcmp(path, closed) && closed_times-- > 0) {
		errno = closed_error;
		return -1;
	}
	snprintf(inside, sizeof(inside), "%s%s", root, path);
	fd = openat(AT_FDCWD, inside, flags, mode);
	if (fd >= 0 && fd < (int)sizeof(descriptors))
		descriptors[fd] = flags & O_CLOEXEC ? 1 : 2;
	return fd;
}

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void tear_down(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
	char inside[512], *slash;
	FILE *file;

	snprintf(inside, sizeof(inside), "%s%s", root, path);
	for (slash = inside + strlen(root) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		mkdir(inside, 0700);
		*slash = '/';
	}
	file = fopen(inside, "we");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void group(const char *dir, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dir, name);
	put(path, text);
}

static const struct {
	const char *text;
	size_t bytes;
} infos[] = {
	{ "MemTotal:       1 kB\nMemFree: 2 kB\nMemAvailable:     1234 kB\n"
	  "Buffers: 5 kB\n", 1234 << 10 },
	{ "MemAvailable:   1073741824 kB\n", (size_t)1 << 40 },
	{ "MemAvailable:   0 kB\n", 0 },
	{ "MemTotal: 1 kB\nMemFree: 2 kB\n", SIZE_MAX },
	{ "MemAvailable: lots\n", SIZE_MAX },
	{ "", SIZE_MAX },
};

START_TEST(what_the_machine_has_available_is_read_in_bytes)
{
	put("/proc/meminfo", infos[_i].text);
	ck_assert_uint_eq(vs_host_budget_available(), infos[_i].bytes);
}
END_TEST

START_TEST(where_nothing_can_be_read_there_is_no_limit)
{
	ck_assert_uint_eq(vs_host_budget_available(), SIZE_MAX);
	ck_assert_uint_eq(vs_host_budget_cgroup(), SIZE_MAX);
	put("/proc/self/cgroup", "0::/a/b\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), SIZE_MAX);
}
END_TEST

START_TEST(a_group_leaves_its_limit_less_what_is_used)
{
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", "1000000\n");
	group("/job", "memory.current", "400000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 600000);
}
END_TEST

START_TEST(page_cache_that_the_kernel_would_drop_does_not_count_as_used)
{
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", "1000000\n");
	group("/job", "memory.current", "900000\n");
	group("/job", "memory.stat", "anon 1\nfile 700000\n"
	      "active_file 100000\ninactive_file 300000\nslab 5\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 400000);
	group("/job", "memory.stat", "inactive_file 5000000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 1000000);
}
END_TEST

START_TEST(a_group_over_its_limit_leaves_nothing)
{
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", "1000\n");
	group("/job", "memory.current", "5000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 0);
}
END_TEST

START_TEST(a_group_without_a_limit_leaves_all)
{
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", "max\n");
	group("/job", "memory.current", "5000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), SIZE_MAX);
}
END_TEST

/* _i: which of the three levels is the tight one. */
START_TEST(the_tightest_of_the_groups_above_decides)
{
	static const char *const dirs[] = { "", "/pod", "/pod/job" };
	int i;

	put("/proc/self/cgroup", "0::/pod/job\n");
	for (i = 0; i < 3; i++) {
		group(dirs[i], "memory.max", i == _i ? "70000" : "900000");
		group(dirs[i], "memory.current", "20000");
	}
	ck_assert_uint_eq(vs_host_budget_cgroup(), 50000);
}
END_TEST

START_TEST(the_root_of_a_container_is_looked_at)
{
	put("/proc/self/cgroup", "0::/\n");
	group("", "memory.max", "70000");
	group("", "memory.current", "20000");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 50000);
}
END_TEST

START_TEST(the_memory_controller_of_version_1_is_read_where_it_is)
{
	put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n7:memory:/slurm/job\n"
	    "1:name=systemd:/y\n0::/z\n");
	group("/memory/slurm", "memory.limit_in_bytes",
	      "9223372036854771712\n");
	group("/memory/slurm", "memory.usage_in_bytes", "30000\n");
	group("/memory/slurm/job", "memory.limit_in_bytes", "90000\n");
	group("/memory/slurm/job", "memory.usage_in_bytes", "10000\n");
	group("/cpu/x", "memory.max", "1\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 80000);
}
END_TEST

START_TEST(of_both_versions_the_tighter_one_decides)
{
	put("/proc/self/cgroup", "7:memory:/job\n0::/job\n");
	group("/memory/job", "memory.limit_in_bytes", "90000\n");
	group("/memory/job", "memory.usage_in_bytes", "10000\n");
	group("/job", "memory.max", "70000\n");
	group("/job", "memory.current", "10000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 60000);
}
END_TEST

START_TEST(lines_that_are_no_lines_are_left_out)
{
	put("/proc/self/cgroup", "nothing\n:\n0:\n0::/job");
	group("/job", "memory.max", "70000\n");
	ck_assert_uint_eq(vs_host_budget_cgroup(), 70000);
}
END_TEST

START_TEST(descriptors_are_closed_on_exec_and_closed)
{
	int fd, probe = dup(STDERR_FILENO);

	close(probe);
	put("/proc/meminfo", "MemAvailable: 1 kB\n");
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", "70000\n");
	group("/job", "memory.current", "1\n");
	vs_host_budget_available();
	vs_host_budget_cgroup();
	for (fd = 0; fd < (int)sizeof(descriptors); fd++)
		ck_assert_int_ne(descriptors[fd], 2);
	ck_assert_int_eq(descriptors[probe], 1);
	ck_assert_int_eq(dup(STDERR_FILENO), probe);
}
END_TEST

/* What may be taken: the limit set, else the machine; and the group's. */
static const struct {
	size_t set;
	const char *available, *group;
	size_t budget;
} budgets[] = {
	{ 0, "MemAvailable: 100 kB\n", "max", 100 << 10 },
	{ 5000, "MemAvailable: 100 kB\n", "max", 5000 },
	{ 500000, "MemAvailable: 100 kB\n", "max", 500000 },
	{ 0, "MemAvailable: 100 kB\n", "3000", 3000 },
	{ 5000, "MemAvailable: 100 kB\n", "3000", 3000 },
	{ 5000, "MemAvailable: 100 kB\n", "8000", 5000 },
};

static const char *const limits[] = {
	"/proc/self/cgroup", "/sys/fs/cgroup/a/memory.max",
	"/sys/fs/cgroup/a/memory.current",
};

/* _i: the file that is there, but cannot be opened.  An interruption is no
 * reason. */
START_TEST(a_limit_that_cannot_be_read_leaves_nothing)
{
	put("/proc/self/cgroup", "0::/a\n");
	group("/a", "memory.max", "1000000\n");
	group("/a", "memory.current", "1000\n");
	closed = limits[_i];
	closed_error = EMFILE;
	closed_times = 1;
	ck_assert_uint_eq(vs_host_budget_cgroup(), 0);
	ck_assert_uint_eq(vs_host_budget_cgroup(), 999000);
	closed_error = EINTR;
	closed_times = 1;
	ck_assert_uint_eq(vs_host_budget_cgroup(), 999000);
	closed_times = 1000000;
	ck_assert_uint_eq(vs_host_budget_cgroup(), 0);
}
END_TEST

START_TEST(what_is_free_counts_where_what_is_available_cannot_be_read)
{
	put("/proc/meminfo", infos[1].text);
	closed = "/proc/meminfo";
	closed_error = EMFILE;
	closed_times = 1;
	ck_assert_uint_lt(vs_host_budget_available(), infos[1].bytes);
	ck_assert_uint_eq(vs_host_budget_available(), infos[1].bytes);
}
END_TEST

START_TEST(the_budget_is_the_setting_or_the_machine_within_the_group)
{
	put("/proc/meminfo", budgets[_i].available);
	put("/proc/self/cgroup", "0::/job\n");
	group("/job", "memory.max", budgets[_i].group);
	vs_config.host_limit = budgets[_i].set;
	ck_assert_uint_eq(vs_host_pool_budget(), budgets[_i].budget);
}
END_TEST

/* A tenth of the machine's memory is enough. */
static const struct {
	const char *text;
	bool scarce;
} machines[] = {
	{ "MemTotal: 1000 kB\nMemAvailable: 99 kB\n", true },
	{ "MemTotal: 1000 kB\nMemAvailable: 100 kB\n", false },
	{ "MemTotal: 1000 kB\nMemAvailable: 900 kB\n", false },
	{ "MemTotal: 1000 kB\nMemAvailable: 0 kB\n", true },
	{ "MemTotal: 1000 kB\nMemFree: 1 kB\n", false },
	{ "MemAvailable: 0 kB\n", false },
	{ "", false },
};

START_TEST(the_machine_is_short_of_memory_below_a_tenth_of_it)
{
	put("/proc/meminfo", machines[_i].text);
	ck_assert_int_eq(vs_host_budget_scarce(), machines[_i].scarce);
}
END_TEST

START_TEST(where_nothing_can_be_read_memory_is_not_scarce)
{
	ck_assert(!vs_host_budget_scarce());
	put("/proc/self/cgroup", "0::/job\n");
	ck_assert(!vs_host_budget_scarce());
}
END_TEST

/* _i: which level is; the one with the least left in bytes is not. */
START_TEST(any_of_the_groups_above_may_be_short_of_memory)
{
	static const char *const dirs[] = { "", "/pod", "/pod/job" };
	int i;

	put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
	put("/proc/self/cgroup", "0::/pod/job\n");
	for (i = 0; i < 3; i++) {
		group(dirs[i], "memory.max", "900");
		group(dirs[i], "memory.current", "810");
	}
	ck_assert(!vs_host_budget_scarce());
	group(dirs[_i], "memory.max", "1000000");
	group(dirs[_i], "memory.current", "900001");
	ck_assert(vs_host_budget_scarce());
	group(dirs[_i], "memory.stat", "inactive_file 1\n");
	ck_assert(!vs_host_budget_scarce());
	group(dirs[_i], "memory.max", "max");
	ck_assert(!vs_host_budget_scarce());
}
END_TEST

START_TEST(a_group_of_version_1_may_be_short_of_memory)
{
	put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
	put("/proc/self/cgroup", "7:memory:/job\n0::/\n");
	group("/memory/job", "memory.limit_in_bytes", "1000\n");
	group("/memory/job", "memory.usage_in_bytes", "900\n");
	ck_assert(!vs_host_budget_scarce());
	group("/memory/job", "memory.usage_in_bytes", "901\n");
	ck_assert(vs_host_budget_scarce());
	group("/memory/job", "memory.limit_in_bytes",
	      "9223372036854771712\n");
	ck_assert(!vs_host_budget_scarce());
}
END_TEST

/* _i: the file that is there, but cannot be opened: it leaves nothing. */
START_TEST(what_cannot_be_read_counts_as_scarce)
{
	put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
	put("/proc/self/cgroup", "0::/a\n");
	group("/a", "memory.max", "1000000\n");
	group("/a", "memory.current", "1000\n");
	closed = limits[_i];
	closed_error = EMFILE;
	closed_times = 1;
	ck_assert(vs_host_budget_scarce());
	ck_assert(!vs_host_budget_scarce());
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_loop_test(tc,
	what_the_machine_has_available_is_read_in_bytes, 0,
		COUNT(infos));
	tcase_add_test(tc, where_nothing_can_be_read_there_is_no_limit);
	tcase_add_test(tc, a_group_leaves_its_limit_less_what_is_used);
	tcase_add_test(tc,
		page_cache_that_the_kernel_would_drop_does_not_count_as_used);
	tcase_add_test(tc, a_group_over_its_limit_leaves_nothing);
	tcase_add_test(tc, a_group_without_a_limit_leaves_all);
	tcase_add_loop_test(tc, the_tightest_of_the_groups_above_decides, 0, 3);
	tcase_add_test(tc, the_root_of_a_container_is_looked_at);
	tcase_add_test(tc,
		the_memory_controller_of_version_1_is_read_where_it_is);
	tcase_add_test(tc, of_both_versions_the_tighter_one_decides);
	tcase_add_test(tc, lines_that_are_no_lines_are_left_out);
	tcase_add_test(tc, descriptors_are_closed_on_exec_and_closed);
	tcase_add_loop_test(tc, a_limit_that_cannot_be_read_leaves_nothing, 0,
			    COUNT(limits));
	tcase_add_test(tc,
	what_is_free_counts_where_what_is_available_cannot_be_read);
	tcase_add_loop_test(tc,
	the_budget_is_the_setting_or_the_machine_within_the_group, 0,
		COUNT(budgets));
	tcase_add_loop_test(tc,
	the_machine_is_short_of_memory_below_a_tenth_of_it, 0,
		COUNT(machines));
	tcase_add_test(tc, where_nothing_can_be_read_memory_is_not_scarce);
	tcase_add_loop_test(tc,
		any_of_the_groups_above_may_be_short_of_memory, 0, 3);
	tcase_add_test(tc, a_group_of_version_1_may_be_short_of_memory);
	tcase_add_loop_test(tc, what_cannot_be_read_counts_as_scarce, 0,
			    COUNT(limits));
}

int main(void)
{
	return fixture_main("host_budget", fill);
}
