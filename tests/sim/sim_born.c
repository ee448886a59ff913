/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

unsigned long long sim_share_born(int pid)
{
	unsigned long long start = 0;
	char path[32], text[1024], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return 0;
	if (sscanf(p + 2, "%*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %*s %*s %*s %*s %llu", &start) != 1)
		return 0;
	return start;
}
