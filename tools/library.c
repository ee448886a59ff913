/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHY_SIZE (PATH_MAX + 128)

/* From the folder that this program lies in. */
static bool find_beside(const char *relative, char out[PATH_MAX])
{
	char exe[PATH_MAX];
	char path[PATH_MAX + 32];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len < 0)
		return false;
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return false;
	*slash = '\0';
	snprintf(path, sizeof(path), "%s/%s", exe, relative);
	return realpath(path, out);
}

/* In the build tree, where everything was unpacked, or where it was built
 * for. */
static bool find_usual(char out[PATH_MAX])
{
	return find_beside("../src/.libs/libvsleep.so", out) ||
	       find_beside("../lib/libvsleep.so", out) ||
	       realpath(LIBDIR "/libvsleep.so", out);
}

bool library_find(char out[PATH_MAX], char why[PATH_MAX + 128])
{
	const char *named = getenv("VSLEEP_LIBRARY");

	if (named && named[0]) {
		if (realpath(named, out))
			return true;
		if (why)
			snprintf(why, WHY_SIZE, "VSLEEP_LIBRARY=%s: %s", named,
				 strerror(errno));
		return false;
	}
	if (find_usual(out))
		return true;
	if (why)
		snprintf(why, WHY_SIZE, LIBDIR "/libvsleep.so: %s; "
			 "VSLEEP_LIBRARY can name another", strerror(errno));
	return false;
}

bool library_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	bool set;

	if (strpbrk(library, " :")) {
		fprintf(stderr, "vsleepctl: %s: LD_PRELOAD cannot name a path "
			"with a space or a colon\n", library);
		return false;
	}
	if (!old || !old[0])
		return !setenv("LD_PRELOAD", library, 1);
	if (asprintf(&value, "%s:%s", library, old) < 0)
		return false;
	set = !setenv("LD_PRELOAD", value, 1);
	free(value);
	return set;
}

static void start_self(int said)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(said, STDERR_FILENO);
	/* Without a loader, as a static program, we would try nothing. */
	if (getauxval(AT_BASE))
		execl("/proc/self/exe", "vsleepctl", "--version", (char *)NULL);
	else
		execl("/bin/true", "true", (char *)NULL);
	_exit(0);	/* where neither can be started it stays untried */
}

/* What the loader says comes first, and what else is said is not needed. */
static void read_all(int fd, char *buf, size_t size)
{
	char rest[512];
	size_t len = 0;
	ssize_t n;

	do {
		if (len < size - 1)
			n = read(fd, buf + len, size - 1 - len);
		else
			n = read(fd, rest, sizeof(rest));
		if (n > 0 && len < size - 1)
			len += n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	buf[len] = '\0';
}

/* The line about @library, alone in the text; NULL when there is none. */
static char *find_line(char *text, const char *library)
{
	char *save = NULL;
	char *line;

	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (strstr(line, library) &&
		    (strstr(line, "cannot be preloaded") ||
		     strstr(line, "version `") ||
		     strstr(line, "undefined symbol") ||
		     strstr(line, "error while loading")))
			return line;
	return NULL;
}

bool library_try(const char *library)
{
	char text[8192];
	const char *line;
	int status = 0;
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return true;
	child = fork();
	if (!child)
		start_self(fds[1]);
	close(fds[1]);
	if (child > 0) {
		read_all(fds[0], text, sizeof(text));
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
	if (child < 0)
		return true;
	line = find_line(text, library);
	if (!line && !status)
		return true;
	fprintf(stderr, "vsleepctl: %s cannot be preloaded here, so nothing "
		"was started: %s\n", library, line ? line :
		"a program does not start with it");
	return false;
}
