/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/socket.h"

#include "base/config.h"
#include "base/log.h"
#include "base/why.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE 4026531836u	/* PROC_PID_INIT_INO of the kernel */

/* mkdir under a umask may give less than asked for. */
static bool make(const char *dir, struct vs_why *why)
{
	int fd;

	if (mkdir(dir, 0700)) {
		if (errno == EEXIST)
			return true;
		vs_why_set(why, VS_REFUSED, "mkdir %s: %s", dir,
			   strerror(errno));
		return false;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (fchmod(fd, 0700))
		vs_log_debug("chmod %s: %s", dir, strerror(errno));
	close(fd);
	return true;
}

static bool verify(const char *dir, struct vs_why *why)
{
	struct stat st;

	if (lstat(dir, &st))
		vs_why_set(why, VS_REFUSED, "%s: %s", dir, strerror(errno));
	else if (S_ISLNK(st.st_mode))
		vs_why_set(why, VS_REFUSED, "%s is a symbolic link; it must be "
			   "a directory", dir);
	else if (!S_ISDIR(st.st_mode))
		vs_why_set(why, VS_REFUSED, "%s is not a directory", dir);
	else if (st.st_uid != geteuid())
		vs_why_set(why, VS_REFUSED, "%s belongs to user %u, not to "
			   "user %u", dir, (unsigned)st.st_uid,
			   (unsigned)geteuid());
	else if ((st.st_mode & 07777) != 0700)
		vs_why_set(why, VS_REFUSED, "%s has mode %04o; it must be 0700",
			   dir, (unsigned)(st.st_mode & 07777));
	else
		return true;
	return false;
}

/* Two processes with one number are told apart by their namespace. */
static void own_name(char *buf, size_t size)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NAMESPACE)
		snprintf(buf, size, "%d", (int)getpid());
	else
		snprintf(buf, size, "%d-%lu", (int)getpid(),
			 (unsigned long)st.st_ino);
}

static int bind_at(const char *path, struct vs_why *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *step = "bind";
	int fd;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		vs_why_set(why, VS_REFUSED, "socket: %s", strerror(errno));
		return -1;
	}
	strcpy(address.sun_path, path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		goto fail;
	step = "chmod";
	if (chmod(path, 0600))
		goto fail_unlink;
	step = "listen";
	if (listen(fd, SOMAXCONN))
		goto fail_unlink;
	return fd;

fail_unlink:
	vs_why_set(why, VS_REFUSED, "%s %s: %s", step, path, strerror(errno));
	unlink(path);
	close(fd);
	return -1;
fail:
	vs_why_set(why, VS_REFUSED, "%s %s: %s", step, path, strerror(errno));
	close(fd);
	return -1;
}

/*
 * The socket gets its name only once it listens: a client that found it
 * earlier would be refused, take it for one that was left over, and unlink it.
 */
static int listen_in(const char *dir, char path[VS_SOCKET_PATH_MAX],
		     struct vs_why *why)
{
	char name[48];
	char fresh[VS_SOCKET_PATH_MAX];
	size_t len;
	int fd;

	own_name(name, sizeof(name));
	len = strlen(dir) + strlen(name) + strlen("/.sock");
	if (len >= VS_SOCKET_PATH_MAX) {
		vs_why_set(why, VS_REFUSED, "the path of the socket takes %zu "
			   "characters and at most %zu fit; set VSLEEP_DIR to "
			   "a shorter directory than %.60s%s", len,
			   VS_SOCKET_PATH_MAX - 1, dir,
			   strlen(dir) > 60 ? "..." : "");
		return -1;
	}
	if (!make(dir, why) || !verify(dir, why))
		return -1;
	snprintf(path, VS_SOCKET_PATH_MAX, "%s/%s.sock", dir, name);
	snprintf(fresh, sizeof(fresh), "%s/%s.new", dir, name);
	fd = bind_at(fresh, why);
	if (fd < 0)
		return -1;
	if (rename(fresh, path)) {
		vs_why_set(why, VS_REFUSED, "rename to %s: %s", path,
			   strerror(errno));
		unlink(fresh);
		close(fd);
		return -1;
	}
	return fd;
}

