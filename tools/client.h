/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client - finding the socket of a process and asking it.
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "message.h"
#include "vsleepctl.h"

#define PATIENCE_MS 10000	/* an operation tells five times in a second */
#define PATIENCE_EACH_MS 2000	/* where one that is stuck must not hold up */

struct connection {
	int fd;
	pid_t pid;		/* of the process that answers; 0: not seen */
	char path[108];		/* of its socket */
	char why[256];		/* after failure */
	enum outcome outcome;	/* after failure */
};

/*
 * Connect to the process of @pid, which may be the number of one of its
 * threads; that is said.  Sends nothing and no signal.
 */
bool client_connect(pid_t pid, struct connection *connection);
/* Likewise, where the socket is known to be in this directory. */
bool client_connect_in(const char *dir, pid_t pid,
		       struct connection *connection);
/* Likewise to the process that @with, which may live in another PID namespace,
 * knows by this number. */
bool client_connect_beside(pid_t with, pid_t pid,
			   struct connection *connection);
/* Our number @ours is of that process. */
bool client_is(pid_t ours, pid_t with, pid_t pid);
/* Whether client_connect looks into @dir. */
bool client_looks_into(const char *dir);
/* Once more to the same socket; what was open is closed. */
bool client_reconnect(struct connection *connection);
void client_close(struct connection *connection);

/* Give up when nothing has come for so long. */
void client_patience(struct connection *connection, unsigned ms);

/* Fill the connection's outcome and why; false. */
bool client_fail(struct connection *connection, enum outcome outcome,
		 const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Send @request and forget the last answer. */
bool client_send(struct connection *connection, const struct request *request,
		 struct answer *answer);

/*
 * Take what has come: 1 when the answer is whole, 0 when there is more to
 * come, -1 after a failure.  @progress (may be NULL) is called with each
 * progress line.
 */
int client_take(struct connection *connection,
		void (*progress)(void *arg, const char *line), void *arg,
		struct answer *answer);

/* Send @request and wait for the whole answer. */
bool client_ask(struct connection *connection, const struct request *request,
		struct answer *answer);

/*
 * Call @see with a connection to every process that can be found, which @see
 * may keep by setting its fd to -1; sockets that dead processes left are
 * unlinked.
 */
void client_each(void (*see)(struct connection *connection, void *arg),
		 void *arg);

#endif
