/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE 4026531836u	/* PROC_PID_INIT_INO of the kernel */
#define PATIENCE_MS 10000
#define PATIENCE_EACH_MS 2000

struct places {
	int count;
	char dirs[2][PATH_MAX];
};

static bool fail(struct connection *connection, enum outcome outcome,
		 const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool fail(struct connection *connection, enum outcome outcome,
		 const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(connection->why, sizeof(connection->why), format, args);
	va_end(args);
	connection->outcome = outcome;
	return false;
}

/*
 * What lies in another user's directory may be anybody's.  Root may name one
 * by VSLEEP_DIR, to reach that user's processes.
 */
static bool trusted(const char *dir, bool named)
{
	struct stat st;

	if (lstat(dir, &st))
		return false;
	if (S_ISDIR(st.st_mode) && !(st.st_mode & 077) &&
	    (st.st_uid == geteuid() || (named && geteuid() == 0)))
		return true;
	fprintf(stderr, "vsleepctl: %s is not used: it must be a directory of "
		"mode 0700 that belongs to user %u\n", dir,
		(unsigned)geteuid());
	return false;
}

static void add_place(struct places *places, bool named, const char *format,
		      const char *value)
{
	char *dir = places->dirs[places->count];
	size_t len;

	if ((size_t)snprintf(dir, PATH_MAX, format, value) >= PATH_MAX)
		return;
	len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/')
		dir[--len] = '\0';
	if (trusted(dir, named))
		places->count++;
}

/* A program started from elsewhere may not have had our XDG_RUNTIME_DIR. */
static void find_places(struct places *places)
{
	const char *named = getenv("VSLEEP_DIR");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char uid[16];

	places->count = 0;
	if (named && named[0]) {
		add_place(places, true, "%s", named);
		return;
	}
	if (runtime && runtime[0] == '/')
		add_place(places, false, "%s/vsleep", runtime);
	snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
	add_place(places, false, "/tmp/vsleep-%s", uid);
}

/* The process of thread @pid, and its number in its own namespace. */
static bool read_process(pid_t pid, pid_t *process, pid_t *inner)
{
	char path[64];
	char line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "Tgid:", 5))
			*process = atoi(line + 5);
		else if (!strncmp(line, "NSpid:", 6))
			*inner = atoi(strrchr(line, '\t') + 1);
	}
	fclose(file);
	return true;
}

static unsigned long namespace_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &st) && stat("/proc/self/ns/pid", &st))
		return FIRST_PID_NAMESPACE;
	return st.st_ino;
}

static void socket_name(pid_t pid, char *buf, size_t size)
{
	unsigned long inode = namespace_of(pid);
	pid_t inner = pid;
	pid_t process;

	read_process(pid, &process, &inner);
	if (inode == FIRST_PID_NAMESPACE)
		snprintf(buf, size, "%d.sock", (int)inner);
	else
		snprintf(buf, size, "%d-%lu.sock", (int)inner, inode);
}

