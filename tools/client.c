/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "client.h"

#include "proc.h"

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

#define fail client_fail

struct places {
	int count;
	char dirs[2][PATH_MAX];
};

bool client_fail(struct connection *connection, enum outcome outcome,
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
static void find_places(const char *named, struct places *places)
{
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
	struct proc proc;
	pid_t inner = proc_look(pid, &proc) && proc.inner ? proc.inner : pid;

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

static bool connect_path(unsigned ms, struct connection *connection)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = connection->path;

	memcpy(address.sun_path, path, sizeof(address.sun_path));
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

static bool connect_at(const char *dir, const char *name, unsigned ms,
		       struct connection *connection)
{
	size_t size = sizeof(connection->path);

	connection->fd = -1;
	connection->pid = 0;
	if ((size_t)snprintf(connection->path, size, "%s/%s", dir, name) >=
	    size)
		return fail(connection, NO_PROCESS, "%s/%s: longer than the "
			    "path of a socket may be", dir, name);
	return connect_path(ms, connection);
}

bool client_reconnect(struct connection *connection)
{
	pid_t pid = connection->pid;
	bool connected;

	client_close(connection);
	connected = connect_path(PATIENCE_MS, connection);
	connection->pid = pid;
	return connected;
}

/* Fails with NO_PROCESS where there is nothing to connect to. */
static bool connect_pid(const struct places *places, pid_t pid,
			struct connection *connection)
{
	bool connected = false;
	char name[64];
	int i;

	socket_name(pid, name, sizeof(name));
	fail(connection, NO_PROCESS, "%s", "");
	for (i = 0; i < places->count && !connected; i++) {
		connected = connect_at(places->dirs[i], name, PATIENCE_MS,
				       connection);
		if (!connected && connection->outcome != NO_PROCESS)
			break;
	}
	connection->pid = pid;
	return connected;
}

/* Why there is nothing to connect to. */
static bool fail_process(pid_t pid, struct connection *connection)
{
	struct proc proc;

	if (!proc_look(pid, &proc))
		return fail(connection, NO_PROCESS, "no vsleep in process %d: "
			    "there is no such process", (int)pid);
	if (proc.uid == geteuid())
		return fail(connection, NO_PROCESS, "no vsleep in process %d: "
			    "it runs without libvsleep.so, has no CUDA "
			    "context yet, or has its socket elsewhere; "
			    "vsleepctl doctor %d tells", (int)pid, (int)pid);
	if (geteuid())
		return fail(connection, NO_PROCESS, "no vsleep in process %d: "
			    "it belongs to user %u, whom only that user and "
			    "root can ask", (int)pid, (unsigned)proc.uid);
	return fail(connection, NO_PROCESS, "no vsleep in process %d: it "
		    "belongs to user %u; VSLEEP_DIR has to name the directory "
		    "of that user's sockets", (int)pid, (unsigned)proc.uid);
}

static bool connect_process(const struct places *places, pid_t pid,
			    struct connection *connection)
{
	struct proc proc;

	if (connect_pid(places, pid, connection))
		return true;
	if (connection->outcome != NO_PROCESS)
		return false;
	if (proc_look(pid, &proc) && proc.pid != pid &&
	    connect_pid(places, proc.pid, connection)) {
		fprintf(stderr, "vsleepctl: %d is a thread of process %d\n",
			(int)pid, (int)proc.pid);
		return true;
	}
	if (connection->outcome != NO_PROCESS)
		return false;
	connection->pid = pid;
	return fail_process(pid, connection);
}

bool client_connect(pid_t pid, struct connection *connection)
{
	struct places places;

	connection->fd = -1;
	find_places(getenv("VSLEEP_DIR"), &places);
	return connect_process(&places, pid, connection);
}

static bool beside_us(pid_t pid)
{
	return namespace_of(pid) == namespace_of(getpid());
}

bool client_is(pid_t ours, pid_t with, pid_t pid)
{
	struct proc proc;

	if (beside_us(with))
		return ours == pid;
	return ours > 0 && namespace_of(ours) == namespace_of(with) &&
	       proc_look(ours, &proc) && proc.inner == pid;
}

bool client_connect_beside(pid_t with, pid_t pid,
			   struct connection *connection)
{
	bool connected = false;
	struct places places;
	char name[64];
	int i;

	if (beside_us(with))
		return client_connect(pid, connection);
	find_places(getenv("VSLEEP_DIR"), &places);
	snprintf(name, sizeof(name), "%d-%lu.sock", (int)pid,
		 namespace_of(with));
	connection->fd = -1;
	fail(connection, NO_PROCESS, "%s", "");
	for (i = 0; i < places.count && !connected; i++)
		connected = connect_at(places.dirs[i], name, PATIENCE_MS,
				       connection);
	/* A member has a number. */
	if (!connected)
		connection->outcome = NO_PROCESS;
	return connected;
}

bool client_connect_in(const char *dir, pid_t pid,
		       struct connection *connection)
{
	struct places places;

	connection->fd = -1;
	find_places(dir, &places);
	return connect_process(&places, pid, connection);
}

bool client_looks_into(const char *dir)
{
	struct places places;
	struct stat a, b;
	int i;

	find_places(getenv("VSLEEP_DIR"), &places);
	for (i = 0; i < places.count; i++)
		if (!stat(dir, &a) && !stat(places.dirs[i], &b) &&
		    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return true;
	return false;
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

	find_places(getenv("VSLEEP_DIR"), &places);
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

bool client_send(struct connection *connection, const struct request *request,
		 struct answer *answer)
{
	struct request whole = *request;
	const char *text = whole.text;
	size_t left = whole.len + 1;
	ssize_t n;

	answer_start(answer);
	whole.text[whole.len] = '\n';
	while (left) {
		n = send(connection->fd, text, left, MSG_NOSIGNAL);
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return fail(connection, NO_PROCESS, "it ended before "
				    "it answered");
		if (n < 0)
			return fail(connection, FAILED, "request: %s",
				    errno == EAGAIN ? "it does not answer" :
				    strerror(errno));
		text += n;
		left -= n;
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
	/* Answers are of printable ASCII; what is not must not command a
	 * terminal. */
	for (; n; n--, answer->len++)
		if (answer->text[answer->len] != '\n' &&
		    (answer->text[answer->len] < ' ' ||
		     answer->text[answer->len] > '~'))
			answer->text[answer->len] = '?';
	return true;
}

int client_take(struct connection *connection,
		void (*progress)(void *arg, const char *line), void *arg,
		struct answer *answer)
{
	char *line;
	char *end;

	if (!receive(connection, answer))
		return -1;
	for (;;) {
		line = answer->text + answer->at;
		end = memchr(line, '\n', answer->len - answer->at);
		if (!end)
			return 0;
		*end = '\0';
		if (end == line)
			break;
		if (strncmp(line, "progress ", 9)) {
			answer_add(answer, line);
			answer->at = end + 1 - answer->text;
			continue;
		}
		if (progress)
			progress(arg, line + 9);
		answer->len -= end + 1 - line;
		memmove(line, end + 1, answer->len - answer->at);
	}
	if (answer->count && !strcmp(answer->pairs[0].key, "status"))
		return 1;
	fail(connection, FAILED, "its answer makes no sense");
	return -1;
}

bool client_ask(struct connection *connection, const struct request *request,
		struct answer *answer)
{
	int taken = 0;

	if (!client_send(connection, request, answer))
		return false;
	while (!taken)
		taken = client_take(connection, NULL, NULL, answer);
	return taken > 0;
}
