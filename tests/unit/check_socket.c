/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control_fixture.h"
#include "stub_operation.h"

#include "base/config.h"
#include "control/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS "vsleep 1 status\n\n"
#define NOBODY 65534

static unsigned mode_of(const char *path)
{
	struct stat st;

	ck_assert_msg(!lstat(path, &st), "%s: %s", path, strerror(errno));
	return st.st_mode & 07777;
}

static void assert_answers(void)
{
	int fd = fixture_connect();

	ck_assert(!strncmp(fixture_ask(fd, STATUS), "status=ok\n", 10));
	close(fd);
}

/* No socket, one line in the log that says @why, and signals still work. */
static void assert_no_socket(const char *why)
{
	char line[160];
	const char *first;

	fixture_start();
	snprintf(line, sizeof(line), "no control socket");
	first = strstr(fixture_log(), line);
	ck_assert_ptr_nonnull(first);
	ck_assert_msg(strstr(first, why) != NULL, "no \"%s\" in %s", why,
		      first);
	vs_server_poke(VS_VERB_SLEEP);
	stub_wait_submitted(1, NULL);
}

START_TEST(directory_and_socket_are_the_users_alone)
{
	umask(0);
	fixture_start();
	ck_assert_uint_eq(mode_of(fixture_dir), 0700);
	ck_assert_uint_eq(mode_of(fixture_path()), 0600);
	assert_answers();
}
END_TEST

START_TEST(a_strict_umask_is_made_up_for_and_kept)
{
	umask(0777);
	fixture_start();
	ck_assert_uint_eq(mode_of(fixture_dir), 0700);
	ck_assert_uint_eq(mode_of(fixture_path()), 0600);
	assert_answers();
	ck_assert_uint_eq(umask(0), 0777);
}
END_TEST

START_TEST(stopping_leaves_nothing_behind)
{
	fixture_start();
	vs_server_stop();
	ck_assert_int_eq(rmdir(fixture_dir), 0);
}
END_TEST

START_TEST(only_the_process_that_made_the_socket_unlinks_it)
{
	pid_t child;
	int status;

	fixture_start();
	child = fork();
	if (!child) {
		vs_server_stop();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	assert_answers();
}
END_TEST

START_TEST(a_socket_that_a_dead_process_left_is_replaced)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	ck_assert_int_eq(mkdir(fixture_dir, 0700), 0);
	strcpy(address.sun_path, fixture_path());
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address,
			      sizeof(address)), 0);
	close(fd);
	ck_assert_int_eq(fixture_try(fixture_path()), -1);
	ck_assert_int_eq(errno, ECONNREFUSED);
	fixture_start();
	assert_answers();
}
END_TEST

START_TEST(a_trailing_slash_names_the_same_directory)
{
	static char slashed[80];

	snprintf(slashed, sizeof(slashed), "%s//", fixture_dir);
	vs_config.dir = slashed;
	fixture_start();
	ck_assert_uint_eq(mode_of(fixture_dir), 0700);
	assert_answers();
}
END_TEST

/* Make a directory whose socket has a path of @len characters. */
static void set_length(size_t len)
{
	static char dir[256];
	size_t rest = strlen(strrchr(fixture_path(), '/'));
	size_t at = strlen(fixture_dir);

	ck_assert_uint_gt(len, at + 1 + rest);
	strcpy(dir, fixture_dir);
	dir[at - 3] = '\0';		/* "run" */
	at -= 3;
	while (at < len - rest)
		dir[at++] = 'd';
	dir[at] = '\0';
	vs_config.dir = dir;
	ck_assert_uint_eq(strlen(fixture_path()), len);
}

START_TEST(a_path_of_107_characters_is_used)
{
	set_length(107);
	fixture_start();
	assert_answers();
}
END_TEST

static const size_t lengths[] = { 108, 109, 200 };

START_TEST(a_longer_path_is_refused_and_not_cut)
{
	char numbers[64];

	set_length(lengths[_i]);
	snprintf(numbers, sizeof(numbers),
		 "takes %zu characters and at most 107 fit", lengths[_i]);
	assert_no_socket(numbers);
	ck_assert_int_eq(access(vs_config.dir, F_OK), -1);
}
END_TEST

START_TEST(a_symbolic_link_is_refused_as_directory)
{
	char target[80];
	static char slashed[80];

	snprintf(target, sizeof(target), "%s.real", fixture_dir);
	ck_assert_int_eq(mkdir(target, 0700), 0);
	ck_assert_int_eq(symlink(target, fixture_dir), 0);
	snprintf(slashed, sizeof(slashed), "%s/", fixture_dir);
	if (_i)
		vs_config.dir = slashed;
	assert_no_socket("is a symbolic link");
	ck_assert_int_eq(rmdir(target), 0);
}
END_TEST

