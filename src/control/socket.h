/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket - where this process can be found: <dir>/<pid>.sock.
 *
 * The directory is VSLEEP_DIR; without it $XDG_RUNTIME_DIR/vsleep, and where
 * that cannot be had /tmp/vsleep-<uid>.  It is made with mode 0700, and one
 * that is a symbolic link, another user's or open to others is refused.
 */
#ifndef VS_CONTROL_SOCKET_H
#define VS_CONTROL_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/why.h"

#define VS_SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path))

/*
 * A listening socket, or -1 after a line in the log that says why.  A file
 * left at our path by a process that is gone is replaced.  @path gets the
 * path to unlink in the end.
 */
int vs_socket_listen(char path[VS_SOCKET_PATH_MAX]);

/* Connect to the process that has this number for itself, in the PID namespace
 * of that inode (0: the system's first), where our own socket would be.  -1
 * with VS_REFUSED: there is none of our user, VS_BUSY: it has not taken us
 * within @seconds; so long each call on the descriptor waits, too. */
int vs_socket_connect(pid_t pid, uint64_t space, unsigned seconds,
		      struct vs_why *why);

#endif
