/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client - one connection: bounded buffers, one request at a time.
 *
 * Used by the server thread alone; never blocks.  The next request of a
 * client is looked at when its last answer has been taken, so neither a slow
 * reader nor a fast writer takes more than these buffers.
 */
#ifndef VS_CONTROL_CLIENT_H
#define VS_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/command.h"
#include "control/lend.h"
#include "control/reply.h"

struct vs_client {
	int fd;			/* -1: a free slot */
	bool ended;		/* it sends no more, but may still read */
	bool closing;		/* closed when the output is out */
	bool progress;
	bool rests;		/* the operation is a quiesce */
	struct vs_job *job;	/* its operation; NULL: none */
	struct vs_job *rest;	/* its quiesce that is done; NULL: none */
	struct vs_lending lending;
	double progress_at;	/* when the next progress line is due */
	uint64_t turn;		/* when it was last heard of */
	size_t in_len;
	size_t out_len;
	size_t out_sent;
	char in[VS_COMMAND_MAX];
	char out[VS_REPLY_MAX];
};

/* Take @fd over; a peer that may not ask gets one answer and is closed. */
void vs_client_open(struct vs_client *client, int fd, uint64_t turn);

/* Close; an operation that it waits for goes on, but a quiesce ends. */
void vs_client_close(struct vs_client *client);

/* What to poll for, and what to do about it. */
short vs_client_events(const struct vs_client *client);
void vs_client_ready(struct vs_client *client, short events, int notify_fd,
		     uint64_t turn);

/* Answer if the operation it waits for is done. */
void vs_client_settle(struct vs_client *client, int notify_fd);

/* Write a progress line if one is wanted and due at @now. */
void vs_client_tell(struct vs_client *client, double now);

#endif
