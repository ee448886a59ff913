/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_peer - the processes that have memory of ours mapped, and what of it.
 *
 * A borrower is a process; where its last connection ends and it lives, it
 * still counts, for nobody knows what it has mapped.  Data under SEGMENT.
 */
#ifndef VS_MEMORY_IPC_PEER_H
#define VS_MEMORY_IPC_PEER_H

#include <sys/types.h>

#include "memory/ipc.h"
#include "memory/segment.h"

struct vs_ipc_peer;

/* What tells a number that was used again, and another program in the process,
 * whose stack begins elsewhere; 0: it has ended, though perhaps nobody knows;
 * where the stack begins may not be for us to know. */
struct vs_ipc_birth {
	unsigned long long start, stack;
};
struct vs_ipc_birth vs_ipc_peer_born(pid_t pid);
bool vs_ipc_peer_same(struct vs_ipc_birth a, struct vs_ipc_birth b);

/* Processes that may have memory of ours at the same time. */
#define VS_IPC_PEERS 48

/* For the server's thread.  Someone at the other end of a connection begins to
 * borrow; NULL: no memory, or too many do.  Its connection has ended. */
struct vs_ipc_peer *vs_ipc_peer_begin(pid_t pid);
void vs_ipc_peer_end(struct vs_ipc_peer *peer);
/* Something else of ours needs it: as one connection more.  For any thread. */
void vs_ipc_peer_hold(struct vs_ipc_peer *peer);
/* It has no other connection. */
bool vs_ipc_peer_only(struct vs_ipc_peer *peer);

/* With the lock held.  It has a chunk from now on; *@fresh: it had it not
 * before.  False: no memory. */
bool vs_ipc_peer_add(struct vs_ipc_peer *peer, const struct vs_segment *s,
		     struct vs_chunk *c, bool *fresh);
/* Likewise: the chunks that begin in these bytes are back. */
void vs_ipc_peer_drop(struct vs_ipc_peer *peer, uint64_t segment,
		      uint64_t from, uint64_t to);
/* Likewise: the segment that handles know by this number; or NULL. */
struct vs_segment *vs_ipc_peer_segment(uint64_t id);

/* Forget those that have ended; without the lock. */
void vs_ipc_forget_dead(void);

/* Our wake waits for this process to lend to us; 0: for none.  The peer is that
 * one. */
void vs_ipc_peer_await(pid_t owner);
bool vs_ipc_peer_awaited(const struct vs_ipc_peer *peer);

/* With the lock held: who has @chunk of @segment, as "mapped by process N";
 * NULL: nobody.  Lasts as long as the lock. */
const char *vs_ipc_mapped_by(const struct vs_segment *segment,
			     const struct vs_chunk *chunk);

/* Who borrows, with what; how many. */
int vs_ipc_borrowers(struct vs_ipc_relation *out, int max);

#endif
