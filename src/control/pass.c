/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/pass.h"
#include "memory/ipc.h"

#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(VS_PASS_MAX * sizeof(int))];
};

ssize_t vs_pass_send(int socket, const void *bytes, size_t len, int *fds,
		     unsigned *count)
{
	struct iovec part = { .iov_base = (void *)bytes, .iov_len = len };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control = { .bytes = { 0 } };
	struct cmsghdr *head;
	ssize_t n;

	if (!*count)
		return send(socket, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	message.msg_control = control.bytes;
	message.msg_controllen = CMSG_SPACE(*count * sizeof(int));
	head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(*count * sizeof(int));
	memcpy(CMSG_DATA(head), fds, *count * sizeof(int));
	n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n > 0 && *count)
		vs_ipc_close_fd(fds[--*count]);
	return n;
}

static void take(const struct cmsghdr *head, int *fds, unsigned max,
		 unsigned *count)
{
	size_t i, n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fd;

	for (i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
		vs_ipc_note_fd(fd);
		if (*count < max)
			fds[(*count)++] = fd;
		else
			vs_ipc_close_fd(fd);
	}
}

ssize_t vs_pass_receive(int socket, void *bytes, size_t len, int *fds,
			unsigned max, unsigned *count)
{
	struct iovec part = { .iov_base = bytes, .iov_len = len };
	union control control;
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head;
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return n;
	for (head = CMSG_FIRSTHDR(&message); head;
	     head = CMSG_NXTHDR(&message, head))
		if (head->cmsg_level == SOL_SOCKET &&
		    head->cmsg_type == SCM_RIGHTS)
			take(head, fds, max, count);
	return n;
}
