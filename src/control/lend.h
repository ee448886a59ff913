/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lend - the requests of other processes that open our CUDA IPC handles.
 *
 * Of the server's thread.  The descriptors belong to the connection until
 * they have been sent.
 */
#ifndef VS_CONTROL_LEND_H
#define VS_CONTROL_LEND_H

#include "control/pass.h"
#include "control/reply.h"
#include "memory/ipc_export.h"

/* What a connection has of it. */
struct vs_lending {
	int socket;
	struct vs_ipc_peer *peer;	/* NULL: it has not borrowed */
	int fds[VS_PASS_MAX];		/* to be sent with the next answer */
	unsigned count;
	struct vs_ipc_handle handle;	/* what they are of, and where; */
	uint64_t offsets[VS_PASS_MAX];	/* UINT64_MAX: lent before */
};

/* The values of a request; NULL: not given. */
struct vs_lend_words {
	const char *key, *segment, *offset, *allocation, *first;
	const char *from, *to;
};

void vs_lend_begin(struct vs_lending *lending, int socket);
/* The connection is gone. */
void vs_lend_end(struct vs_lending *lending);

void vs_lend_answer(struct vs_lending *lending,
		    const struct vs_lend_words *words, struct vs_text *answer);
void vs_lend_return(struct vs_lending *lending,
		    const struct vs_lend_words *words, struct vs_text *answer);

#endif
