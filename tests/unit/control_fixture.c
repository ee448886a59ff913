/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control_fixture.h"

#include "base/config.h"
#include "base/log.h"
#include "base/tag.h"
#include "control/server.h"
#include "sleep/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

char fixture_dir[64];
static char base_dir[32];
static char log_path[64];

void fixture_open(void)
{
	struct vs_why why;

	strcpy(base_dir, "/tmp/vsleep-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base_dir));
	snprintf(fixture_dir, sizeof(fixture_dir), "%s/run", base_dir);
	snprintf(log_path, sizeof(log_path), "%s/log", base_dir);
	vs_config_read();
	vs_config.dir = fixture_dir;
	vs_config.signals = "USR1,USR2";
	vs_log_open(log_path, VS_LOG_DEBUG);
	vs_tag_init("default", "");
	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void fixture_close(void)
{
	vs_server_stop();
	nftw(base_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void fixture_start(void)
{
	struct vs_why why;

	ck_assert_int_eq(vs_server_start(&why), VS_OK);
}

const char *fixture_path(void)
{
	static char path[4096];
	struct stat st;

	ck_assert_int_eq(stat("/proc/self/ns/pid", &st), 0);
	if (st.st_ino == 4026531836u)
		snprintf(path, sizeof(path), "%s/%d.sock", vs_config.dir,
			 (int)getpid());
	else
		snprintf(path, sizeof(path), "%s/%d-%lu.sock", vs_config.dir,
			 (int)getpid(), (unsigned long)st.st_ino);
	return path;
}

int fixture_try(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int saved;

	ck_assert_int_ge(fd, 0);
	ck_assert_uint_lt(strlen(path), sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int fixture_connect(void)
{
	int fd = fixture_try(fixture_path());

	ck_assert_msg(fd >= 0, "%s: %s", fixture_path(), strerror(errno));
	return fd;
}

void fixture_send(int fd, const char *text)
{
	size_t len = strlen(text);

	ck_assert_int_eq(send(fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

const char *fixture_line(int fd)
{
	static char line[1024];
	size_t len = 0;

	while (len < sizeof(line) - 1 && recv(fd, line + len, 1, 0) == 1) {
		if (line[len] == '\n')
			break;
		len++;
	}
	line[len] = '\0';
	return line;
}

const char *fixture_read(int fd)
{
	static char text[FIXTURE_TEXT];
	size_t len = 0;

	while (len < sizeof(text) - 1 && recv(fd, text + len, 1, 0) == 1) {
		len++;
		if (len > 1 && text[len - 1] == '\n' && text[len - 2] == '\n')
			break;
	}
	text[len] = '\0';
	return text;
}

const char *fixture_ask(int fd, const char *text)
{
	fixture_send(fd, text);
	return fixture_read(fd);
}

void fixture_assert_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	ck_assert_msg(n == 0 || (n < 0 && errno == ECONNRESET),
		      "not closed: %zd", n);
}

const char *fixture_log(void)
{
	static char text[FIXTURE_TEXT];
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	ck_assert_int_ge(fd, 0);
	len = read(fd, text, sizeof(text) - 1);
	ck_assert_int_ge(len, 0);
	text[len] = '\0';
	close(fd);
	return text;
}

int fixture_main(const char *name, void (*fill)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, fixture_open, fixture_close);
	tcase_set_timeout(tc, 30);
	fill(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
