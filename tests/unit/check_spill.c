/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "spill_fixture.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {
	1, 511, 4096, 4097, MIB + 3, VS_PAGE - 4096, VS_PAGE - 1, VS_PAGE,
};

#define SLOTS COUNT(sizes)

static uint32_t slots[SLOTS];

static char *memory(void)
{
	char *p = aligned_alloc(4096, VS_PAGE + 4096);

	ck_assert_ptr_nonnull(p);
	return p;
}

static void pattern(char *at, size_t size, unsigned seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		at[i] = (char)((i * 31 + (i >> 12)) ^ seed);
}

/* Status of the first that fails; what was read is right, and no more than
 * was asked for. */
static enum vs_status there_and_back(size_t shift, struct vs_why *why)
{
	char *data = memory(), *back = memory();
	enum vs_status st = vs_spill_take(SLOTS, slots, why);
	bool taken = !st;
	int i;

	for (i = 0; !st && i < SLOTS; i++) {
		pattern(data + shift, sizes[i], (unsigned)i);
		st = vs_spill_write(slots[i], data + shift, sizes[i], why);
	}
	for (i = 0; !st && i < SLOTS; i++) {
		pattern(data + shift, sizes[i], (unsigned)i);
		memset(back, 0x55, VS_PAGE + 4096);
		st = vs_spill_read(slots[i], back + shift, sizes[i], why);
		ck_assert(st || !memcmp(data + shift, back + shift, sizes[i]));
		ck_assert_int_eq(back[shift + sizes[i]], 0x55);
	}
	ck_assert_uint_eq(vs_spill_bytes(), taken ? SLOTS * VS_PAGE : 0);
	if (taken) {
		vs_spill_free(slots + 1, SLOTS - 1);
		vs_spill_free(slots, 1);
	}
	free(data);
	free(back);
	return st;
}

/* _i: how far from its alignment the memory is. */
START_TEST(what_was_written_comes_back)
{
	struct vs_why why;

	spill_set_up();
	ck_assert_int_eq(there_and_back((size_t)_i, &why), VS_OK);
	spill_assert_nothing();
}
END_TEST

START_TEST(the_file_is_private_and_has_no_name)
{
	struct vs_why why;
	struct stat st;
	blkcnt_t full;
	int fd;

	spill_set_up();
	ck_assert(vs_spill_wanted());
	ck_assert_int_eq(vs_spill_take(4, slots, &why), VS_OK);
	fd = spill_descriptor();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
	ck_assert_uint_eq(st.st_nlink, 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_ge(st.st_size, (off_t)(4 * VS_PAGE));
	full = st.st_blocks;
	ck_assert_uint_eq(spill_files(), 0);
	vs_spill_free(slots + 1, 3);
	ck_assert_uint_eq(vs_spill_bytes(), VS_PAGE);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, (off_t)VS_PAGE);
	ck_assert_int_lt(st.st_blocks, full);
	vs_spill_free(slots, 1);
	spill_assert_nothing();
}
END_TEST

START_TEST(space_of_a_slot_in_the_middle_goes_back_and_is_used_again)
{
	struct vs_why why;
	struct stat st;
	uint32_t again;
	blkcnt_t full;
	int fd;

	spill_set_up();
	ck_assert_int_eq(vs_spill_take(3, slots, &why), VS_OK);
	fd = spill_descriptor();
	ck_assert_int_eq(fstat(fd, &st), 0);
	full = st.st_blocks;
	vs_spill_free(slots + 1, 1);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_lt(st.st_blocks, full);
	ck_assert_int_eq(vs_spill_take(1, &again, &why), VS_OK);
	ck_assert_uint_eq(again, slots[1]);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_blocks, full);
	vs_spill_free(slots, 3);
	spill_assert_nothing();
}
END_TEST

START_TEST(more_than_there_is_is_refused_with_both_figures)
{
	struct vs_why why;

	spill_set_up();
	ck_assert_int_eq(vs_spill_take((size_t)1 << 31, slots, &why),
			 VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, spill_folder));
	ck_assert_ptr_nonnull(strstr(why.text, "need 4294967296 MiB, has "));
	spill_assert_nothing();
}
END_TEST

static void refused(const char *folder, const char *reason)
{
	struct vs_why why;

	vs_config.spill_dir = folder;
	ck_assert(!vs_spill_wanted());
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, folder));
	ck_assert_ptr_nonnull(strstr(why.text, reason));
	spill_assert_nothing();
}

