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

struct connection {
	int fd;
	pid_t pid;		/* of the process that answers */
	char why[256];		/* after failure */
	enum outcome outcome;	/* after failure */
};

/*
 * Connect to the process of @pid, which may be the number of one of its
 * threads.  Sends nothing and no signal.
 */
bool client_connect(pid_t pid, struct connection *connection);
void client_close(struct connection *connection);

/* Give up when nothing has come for so long. */
void client_patience(struct connection *connection, unsigned ms);

/*
 * Send @request and wait for the whole answer.  @progress (may be NULL) is
 * called with each progress line.
 */
bool client_ask(struct connection *connection, const struct request *request,
		void (*progress)(pid_t pid, const char *line),
		struct answer *answer);

/* Call @see with a connection to every process that can be found; sockets
 * that dead processes left are unlinked. */
void client_each(void (*see)(struct connection *connection, void *arg),
		 void *arg);

#endif
