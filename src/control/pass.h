/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass - descriptors that go with bytes over a socket (SCM_RIGHTS).
 */
#ifndef VS_CONTROL_PASS_H
#define VS_CONTROL_PASS_H

#include <stddef.h>
#include <sys/types.h>

#define VS_PASS_MAX 32	/* descriptors with one message */

/* As send without waiting.  What went with the first byte is closed here and
 * *count becomes 0. */
ssize_t vs_pass_send(int socket, const void *bytes, size_t len, int *fds,
		     unsigned *count);

/* As recv.  Descriptors are added to @fds, close-on-exec, for vs_ipc_close_fd;
 * those beyond @max in all are closed. */
ssize_t vs_pass_receive(int socket, void *bytes, size_t len, int *fds,
			unsigned max, unsigned *count);

#endif
