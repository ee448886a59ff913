/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int log_fd = STDERR_FILENO;
static enum vs_log_level log_level = VS_LOG_WARN;

void vs_log_open(const char *path, enum vs_log_level level)
{
	int fd;

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) {
		vs_log_warn("VSLEEP_LOG=%s: %s; warnings go to stderr", path,
			    strerror(errno));
		return;
	}
	log_fd = fd;
	log_level = level;
}

void vs_log_write(enum vs_log_level level, const char *format, ...)
{
	static const char *const words[] = {
		"error", "warning", "info", "debug", "trace",
	};
	int saved = errno, before;
	char line[512];
	va_list args;
	int used, more;

	if (level > log_level)
		return;
	used = snprintf(line, sizeof(line), "vsleep[%d] %s: ", (int)getpid(),
			words[level]);
	va_start(args, format);
	more = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	va_end(args);
	if (more > 0)
		used += more;
	if (used > (int)sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	/* The caller may hold a lock: it must not be cancelled in here. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	used = write(log_fd, line, used);	/* nobody to tell a failure */
	(void)used;
	pthread_setcancelstate(before, NULL);
	errno = saved;
}
