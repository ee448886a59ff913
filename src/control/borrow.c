/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/borrow.h"
#include "control/pass.h"
#include "control/socket.h"
#include "base/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE 5	/* seconds; a server's thread answers at once */

#define SMALLEST 4096	/* bytes of a chunk, at least */

/* An answer: its text, and the descriptors in their order. */
struct answer {
	size_t len;
	unsigned count;
	int fds[VS_PASS_MAX];
	char text[8192];
};

static int reach(const struct vs_ipc_handle *handle, pid_t *pid,
		 struct vs_why *why)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	int fd = vs_socket_connect(handle->pid, handle->space, PATIENCE, why);

	if (fd < 0)
		return -1;
	*pid = handle->pid;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid)
		*pid = who.pid;
	return fd;
}

static void drop(struct answer *answer)
{
	while (answer->count)
		vs_ipc_close_fd(answer->fds[--answer->count]);
}

static bool whole(const struct answer *answer)
{
	return answer->len >= 2 &&
	       !memcmp(answer->text + answer->len - 2, "\n\n", 2);
}

static enum vs_status broken(struct answer *answer, struct vs_why *why)
{
	bool late = errno == EAGAIN;

	drop(answer);
	return vs_why_set(why, late ? VS_CANCELLED : VS_FAILED,
			  "no answer%s%s", late ? " in time" : ": ",
			  late ? "" : strerror(errno));
}

static enum vs_status say(int link, const char *text, struct vs_why *why)
{
	size_t len = strlen(text), sent = 0;
	ssize_t n;

	while (sent < len) {
		n = send(link, text + sent, len - sent, MSG_NOSIGNAL);
		if (n >= 0)
			sent += (size_t)n;
		else if (errno != EINTR)
			return vs_why_set(why, errno == EAGAIN ?
					  VS_CANCELLED : VS_FAILED,
					  "send: %s", strerror(errno));
	}
	return VS_OK;
}

static enum vs_status hear(int link, struct answer *answer,
			   struct vs_why *why)
{
	double end = vs_lock_now() + PATIENCE;
	size_t room;
	ssize_t n;

	answer->len = 0;
	answer->count = 0;
	while (!whole(answer)) {
		room = sizeof(answer->text) - 1 - answer->len;
		errno = ECONNRESET;
		n = room ? vs_pass_receive(link, answer->text + answer->len,
					   room, answer->fds, VS_PASS_MAX,
					   &answer->count) : 0;
		if (vs_lock_now() > end) {
			n = -1;
			errno = EAGAIN;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return broken(answer, why);
		answer->len += (size_t)n;
	}
	answer->text[answer->len] = '\0';
	errno = EPROTO;
	return strlen(answer->text) == answer->len ? VS_OK :
						     broken(answer, why);
}

/* The value on the first line with this key, up to its end. */
static const char *value_of(const struct answer *answer, const char *key)
{
	const char *at = answer->text;
	size_t len = strlen(key);

	while (*at && *at != '\n') {
		if (!strncmp(at, key, len) && at[len] == '=')
			return at + len + 1;
		at = strchr(at, '\n') + 1;
	}
	return "";
}

static bool is(const char *value, const char *word)
{
	size_t len = strlen(word);

	return !strncmp(value, word, len) && value[len] == '\n';
}

static enum vs_status status_of(const struct answer *answer,
				struct vs_why *why)
{
	static const enum vs_status known[] = {
		VS_BUSY, VS_NOMEM, VS_REFUSED,
	};
	/* No process of ours has given a handle with such numbers. */
	static const char unheard_of[] = "bad-request";
	const char *word = value_of(answer, "status");
	const char *text = value_of(answer, "message");
	enum vs_status st = VS_CUDA;
	size_t i;

	if (is(word, "ok"))
		return VS_OK;
	if (is(word, unheard_of))
		st = VS_REFUSED;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is(word, vs_why_word(known[i])))
			st = known[i];
	return vs_why_set(why, st, "%.*s", (int)strcspn(text, "\n"), text);
}

static enum vs_status ask(int link, const char *request,
			  struct answer *answer, struct vs_why *why)
{
	enum vs_status st = say(link, request, why);

	if (!st)
		st = hear(link, answer, why);
	if (st)
		return st;
	st = status_of(answer, why);
	if (st)
		drop(answer);
	return st;
}

static void write_key(const struct vs_ipc_handle *handle,
		      char out[2 * VS_IPC_KEY + 1])
{
	int i;

	for (i = 0; i < VS_IPC_KEY; i++)
		snprintf(out + 2 * i, 3, "%02x", handle->key[i]);
}

static uint64_t number_of(const struct answer *answer, const char *key)
{
	return strtoull(value_of(answer, key), NULL, 10);
}

static enum vs_status read_loan(struct answer *answer,
				struct vs_ipc_loan *out, struct vs_why *why)
{
	const char *uuid = value_of(answer, "chunks-uuid");
	const char *at = answer->text;
	struct vs_ipc_part part;

	memset(out, 0, sizeof(*out));
	out->segment_size = number_of(answer, "segment-bytes");
	out->size = number_of(answer, "allocation-bytes");
	out->chunks = (unsigned)number_of(answer, "chunks");
	snprintf(out->device, sizeof(out->device), "%.*s",
		 (int)strcspn(uuid, "\n"), uuid);
	for (; (at = strstr(at, "\nchunk=")); at++) {
		if (sscanf(at, "\nchunk=%" SCNu64 " bytes=%" SCNu64,
			   &part.offset, &part.size) != 2 ||
		    out->count == answer->count)
			break;
		part.fd = answer->fds[out->count];
		out->parts[out->count++] = part;
	}
	if (!at && out->count == answer->count &&
	    out->chunks <= out->segment_size / SMALLEST)
		return VS_OK;
	out->count = 0;
	drop(answer);
	return vs_why_set(why, VS_CUDA, "the answer makes no sense");
}

static enum vs_status borrow(int link, const struct vs_ipc_handle *handle,
			     unsigned first, struct vs_ipc_loan *out,
			     struct vs_why *why)
{
	char request[256], key[2 * VS_IPC_KEY + 1];
	struct answer answer;
	enum vs_status st;

	write_key(handle, key);
	snprintf(request, sizeof(request), "vsleep 1 lend\nkey=%s\nsegment=%"
		 PRIu64 "\noffset=%" PRIu64 "\nallocation=%" PRIu64
		 "\nfirst=%u\n\n", key, handle->segment, handle->offset,
		 handle->block, first);
	st = ask(link, request, &answer, why);
	return st ? st : read_loan(&answer, out, why);
}

static enum vs_status give_back(int link, const struct vs_ipc_handle *handle,
				uint64_t from, uint64_t to, bool wait,
				struct vs_why *why)
{
	char request[256], key[2 * VS_IPC_KEY + 1];
	struct answer answer;
	enum vs_status st;

	write_key(handle, key);
	snprintf(request, sizeof(request), "vsleep 1 return\nkey=%s\nsegment=%"
		 PRIu64 "\nfrom=%" PRIu64 "\nto=%" PRIu64 "\n\n", key,
		 handle->segment, from, to);
	if (!wait)
		return say(link, request, why);
	st = ask(link, request, &answer, why);
	if (!st)
		drop(&answer);
	return st;
}

const struct vs_ipc_way vs_borrow_way = {
	.reach = reach, .borrow = borrow, .give_back = give_back,
};