static int listen_configured(const char *setting,
			     char path[VS_SOCKET_PATH_MAX], struct vs_why *why)
{
	char dir[PATH_MAX];
	size_t len = strlen(setting);

	/* lstat would follow a link whose name ends in a slash. */
	while (len > 1 && setting[len - 1] == '/')
		len--;
	if (setting[0] != '/' || len >= sizeof(dir)) {
		vs_why_set(why, VS_REFUSED, "VSLEEP_DIR=%.100s: must be an "
			   "absolute path", setting);
		return -1;
	}
	memcpy(dir, setting, len);
	dir[len] = '\0';
	return listen_in(dir, path, why);
}

static int listen_default(char path[VS_SOCKET_PATH_MAX], struct vs_why *why)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char dir[PATH_MAX];
	int fd;

	if (runtime && runtime[0] == '/' &&
	    (size_t)snprintf(dir, sizeof(dir), "%s/vsleep", runtime) <
		    sizeof(dir)) {
		fd = listen_in(dir, path, why);
		if (fd >= 0)
			return fd;
		vs_log_info("no control socket in %s: %s", dir, why->text);
	}
	snprintf(dir, sizeof(dir), "/tmp/vsleep-%u", (unsigned)geteuid());
	return listen_in(dir, path, why);
}

int vs_socket_listen(char path[VS_SOCKET_PATH_MAX])
{
	struct vs_why why = { 0 };
	int fd;

	if (vs_config.dir && vs_config.dir[0])
		fd = listen_configured(vs_config.dir, path, &why);
	else
		fd = listen_default(path, &why);
	if (fd < 0) {
		path[0] = '\0';
		vs_log_error("no control socket, so vsleepctl cannot find this "
			     "process: %s", why.text);
	}
	return fd;
}

static bool same_user(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
	       (who.uid == geteuid() || !who.uid);
}

static int connect_in(const char *dir, pid_t pid, uint64_t space,
		      unsigned seconds, struct vs_why *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = seconds };
	char name[48] = "";
	int fd;

	if (space)
		snprintf(name, sizeof(name), "-%llu",
			 (unsigned long long)space);
	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path),
			     "%s/%d%s.sock", dir, (int)pid, name) >=
	    sizeof(address.sun_path)) {
		vs_why_set(why, VS_REFUSED, "no path in %.100s for process %d",
			   dir, (int)pid);
		return -1;
	}
	if (!verify(dir, why))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		vs_why_set(why, VS_CUDA, "socket: %s", strerror(errno));
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	errno = 0;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    same_user(fd))
		return fd;
	vs_why_set(why, errno == EAGAIN ? VS_BUSY : VS_REFUSED,
		   "no process %d with vsleep answers at "
		   "%.120s: %s", (int)pid, address.sun_path, strerror(errno));
	close(fd);
	return -1;
}

int vs_socket_connect(pid_t pid, uint64_t space, unsigned seconds,
		      struct vs_why *why)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char dir[VS_SOCKET_PATH_MAX];
	int fd = -1;

	if (vs_config.dir && vs_config.dir[0])
		return connect_in(vs_config.dir, pid, space, seconds, why);
	if (runtime && runtime[0] == '/' &&
	    (size_t)snprintf(dir, sizeof(dir), "%s/vsleep", runtime) <
		    sizeof(dir))
		fd = connect_in(dir, pid, space, seconds, why);
	if (fd >= 0 || why->status == VS_BUSY)
		return fd;
	snprintf(dir, sizeof(dir), "/tmp/vsleep-%u", (unsigned)geteuid());
	return connect_in(dir, pid, space, seconds, why);
}
