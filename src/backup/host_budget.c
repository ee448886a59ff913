/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/host_budget.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define INTERRUPTS 8	/* that a file may be tried again after */

enum seen { SEEN, MISSING, UNREADABLE };

/* A file that is not there sets no limit.  One that cannot be read, for want
 * of descriptors, may set any. */
static enum seen missing(const char *path, int error)
{
	if (error == ENOENT || error == ENOTDIR || error == EACCES ||
	    error == EPERM || error == ENODEV || error == EOPNOTSUPP)
		return MISSING;
	vs_log_warn("%s cannot be read: %s", path, strerror(error));
	return UNREADABLE;
}

static enum seen read_file(const char *path, char *out, size_t size)
{
	int fd, error, tries = 0;
	ssize_t got;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR && tries++ < INTERRUPTS);
	if (fd < 0)
		return missing(path, errno);
	do
		got = read(fd, out, size - 1);
	while (got < 0 && errno == EINTR && tries++ < INTERRUPTS);
	error = errno;
	close(fd);
	if (got < 0)
		return missing(path, error);
	out[got] = '\0';
	return got ? SEEN : MISSING;
}

/* Without the page cache, so it is rather too little. */
static size_t free_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return 0;
	return (size_t)(info.freeram + info.bufferram) * info.mem_unit;
}

/* A line of /proc/meminfo, bytes; @missing, and @unreadable. */
static size_t meminfo(const char *key, size_t missing, size_t unreadable)
{
	unsigned long long kib;
	char text[2048];
	const char *line;
	enum seen seen;

	seen = read_file("/proc/meminfo", text, sizeof(text));
	if (seen)
		return seen == UNREADABLE ? unreadable : missing;
	line = strstr(text, key);
	if (!line || sscanf(line + strlen(key), " %llu", &kib) != 1)
		return missing;
	return (size_t)kib << 10;
}

size_t vs_host_budget_available(void)
{
	return meminfo("MemAvailable:", SIZE_MAX, free_memory());
}

static size_t read_number(const char *dir, const char *name, size_t missing,
			  size_t unreadable)
{
	char path[PATH_MAX + 64], text[64];
	enum seen seen;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	seen = read_file(path, text, sizeof(text));
	if (seen == UNREADABLE)
		return unreadable;
	if (seen == MISSING || *text < '0' || *text > '9')
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
	if (read_file(path, text, sizeof(text)))
		return 0;
	line = strstr(text, "inactive_file ");
	if (line)
		sscanf(line, "inactive_file %llu", &bytes);
	return (size_t)bytes;
}

struct room {
	size_t least;	/* that any level leaves, bytes */
	bool scarce;	/* some level leaves less than a tenth */
};

static void look_into(const char *dir, const char *limit_name,
		      const char *usage_name, struct room *room)
{
	size_t limit = read_number(dir, limit_name, SIZE_MAX, 0);
	size_t used = read_number(dir, usage_name, 0, SIZE_MAX);
	size_t cache = reclaimable(dir), left;

	if (limit == SIZE_MAX)
		return;
	used -= cache < used ? cache : used;
	left = limit > used ? limit - used : 0;
	if (left < room->least)
		room->least = left;
	room->scarce |= left < limit / 10 || !left;
}

/* Any level from @path up to the mount. */
static void walk(const char *mount, char *path, const char *limit_name,
		 const char *usage_name, struct room *room)
{
	char dir[PATH_MAX];
	char *slash;

	for (;;) {
		if (snprintf(dir, sizeof(dir), "%s%s", mount, path) >=
		    (int)sizeof(dir))
			return;
		look_into(dir, limit_name, usage_name, room);
		slash = strrchr(path, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

static struct room look(void)
{
	struct room room = { .least = SIZE_MAX };
	char text[4096], *line, *next, *path;
	enum seen seen;

	seen = read_file("/proc/self/cgroup", text, sizeof(text));
	if (seen == UNREADABLE)
		return (struct room){ .scarce = true };
	if (seen)
		return room;
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
			walk("/sys/fs/cgroup", path, "memory.max",
			     "memory.current", &room);
		else if (strstr(line, ":memory"))
			walk("/sys/fs/cgroup/memory", path,
			     "memory.limit_in_bytes", "memory.usage_in_bytes",
			     &room);
	}
	return room;
}

size_t vs_host_budget_cgroup(void)
{
	return look().least;
}

bool vs_host_budget_scarce(void)
{
	return vs_host_budget_available() <
	       meminfo("MemTotal:", 0, 0) / 10 || look().scarce;
}