START_TEST(a_folder_that_is_none_is_refused_by_name)
{
	char path[128];
	struct vs_why why;
	int fd;

	spill_set_up();
	refused("spill", "must be an absolute path");
	snprintf(path, sizeof(path), "%s/none", spill_folder);
	refused(path, "there must be such a folder");
	fd = open(path, O_CREAT | O_RDWR, 0600);
	close(fd);
	refused(path, "must be a folder");
	unlink(path);
	chmod(spill_folder, 0777);
	refused(spill_folder, "must not be writable by all");
	chmod(spill_folder, 01777);
	ck_assert_int_eq(symlink(spill_folder, path), 0);
	vs_config.spill_dir = path;
	ck_assert(vs_spill_wanted());
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_OK);
	vs_spill_free(slots, 1);
	unlink(path);
	vs_config.spill_dir = "";
	ck_assert(!vs_spill_wanted());
	spill_assert_nothing();
}
END_TEST

START_TEST(a_folder_of_another_user_is_refused)
{
	spill_set_up();
	if (chown(spill_folder, 4711, 4711))
		return;	/* for root only */
	refused(spill_folder, "must belong to this user or to root");
}
END_TEST

START_TEST(a_folder_without_permission_is_refused)
{
	spill_set_up();
	chmod(spill_folder, 0500);
	if (!geteuid())
		spill_fault("faccessat", 1, EACCES, true);
	refused(spill_folder, "must be writable");
}
END_TEST

static void *write_past_limit(void *arg)
{
	struct vs_why *why = arg;
	char *data = memory();

	why->status = vs_spill_write(slots[1], data, VS_PAGE, why);
	free(data);
	return NULL;
}

START_TEST(the_limit_of_a_file_is_an_error_and_no_signal)
{
	struct rlimit limit = { .rlim_cur = VS_PAGE, .rlim_max = VS_PAGE };
	pthread_t thread;
	struct vs_why why;

	spill_set_up();
	ck_assert_int_eq(vs_spill_take(2, slots, &why), VS_OK);
	setrlimit(RLIMIT_FSIZE, &limit);
	ck_assert_int_eq(vs_thread_start(&thread, "test", write_past_limit,
					 &why), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(why.status, VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, strerror(EFBIG)));
	vs_spill_free(slots, 2);
	ck_assert_int_eq(vs_spill_take(2, slots, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "need a file of 4 MiB, may "
				     "have 2 MiB"));
	spill_assert_nothing();
}
END_TEST

/* One call fails, once or for good: right bytes, or an error; no leak. */
static unsigned long tried, failed;

static void try_fault(const char *name, unsigned nth, int code, bool lasting)
{
	struct vs_why why = { .text = "" };
	enum vs_status st;

	spill_fault(name, nth, code, lasting);
	st = there_and_back(0, &why);
	spill_fault(NULL, 0, 0, false);
	ck_assert_msg(!st || strstr(why.text, spill_folder), "%s, call %u: "
		      "%s", name, nth, why.text);
	failed += st != VS_OK;
	tried++;
	spill_assert_nothing();
	ck_assert_uint_eq(spill_files(), 0);
}

/* With the third fstat on it is asked whether a descriptor still is ours; one
 * of which that is not known stays open. */
static unsigned long count_of(const char *name)
{
	unsigned long count = spill_count(name);

	ck_assert_msg(count || !strcmp(name, "unlinkat"), "no %s", name);
	return count > 2 && !strcmp(name, "syscall") ? 2 : count;
}

START_TEST(every_call_that_fails_gives_an_error_or_right_bytes)
{
	struct vs_why why;
	const char *const *name;
	unsigned long count;
	const int *code;
	unsigned nth;

	spill_set_up();
	for (name = spill_calls; *name; name++) {
		spill_fault(NULL, 0, 0, false);
		ck_assert_int_eq(there_and_back(0, &why), VS_OK);
		count = count_of(*name);
		for (code = spill_codes(*name); *code; code++)
			for (nth = 1; nth <= count; nth++) {
				try_fault(*name, nth, *code, false);
				if (*code != EINTR &&
				    strcmp(*name, "syscall"))
					try_fault(*name, nth, *code, true);
			}
	}
	ck_assert_uint_gt(failed, 10);
	ck_assert_uint_gt(tried, failed);
}
END_TEST

START_TEST(a_failed_write_or_read_is_an_error)
{
	struct vs_why why;

	spill_set_up();
	spill_fault("pwrite", 1, EIO, true);
	ck_assert_int_eq(there_and_back(0, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "write failed"));
	spill_fault("pread", 1, EIO, true);
	ck_assert_int_eq(there_and_back(0, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "read failed"));
	spill_fault("fdatasync", 1, EIO, true);
	ck_assert_int_eq(there_and_back(1, &why), VS_NOHOST);
	spill_fault("fallocate", 3, ENOSPC, false);
	ck_assert_int_eq(there_and_back(0, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, strerror(ENOSPC)));
	spill_assert_nothing();
}
END_TEST

/* _i: bytes that a call moves at most. */
START_TEST(short_writes_and_reads_are_continued)
{
	struct vs_why why;

	spill_set_up();
	spill_most = (size_t)_i * 1000;
	ck_assert_int_eq(there_and_back(0, &why), VS_OK);
	spill_assert_nothing();
}
END_TEST

