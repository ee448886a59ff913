/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_owner - the processes whose memory is mapped here: one connection to
 * each, for as long as it is used.
 *
 * For who has the turn in ipc_import alone.  A descriptor that the program has
 * closed is not used again: its number may be another file's.
 */
#ifndef VS_MEMORY_IPC_OWNER_H
#define VS_MEMORY_IPC_OWNER_H

#include <sys/types.h>

#include "memory/ipc_peer.h"

struct vs_ipc_owner {
	struct vs_ipc_handle handle;	/* any of its */
	pid_t pid;			/* its number here */
	struct vs_ipc_birth born;	/* 0: it cannot be told */
	unsigned users;
	int slot;			/* of the connection; -1: none */
	dev_t dev;			/* what tells that it is still ours */
	ino_t ino;
	bool mourned;			/* it was said that it has ended */
	bool owing;			/* an answer: the connection stays so
					   that we are known, no more */
	double silent;			/* it did not answer: not waited for
					   until then */
	struct vs_ipc_owner *next;
};

/* The owner of @handle, connected; the same as before where it is known. */
enum vs_status vs_ipc_owner_get(const struct vs_ipc_handle *handle,
				struct vs_ipc_owner **out, struct vs_why *why);
/* The connection ends with the last user. */
void vs_ipc_owner_put(struct vs_ipc_owner *owner);

/* As vs_ipc_way has it; connects anew where the connection was lost.  One that
 * does not answer, as when it is stopped, is VS_BUSY. */
enum vs_status vs_ipc_owner_borrow(struct vs_ipc_owner *owner,
				   const struct vs_ipc_handle *handle,
				   unsigned first, struct vs_ipc_loan *out,
				   struct vs_why *why);
/* One that cannot be told has ended, or will find it when it goes on. */
void vs_ipc_owner_give_back(struct vs_ipc_owner *owner,
			    const struct vs_ipc_handle *handle, uint64_t from,
			    uint64_t to);
/* It has ended, or is out of reach, if perhaps not for good. */
bool vs_ipc_owner_gone(struct vs_ipc_owner *owner);
/* Its memory is nobody's any more: it has ended, or is another program now. */
bool vs_ipc_owner_ended(struct vs_ipc_owner *owner);
/* It would not lend the allocation any more. */
bool vs_ipc_owner_lacks(struct vs_ipc_owner *owner,
			const struct vs_ipc_handle *handle);

/* In a forked child: close what it has of the connections. */
void vs_ipc_owner_forget(void);

#endif
