/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_socket - ask the vsleep of this very process, over its socket: thousands
 * of operations take seconds so.
 */
#ifndef VS_TEST_OWN_SOCKET_H
#define VS_TEST_OWN_SOCKET_H

#include "prog.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char own_answer[32768];

static inline int own_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char space[32] = "";
	struct stat st;

	/* The first PID namespace goes without saying. */
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != 4026531836)
		snprintf(space, sizeof(space), "-%lu",
			 (unsigned long)st.st_ino);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d%s.sock",
		 getenv("VSLEEP_DIR"), (int)getpid(), space);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		perror(address.sun_path);
		exit(3);
	}
	return fd;
}

/* The answer to `lines`, without its empty line, in own_answer. */
static inline void own_ask(int fd, const char *lines)
{
	char request[512];
	size_t len = 0;
	ssize_t n;

	snprintf(request, sizeof(request), "vsleep 1 %s\n\n", lines);
	if (write(fd, request, strlen(request)) < 0)
		exit(3);
	do {
		n = read(fd, own_answer + len, sizeof(own_answer) - 1 - len);
		if (n <= 0)
			exit(3);
		len += (size_t)n;
	} while (len < 2 || memcmp(own_answer + len - 2, "\n\n", 2));
	own_answer[len - 1] = '\0';
}

/* What follows "KEY=" at the start of a line, up to its end; "" without. */
static inline const char *own_value(const char *key)
{
	static char value[256];
	char *at = own_answer, *end;
	size_t len = strlen(key);

	value[0] = '\0';
	while (*at) {
		end = strchrnul(at, '\n');
		if (!strncmp(at, key, len) && at[len] == '=') {
			snprintf(value, sizeof(value), "%.*s",
				 (int)(end - at - (ssize_t)len - 1),
				 at + len + 1);
			break;
		}
		at = *end ? end + 1 : end;
	}
	return value;
}

static inline uint64_t own_number(const char *key)
{
	return strtoull(own_value(key), NULL, 10);
}

/* Of the line of the tag: the number after " KEY=". */
static inline uint64_t own_tag_number(const char *tag, const char *key)
{
	char line[64], word[64];
	char *at;

	snprintf(line, sizeof(line), "\ntag=%s ", tag);
	snprintf(word, sizeof(word), " %s=", key);
	at = strstr(own_answer, line);
	at = at ? strstr(at, word) : NULL;
	return at ? strtoull(at + strlen(word), NULL, 10) : ~(uint64_t)0;
}

#endif
