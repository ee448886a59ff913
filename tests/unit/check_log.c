/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/log.h"
#include "base/why.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 4
#define LINES 250

static char path[] = "/tmp/vsleep-check-XXXXXX";
static int err;

static void set_up(void)
{
	int fd = mkstemp(path);
	FILE *file = tmpfile();

	ck_assert_int_ge(fd, 0);
	close(fd);
	unlink(path);
	ck_assert_ptr_nonnull(file);
	err = fileno(file);
	ck_assert_int_eq(dup2(err, STDERR_FILENO), STDERR_FILENO);
}

static void tear_down(void)
{
	unlink(path);
}

static const char *read_all(int fd)
{
	static char text[1 << 17];
	ssize_t size = pread(fd, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(size, 0);
	text[size] = '\0';
	return text;
}

static const char *logged(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *text;

	ck_assert_int_ge(fd, 0);
	text = read_all(fd);
	close(fd);
	return text;
}

static const char *line_of(const char *word, const char *text)
{
	static char line[128];

	snprintf(line, sizeof(line), "vsleep[%d] %s: %s\n", (int)getpid(),
		 word, text);
	return line;
}

static void write_each_level(void)
{
	vs_log_error("one %d", 1);
	vs_log_warn("two");
	vs_log_info("three");
	vs_log_debug("four");
	vs_log_trace("five");
}

START_TEST(without_a_file_warnings_and_errors_go_to_stderr)
{
	char both[256];

	vs_log_open(NULL, VS_LOG_TRACE);
	write_each_level();
	strcpy(both, line_of("error", "one 1"));
	strcat(both, line_of("warning", "two"));
	ck_assert_str_eq(read_all(err), both);
}
END_TEST

START_TEST(a_file_gets_all_lines_up_to_the_level)
{
	static const char *const words[] = {
		"error", "warning", "info", "debug", "trace",
	};
	static const char *const texts[] = {
		"one 1", "two", "three", "four", "five",
	};
	char all[512] = "";
	int i;

	vs_log_open(path, (enum vs_log_level)_i);
	write_each_level();
	for (i = 0; i <= _i; i++)
		strcat(all, line_of(words[i], texts[i]));
	ck_assert_str_eq(logged(), all);
	ck_assert_str_eq(read_all(err), "");
}
END_TEST

START_TEST(lines_are_appended_to_a_private_file)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	struct stat st;

	ck_assert_int_eq(write(fd, "before\n", 7), 7);
	close(fd);
	vs_log_open(path, VS_LOG_INFO);
	vs_log_info("after");
	ck_assert(!strncmp(logged(), "before\nvsleep[", 14));
	unlink(path);
	umask(0);
	vs_log_open(path, VS_LOG_INFO);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

/* The log's descriptor is the lowest that is free when it is opened. */
START_TEST(a_program_that_is_executed_does_not_get_the_file)
{
	int next = dup(err);

	close(next);
	vs_log_open(path, VS_LOG_INFO);
	ck_assert_int_eq(fcntl(next, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_said_and_stderr_used)
{
	vs_log_open("/nonexistent/vsleep.log", VS_LOG_TRACE);
	ck_assert_ptr_nonnull(strstr(read_all(err),
				     "VSLEEP_LOG=/nonexistent/vsleep.log: "));
	vs_log_info("not this");
	vs_log_warn("this");
	ck_assert_ptr_nonnull(strstr(read_all(err),
				     line_of("warning", "this")));
	ck_assert_ptr_null(strstr(read_all(err), "not this"));
}
END_TEST

START_TEST(a_long_line_is_cut_and_still_ends)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	vs_log_open(path, VS_LOG_INFO);
	vs_log_info("%s", text);
	vs_log_info("next");
	ck_assert_ptr_nonnull(strstr(logged(), "xx\nvsleep["));
	ck_assert_ptr_nonnull(strstr(logged(), line_of("info", "next")));
	ck_assert_uint_gt(strlen(logged()), 400);
}
END_TEST

START_TEST(errno_is_kept)
{
	vs_log_open(path, VS_LOG_INFO);
	errno = EXDEV;
	vs_log_info("one");
	ck_assert_int_eq(errno, EXDEV);
	ck_assert_int_ge(dup2(open("/dev/full", O_WRONLY), STDERR_FILENO), 0);
	vs_log_open("/nonexistent/x", VS_LOG_INFO);
	errno = EXDEV;
	vs_log_error("nobody reads this");
	ck_assert_int_eq(errno, EXDEV);
}
END_TEST

static void *write_lines(void *letter)
{
	int i;

	for (i = 0; i < LINES; i++)
		vs_log_info("%s%s%s", (const char *)letter,
			    (const char *)letter, (const char *)letter);
	return NULL;
}

START_TEST(lines_of_several_threads_stay_whole)
{
	static char letters[THREADS][32];
	const char *at, *text;
	pthread_t threads[THREADS];
	char want[THREADS][400];
	int i, lines = 0;

	vs_log_open(path, VS_LOG_INFO);
	for (i = 0; i < THREADS; i++) {
		memset(letters[i], 'a' + i, sizeof(letters[i]) - 1);
		snprintf(want[i], sizeof(want[i]), "info: %s%s%s\n",
			 letters[i], letters[i], letters[i]);
		pthread_create(&threads[i], NULL, write_lines, letters[i]);
	}
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	text = logged();
	for (at = text; (at = strstr(at, "info: ")); lines++) {
		i = at[6] - 'a';
		ck_assert(i >= 0 && i < THREADS);
		ck_assert(!strncmp(at, want[i], strlen(want[i])));
		at += strlen(want[i]);
	}
	ck_assert_int_eq(lines, THREADS * LINES);
}
END_TEST

START_TEST(a_cause_is_kept_with_its_code_and_cut_to_fit)
{
	struct vs_why why = { .status = VS_OK };
	char text[1000];

	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(vs_why_set(NULL, VS_BUSY, "%s", text), VS_BUSY);
	ck_assert_int_eq(vs_why_set(&why, VS_NOMEM, "need %d", 7), VS_NOMEM);
	ck_assert_int_eq(why.status, VS_NOMEM);
	ck_assert_str_eq(why.text, "need 7");
	vs_why_set(&why, VS_CUDA, "%s", text);
	ck_assert_uint_eq(strlen(why.text), sizeof(why.text) - 1);
	ck_assert_str_eq(vs_why_word(VS_NOHOST), "no-host-memory");
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, without_a_file_warnings_and_errors_go_to_stderr);
	tcase_add_loop_test(tc, a_file_gets_all_lines_up_to_the_level, 0, 5);
	tcase_add_test(tc, lines_are_appended_to_a_private_file);
	tcase_add_test(tc, a_program_that_is_executed_does_not_get_the_file);
	tcase_add_test(tc,
		a_file_that_cannot_be_opened_is_said_and_stderr_used);
	tcase_add_test(tc, a_long_line_is_cut_and_still_ends);
	tcase_add_test(tc, errno_is_kept);
	tcase_add_test(tc, lines_of_several_threads_stay_whole);
	tcase_add_test(tc, a_cause_is_kept_with_its_code_and_cut_to_fit);
}

int main(void)
{
	return fixture_main("log", fill);
}