START_TEST(a_directory_open_to_others_is_refused)
{
	ck_assert_int_eq(mkdir(fixture_dir, 0700), 0);
	ck_assert_int_eq(chmod(fixture_dir, 0755), 0);
	assert_no_socket("has mode 0755; it must be 0700");
	ck_assert_uint_eq(mode_of(fixture_dir), 0755);
	ck_assert_int_eq(rmdir(fixture_dir), 0);
}
END_TEST

START_TEST(a_file_is_refused_as_directory)
{
	FILE *file = fopen(fixture_dir, "w");

	ck_assert_ptr_nonnull(file);
	fclose(file);
	assert_no_socket("is not a directory");
}
END_TEST

START_TEST(a_relative_directory_is_refused)
{
	vs_config.dir = "run";
	assert_no_socket("VSLEEP_DIR=run: must be an absolute path");
}
END_TEST

START_TEST(a_directory_without_a_parent_is_refused)
{
	static char deep[96];

	snprintf(deep, sizeof(deep), "%s/a/b", fixture_dir);
	vs_config.dir = deep;
	assert_no_socket("No such file or directory");
}
END_TEST

START_TEST(without_setting_the_runtime_directory_is_used)
{
	static char dir[80];

	ck_assert_int_eq(mkdir(fixture_dir, 0700), 0);
	setenv("XDG_RUNTIME_DIR", fixture_dir, 1);
	vs_config.dir = "";
	fixture_start();
	snprintf(dir, sizeof(dir), "%s/vsleep", fixture_dir);
	vs_config.dir = dir;
	assert_answers();
}
END_TEST

START_TEST(another_users_directory_is_refused)
{
	ck_assert_int_eq(mkdir(fixture_dir, 0700), 0);
	ck_assert_int_eq(chown(fixture_dir, NOBODY, NOBODY), 0);
	assert_no_socket("belongs to user 65534");
}
END_TEST

/* Where the modes did not keep them out, the credentials do. */
START_TEST(another_user_is_turned_away_without_a_look_at_the_state)
{
	const char *path = fixture_path();
	char answer[256] = "";
	int ends[2];
	pid_t child;
	int fd;

	fixture_start();
	ck_assert_int_eq(chmod(fixture_dir, 0711), 0);
	strcpy(answer, fixture_dir);
	*strrchr(answer, '/') = '\0';
	ck_assert_int_eq(chmod(answer, 0711), 0);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		if (setuid(NOBODY))
			_exit(1);
		fd = fixture_try(path);
		if (fd < 0)
			_exit(2);
		strncpy(answer, fixture_read(fd), sizeof(answer) - 1);
		_exit(write(ends[1], answer, sizeof(answer)) !=
		      sizeof(answer));
	}
	ck_assert_int_eq(read(ends[0], answer, sizeof(answer)),
			 sizeof(answer));
	ck_assert_str_eq(answer, "status=refused\nmessage=only root and the "
			 "user of this process may ask\n\n");
	waitpid(child, NULL, 0);
	assert_answers();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, directory_and_socket_are_the_users_alone);
	tcase_add_test(tc, a_strict_umask_is_made_up_for_and_kept);
	tcase_add_test(tc, stopping_leaves_nothing_behind);
	tcase_add_test(tc, only_the_process_that_made_the_socket_unlinks_it);
	tcase_add_test(tc, a_socket_that_a_dead_process_left_is_replaced);
	tcase_add_test(tc, a_trailing_slash_names_the_same_directory);
	tcase_add_test(tc, a_path_of_107_characters_is_used);
	tcase_add_loop_test(tc, a_longer_path_is_refused_and_not_cut, 0, 3);
	tcase_add_loop_test(tc, a_symbolic_link_is_refused_as_directory, 0, 2);
	tcase_add_test(tc, a_directory_open_to_others_is_refused);
	tcase_add_test(tc, a_file_is_refused_as_directory);
	tcase_add_test(tc, a_relative_directory_is_refused);
	tcase_add_test(tc, a_directory_without_a_parent_is_refused);
	tcase_add_test(tc, without_setting_the_runtime_directory_is_used);
	if (geteuid())
		return;
	/* These take a second user, which only root has. */
	tcase_add_test(tc, another_users_directory_is_refused);
	tcase_add_test(tc,
		another_user_is_turned_away_without_a_look_at_the_state);
}

int main(void)
{
	return fixture_main("socket", fill);
}
