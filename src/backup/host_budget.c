/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/host_budget.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, out, size - 1);
	close(fd);
	if (got <= 0)
		return false;
	out[got] = '\0';
	return true;
}

size_t vs_host_budget_available(void)
{
	unsigned long long kib;
	char text[2048];
	const char *line;

	if (!read_file("/proc/meminfo", text, sizeof(text)))
		return SIZE_MAX;
	line = strstr(text, "MemAvailable:");
	if (!line || sscanf(line, "MemAvailable: %llu", &kib) != 1)
		return SIZE_MAX;
	return (size_t)kib << 10;
}

static size_t read_number(const char *dir, const char *name, size_t missing)
{
	char path[PATH_MAX + 64], text[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!read_file(path, text, sizeof(text)) || *text < '0' || *text > '9')
		return missing;		/* "max" too */
	return (size_t)strtoull(text, NULL, 10);
}

/* Page cache that the kernel would drop first does not count as used. */
static size_t reclaimable(const char *dir)
{
	char path[PATH_MAX + 64], text[4096];
	unsigned long long bytes = 0;
	const char *line;

	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (!read_file(path, text, sizeof(text)))
		return 0;
	line = strstr(text, "inactive_file ");
	if (line)
		sscanf(line, "inactive_file %llu", &bytes);
	return (size_t)bytes;
}

static size_t left_in(const char *dir, const char *limit_name,
		      const char *usage_name)
{
	size_t limit = read_number(dir, limit_name, SIZE_MAX);
	size_t used = read_number(dir, usage_name, 0);
	size_t cache = reclaimable(dir);

	if (limit == SIZE_MAX)
		return SIZE_MAX;
	used -= cache < used ? cache : used;
	return limit > used ? limit - used : 0;
}

/* The least that any level from @path up to the mount leaves. */
static size_t walk(const char *mount, char *path, const char *limit_name,
		   const char *usage_name)
{
	char dir[PATH_MAX];
	size_t least = SIZE_MAX, left;
	char *slash;

	for (;;) {
		if (snprintf(dir, sizeof(dir), "%s%s", mount, path) >=
		    (int)sizeof(dir))
			return least;
		left = left_in(dir, limit_name, usage_name);
		if (left < least)
			least = left;
		slash = strrchr(path, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

size_t vs_host_budget_cgroup(void)
{
	char text[4096], *line, *next, *path;
	size_t least = SIZE_MAX, left = SIZE_MAX;

	if (!read_file("/proc/self/cgroup", text, sizeof(text)))
		return SIZE_MAX;
	for (line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (!strncmp(line, "0:", 2))
			left = walk("/sys/fs/cgroup", path, "memory.max",
				    "memory.current");
		else if (strstr(line, ":memory"))
			left = walk("/sys/fs/cgroup/memory", path,
				    "memory.limit_in_bytes",
				    "memory.usage_in_bytes");
		if (left < least)
			least = left;
	}
	return least;
}