START_TEST(a_file_system_without_unnamed_files_will_do)
{
	struct vs_why why;

	spill_set_up();
	spill_fault("openat", 1, EOPNOTSUPP, false);
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_OK);
	ck_assert_uint_eq(spill_files(), 0);
	vs_spill_free(slots, 1);
	spill_fault("fallocate", 1, EOPNOTSUPP, true);
	ck_assert_int_eq(there_and_back(0, &why), VS_OK);
	spill_assert_nothing();
}
END_TEST

START_TEST(a_forked_child_does_not_have_the_file)
{
	struct vs_why why;
	int status;

	spill_set_up();
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_OK);
	if (!fork())
		_exit(spill_descriptor() >= 0 || vs_spill_bytes());
	wait(&status);
	ck_assert_int_eq(status, 0);
	ck_assert_int_ge(spill_descriptor(), 0);
	vs_spill_free(slots, 1);
}
END_TEST

START_TEST(a_file_in_place_of_ours_is_not_written_to)
{
	char *data = memory();
	struct vs_why why;
	struct stat st;
	int fd, other;

	spill_set_up();
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_OK);
	other = memfd_create("other", MFD_CLOEXEC);
	while ((fd = spill_descriptor()) >= 0)
		ck_assert_int_eq(dup2(other, fd), fd);
	ck_assert_int_eq(vs_spill_write(slots[0], data, VS_PAGE, &why),
			 VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "has closed the file"));
	ck_assert_int_eq(vs_spill_read(slots[0], data, VS_PAGE, &why),
			 VS_NOHOST);
	ck_assert_int_eq(vs_spill_take(1, slots + 1, &why), VS_NOHOST);
	vs_spill_free(slots, 1);
	ck_assert_int_eq(fstat(other, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(vs_spill_take(1, slots, &why), VS_OK);
	vs_spill_free(slots, 1);
	free(data);
}
END_TEST

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool well = fd >= 0 && write(fd, text, strlen(text)) > 0;

	close(fd);
	return well;
}

/* With a file system of 8 MiB for a folder; false: that is not allowed. */
static bool small_folder(void)
{
	char user[32], group[32];

	snprintf(user, sizeof(user), "0 %u 1", (unsigned)geteuid());
	snprintf(group, sizeof(group), "0 %u 1", (unsigned)getegid());
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) &&
	       put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", user) &&
	       put("/proc/self/gid_map", group) &&
	       !mount("spill", spill_folder, "tmpfs", 0, "size=8m");
}

START_TEST(a_file_system_that_gets_full_is_an_error)
{
	char *data = memory();
	struct vs_why why;
	char path[128];
	int fd;

	spill_set_up();
	if (!small_folder())
		return;
	ck_assert_int_eq(vs_spill_take(5, slots, &why), VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, "need 10 MiB, has 8 MiB"));
	spill_assert_nothing();
	spill_fault("fallocate", 1, EOPNOTSUPP, true);
	ck_assert_int_eq(vs_spill_take(4, slots, &why), VS_OK);
	snprintf(path, sizeof(path), "%s/other", spill_folder);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_eq(posix_fallocate(fd, 0, 7 * (off_t)MIB), 0);
	ck_assert_int_eq(vs_spill_write(slots[0], data, VS_PAGE, &why),
			 VS_NOHOST);
	ck_assert_ptr_nonnull(strstr(why.text, strerror(ENOSPC)));
	close(fd);
	vs_spill_free(slots, 4);
	spill_assert_nothing();
	free(data);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, NULL, spill_tear_down);
	tcase_add_loop_test(tc, what_was_written_comes_back, 0, 2);
	tcase_add_test(tc, the_file_is_private_and_has_no_name);
	tcase_add_test(tc,
		space_of_a_slot_in_the_middle_goes_back_and_is_used_again);
	tcase_add_test(tc, more_than_there_is_is_refused_with_both_figures);
	tcase_add_test(tc, a_folder_that_is_none_is_refused_by_name);
	tcase_add_test(tc, a_folder_of_another_user_is_refused);
	tcase_add_test(tc, a_folder_without_permission_is_refused);
	tcase_add_test(tc, the_limit_of_a_file_is_an_error_and_no_signal);
	tcase_add_test(tc,
		every_call_that_fails_gives_an_error_or_right_bytes);
	tcase_add_test(tc, a_failed_write_or_read_is_an_error);
	tcase_add_loop_test(tc, short_writes_and_reads_are_continued, 50, 53);
	tcase_add_test(tc, a_file_system_without_unnamed_files_will_do);
	tcase_add_test(tc, a_forked_child_does_not_have_the_file);
	tcase_add_test(tc, a_file_in_place_of_ours_is_not_written_to);
	tcase_add_test(tc, a_file_system_that_gets_full_is_an_error);
}

int main(void)
{
	return fixture_main("spill", fill);
}
