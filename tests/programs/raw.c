/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw - put stdin, byte for byte, on the socket that is named; then "sent" on
 * stderr, and on stdout what comes back, up to the end or to as many empty
 * lines as the second argument says (1).  With "-" for it both go on side by
 * side, until one side ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int reach(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		perror(path);
		exit(3);
	}
	return fd;
}

/* The other end may close before it has taken everything. */
static void put(int fd)
{
	char buf[65536];
	size_t len;
	ssize_t n;

	while ((len = fread(buf, 1, sizeof(buf), stdin)) > 0)
		for (size_t at = 0; at < len; at += (size_t)n) {
			n = send(fd, buf + at, len - at, MSG_NOSIGNAL);
			if (n <= 0)
				return;
		}
}

static void get(int fd, int answers)
{
	char last = '\n', c;

	while (answers && read(fd, &c, 1) == 1) {
		answers -= c == '\n' && last == '\n';
		putchar(c);
		last = c;
	}
}

/* False at the end of what is to be passed on. */
static int pass(int from, int to)
{
	char buf[65536];
	ssize_t len = read(from, buf, sizeof(buf));

	return len > 0 && write(to, buf, (size_t)len) == len;
}

static void converse(int fd)
{
	struct pollfd ends[] = {
		{ .fd = 0, .events = POLLIN }, { .fd = fd, .events = POLLIN },
	};

	while (poll(ends, 2, -1) > 0)
		if ((ends[0].revents && !pass(0, fd)) ||
		    (ends[1].revents && !pass(fd, 1)))
			return;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 2)
		return 2;
	fd = reach(argv[1]);
	if (argc > 2 && !strcmp(argv[2], "-")) {
		converse(fd);
		return 0;
	}
	put(fd);
	fprintf(stderr, "sent\n");
	get(fd, argc > 2 ? atoi(argv[2]) : 1);
	return 0;
}
