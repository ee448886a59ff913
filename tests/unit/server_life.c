/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "server_life.h"
#include "life.h"

#include "base/config.h"
#include "control/server.h"
#include "control/socket.h"
#include "sleep/operation.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* This file's own calls do not fail. */
int __real_socket(int domain, int type, int protocol);
ssize_t __real_send(int fd, const void *buf, size_t size, int flags);
ssize_t __real_recv(int fd, void *buf, size_t size, int flags);

#define TRIES 4

static char dir[] = "/tmp/vsleep-check-XXXXXX";
static char path[VS_SOCKET_PATH_MAX];
static int descriptors;

static int count_descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	int count = 0;

	if (!list)
		life_fail("no /proc/self/fd");
	while (readdir(list))
		count++;
	closedir(list);
	return count;
}

/* The only file in the folder: its name depends on the PID namespace. */
static bool find_socket(void)
{
	DIR *list = opendir(dir);
	struct dirent *entry;

	path[0] = '\0';
	while (list && (entry = readdir(list)))
		if (strstr(entry->d_name, ".sock"))
			snprintf(path, sizeof(path), "%s/%.60s", dir,
				 entry->d_name);
	if (list)
		closedir(list);
	return path[0];
}

static int ask(const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		life_fail("connect: %s", strerror(errno));
	__real_send(fd, text, strlen(text), MSG_NOSIGNAL);
	return fd;
}

/* "status=ok" in a whole answer; false when the connection ended first. */
static bool answered(int fd)
{
	char text[16384];
	size_t len = 0;
	ssize_t n;

	do {
		n = __real_recv(fd, text + len, sizeof(text) - 1 - len, 0);
		len += n > 0 ? (size_t)n : 0;
		text[len] = '\0';
	} while (n > 0 && !strstr(text, "\n\n"));
	close(fd);
	if (!strstr(text, "\n\n"))
		return false;
	if (!strstr(text, "status=ok\n"))
		life_fail("answer: %s", text);
	return true;
}

/* A client whose connection ends asks again. */
static void get(const char *text)
{
	int i;

	for (i = 0; i < TRIES; i++)
		if (answered(ask(text)))
			return;
	life_fail("no answer to %s", text);
}

void server_life_begin(void)
{
	struct vs_why why;

	life_begin();
	if (!mkdtemp(dir))
		life_fail("no folder");
	vs_config.dir = dir;
	if (vs_operation_start(&why))
		life_fail("%s", why.text);
	descriptors = count_descriptors();
}

static bool start(void)
{
	struct vs_why why = { .status = VS_OK };

	return !vs_server_start(&why) && find_socket();
}

static void stop(void)
{
	vs_server_stop();
	if (find_socket())
		life_fail("a socket is left");
}

/* With a fault that lasts a client may have to wait until it is over. */
void server_life_run(void)
{
	if (!start()) {
		stop();
		if (!start() && !life_lasts())
			life_fail("the second start failed");
	}
	if (life_lasts())
		return;
	get("vsleep 1 status\n\n");
	get("vsleep 1 sleep\nlevel=1\n\n");
	get("vsleep 1 wake\n\n");
	get("vsleep 1 status\n\n");
}

void server_life_end(void)
{
	if (!find_socket()) {
		stop();
		if (!start())
			life_fail("no start when the fault is over");
	}
	get("vsleep 1 sleep\nlevel=1\n\n");
	get("vsleep 1 wake\n\n");
	get("vsleep 1 status\n\n");
	stop();
	/* The pipe for signals stays, with both its ends. */
	if (count_descriptors() > descriptors + 2)
		life_fail("%d descriptors more than before",
			  count_descriptors() - descriptors);
	rmdir(dir);
}