void client_patience(struct connection *connection, unsigned ms)
{
	struct timeval tv = {
		.tv_sec = ms / 1000,
		.tv_usec = (long)(ms % 1000) * 1000,
	};

	setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(connection->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

void client_close(struct connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

/* Who listens: a dead process's socket may live on in a child of it. */
static bool check_peer(struct connection *connection, const char *path)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return fail(connection, FAILED, "%s: %s", path,
			    strerror(errno));
	if (geteuid() && peer.uid != geteuid() && peer.uid)
		return fail(connection, FAILED, "%s belongs to user %u", path,
			    (unsigned)peer.uid);
	if (peer.pid > 0 && kill(peer.pid, 0) && errno == ESRCH) {
		unlink(path);
		return fail(connection, NO_PROCESS, "it is gone");
	}
	connection->pid = peer.pid;
	return true;
}

static bool connect_at(const char *dir, const char *name, unsigned ms,
		       struct connection *connection)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[PATH_MAX + NAME_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (strlen(path) >= sizeof(address.sun_path))
		return fail(connection, NO_PROCESS, "%s: longer than the path "
			    "of a socket may be", path);
	strcpy(address.sun_path, path);
	connection->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->fd < 0)
		return fail(connection, FAILED, "socket: %s", strerror(errno));
	client_patience(connection, ms);
	if (!connect(connection->fd, (struct sockaddr *)&address,
		     sizeof(address))) {
		if (check_peer(connection, path))
			return true;
	} else if (errno == ECONNREFUSED) {
		unlink(path);
		fail(connection, NO_PROCESS, "it is gone");
	} else if (errno == ENOENT) {
		fail(connection, NO_PROCESS, "it has no socket");
	} else {
		fail(connection, FAILED, "%s: %s", path, errno == EAGAIN ?
		     "the process does not answer" : strerror(errno));
	}
	client_close(connection);
	return false;
}

/* Fails with NO_PROCESS where there is nothing to connect to. */
static bool connect_pid(const struct places *places, pid_t pid,
			struct connection *connection)
{
	char name[64];
	int i;

	socket_name(pid, name, sizeof(name));
	fail(connection, NO_PROCESS, "%s", "");
	for (i = 0; i < places->count; i++) {
		if (connect_at(places->dirs[i], name, PATIENCE_MS,
			       connection)) {
			connection->pid = pid;
			return true;
		}
		if (connection->outcome != NO_PROCESS)
			return false;
	}
	return false;
}

bool client_connect(pid_t pid, struct connection *connection)
{
	struct places places;
	pid_t process = pid;
	pid_t inner;

	connection->fd = -1;
	connection->pid = pid;
	find_places(&places);
	if (connect_pid(&places, pid, connection))
		return true;
	if (connection->outcome != NO_PROCESS)
		return false;
	if (!read_process(pid, &process, &inner))
		return fail(connection, NO_PROCESS, "no vsleep in process %d: "
			    "there is no such process", (int)pid);
	if (process != pid && connect_pid(&places, process, connection)) {
		fprintf(stderr, "vsleepctl: %d is a thread of process %d\n",
			(int)pid, (int)process);
		return true;
	}
	if (connection->outcome != NO_PROCESS)
		return false;
	return fail(connection, NO_PROCESS, "no vsleep in process %d: it runs "
		    "without libvsleep.so, has no CUDA context yet, or has "
		    "its socket elsewhere", (int)pid);
}

static int is_socket_name(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
	       len > 5 && !strcmp(entry->d_name + len - 5, ".sock");
}

void client_each(void (*see)(struct connection *connection, void *arg),
		 void *arg)
{
	struct connection connection;
	struct dirent **names;
	struct places places;
	int count;
	int i, j;

	find_places(&places);
	for (i = 0; i < places.count; i++) {
		count = scandir(places.dirs[i], &names, is_socket_name,
				versionsort);
		for (j = 0; j < count; j++) {
			if (connect_at(places.dirs[i], names[j]->d_name,
				       PATIENCE_EACH_MS, &connection))
				see(&connection, arg);
			client_close(&connection);
			free(names[j]);
		}
		if (count >= 0)
			free(names);
	}
}

static bool send_all(struct connection *connection, const char *text,
		     size_t len)
{
	ssize_t n;

	while (len) {
		n = send(connection->fd, text, len, MSG_NOSIGNAL);
		if (n < 0)
			return fail(connection, FAILED, "request: %s",
				    strerror(errno));
		text += n;
		len -= n;
	}
	return true;
}

/* Receive what there is; false after failure. */
static bool receive(struct connection *connection, struct answer *answer)
{
	ssize_t n;

	if (answer->len == sizeof(answer->text))
		return fail(connection, FAILED, "its answer is too long");
	n = recv(connection->fd, answer->text + answer->len,
		 sizeof(answer->text) - answer->len, 0);
	if (n < 0 && errno == EAGAIN)
		return fail(connection, FAILED, "it does not answer; what was "
			    "asked for may still happen");
	if (n < 0 && errno != ECONNRESET)
		return fail(connection, FAILED, "answer: %s", strerror(errno));
	if (n <= 0)
		return fail(connection, NO_PROCESS, "it ended before it "
			    "answered");
	answer->len += n;
	return true;
}

bool client_ask(struct connection *connection, const struct request *request,
		void (*progress)(pid_t pid, const char *line),
		struct answer *answer)
{
	char *line = answer->text;
	char *end;

	answer_start(answer);
	if (!send_all(connection, request->text, request->len) ||
	    !send_all(connection, "\n", 1))
		return false;
	for (;;) {
		end = memchr(line, '\n', answer->text + answer->len - line);
		if (!end) {
			if (!receive(connection, answer))
				return false;
			continue;
		}
		*end = '\0';
		if (end == line)
			break;
		if (!strncmp(line, "progress ", 9)) {
			if (progress)
				progress(connection->pid, line + 9);
			answer->len -= end + 1 - line;
			memmove(line, end + 1,
				answer->text + answer->len - line);
			continue;
		}
		answer_add(answer, line);
		line = end + 1;
	}
	if (answer->count && !strcmp(answer->pairs[0].key, "status"))
		return true;
	return fail(connection, FAILED, "its answer makes no sense");
}
