/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/client.h"

#include "base/lock.h"
#include "base/why.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROGRESS_SECONDS 0.2

static struct vs_text output(struct vs_client *client)
{
	struct vs_text text = {
		.buf = client->out,
		.size = sizeof(client->out),
		.len = client->out_len,
	};

	return text;
}

/* Take what was written to @text; an answer that does not fit is no answer. */
static void commit(struct vs_client *client, const struct vs_text *text)
{
	client->out_len = text->len;
	if (text->full)
		vs_client_close(client);
}

static bool peer_allowed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

/* True when all output is out and the client is still there. */
static bool flush(struct vs_client *client)
{
	ssize_t n;

	while (client->fd >= 0 && client->out_sent < client->out_len) {
		n = vs_pass_send(client->fd, client->out + client->out_sent,
				 client->out_len - client->out_sent,
				 client->lending.fds, &client->lending.count);
		if (n >= 0)
			client->out_sent += n;
		else if (errno == EAGAIN)
			return false;
		else if (errno != EINTR)
			vs_client_close(client);
	}
	client->out_sent = 0;
	client->out_len = 0;
	return client->fd >= 0;
}

void vs_client_open(struct vs_client *client, int fd, uint64_t turn)
{
	struct vs_text text;

	client->fd = fd;
	client->ended = false;
	client->closing = false;
	client->job = NULL;
	client->rest = NULL;
	client->turn = turn;
	client->in_len = 0;
	client->out_len = 0;
	client->out_sent = 0;
	vs_lend_begin(&client->lending, fd);
	if (peer_allowed(fd))
		return;
	text = output(client);
	vs_reply_error(&text, vs_why_word(VS_REFUSED),
		       "only root and the user of this process may ask");
	commit(client, &text);
	flush(client);
	vs_client_close(client);
}

static void forget(struct vs_client *client)
{
	if (client->job)
		vs_operation_forget(client->job);
	client->job = NULL;
	if (client->rest)
		vs_operation_forget(client->rest);
	client->rest = NULL;
	vs_lend_end(&client->lending);
	client->fd = -1;
}

void vs_client_close(struct vs_client *client)
{
	ssize_t n;

	if (client->fd < 0)
		return;
	/* Unread bytes would make the peer see a reset, not its answer. */
	do {
		n = recv(client->fd, client->in, sizeof(client->in),
			 MSG_DONTWAIT);
	} while (n == (ssize_t)sizeof(client->in));
	/* A forked child may still hold a copy of the descriptor. */
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	forget(client);
}

short vs_client_events(const struct vs_client *client)
{
	short events = 0;

	if (!client->ended && !client->closing &&
	    client->in_len < sizeof(client->in))
		events |= POLLIN;
	if (client->out_sent < client->out_len)
		events |= POLLOUT;
	return events;
}

static void receive(struct vs_client *client)
{
	ssize_t n;

	if (client->ended || client->closing ||
	    client->in_len == sizeof(client->in))
		return;
	n = recv(client->fd, client->in + client->in_len,
		 sizeof(client->in) - client->in_len, MSG_DONTWAIT);
	if (n > 0)
		client->in_len += n;
	else if (!n)
		client->ended = true;
	else if (errno != EAGAIN && errno != EINTR)
		vs_client_close(client);
}

/* Carry out the request at the start of the input; false when it has none. */
static bool take_request(struct vs_client *client, int notify_fd)
{
	struct vs_command command = {
		.notify_fd = notify_fd, .rest = client->rest,
		.lending = &client->lending,
	};
	struct vs_text text = output(client);
	int len = vs_command_scan(client->in, client->in_len, &text);

	if (len > 0) {
		vs_command_run(client->in, len, &command, &text);
		client->in_len -= len;
		memmove(client->in, client->in + len, client->in_len);
		client->job = command.job;
		client->rest = command.rest;
		client->rests = command.rests;
		client->progress = command.progress;
		client->progress_at = vs_lock_now() + PROGRESS_SECONDS;
	} else if (len < 0) {
		client->closing = true;
	} else if (client->ended) {
		if (client->in_len)
			vs_reply_error(&text, "bad-request", "the request "
				       "ends without an empty line");
		client->closing = true;
	} else {
		return false;
	}
	commit(client, &text);
	return true;
}

/* Answer a finished job; false while it runs. */
static bool settle(struct vs_client *client)
{
	struct vs_reply reply;
	struct vs_text text;

	if (!vs_operation_done(client->job, &reply))
		return false;
	if (client->rests && !reply.status)
		client->rest = client->job;
	else
		vs_operation_forget(client->job);
	client->job = NULL;
	text = output(client);
	vs_reply_write(&text, &reply);
	commit(client, &text);
	return true;
}

/* Go on as far as the output is taken and no operation is waited for. */
static void advance(struct vs_client *client, int notify_fd)
{
	while (flush(client)) {
		if (client->closing)
			vs_client_close(client);
		else if (client->job ? !settle(client)
				     : !take_request(client, notify_fd))
			break;
	}
}

void vs_client_ready(struct vs_client *client, short events, int notify_fd,
		     uint64_t turn)
{
	client->turn = turn;
	/* The program closed it: the number may be another file's by now. */
	if (events & POLLNVAL) {
		forget(client);
		return;
	}
	if (events & (POLLIN | POLLHUP | POLLERR))
		receive(client);
	advance(client, notify_fd);
	/* What it sent before it left has been read: now it is forgotten. */
	if ((events & (POLLHUP | POLLERR)) && !(events & POLLIN))
		vs_client_close(client);
}

void vs_client_settle(struct vs_client *client, int notify_fd)
{
	if (client->fd >= 0 && client->job && settle(client))
		advance(client, notify_fd);
}

void vs_client_tell(struct vs_client *client, double now)
{
	struct vs_progress progress = { 0 };
	struct vs_text text;

	if (!client->job || !client->progress || now < client->progress_at)
		return;
	client->progress_at = now + PROGRESS_SECONDS;
	if (!flush(client))
		return;
	vs_operation_progress(client->job, &progress);
	text = output(client);
	vs_reply_progress(&text, &progress);
	commit(client, &text);
	flush(client);
}
