/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_borrowed - the mappings of other processes' memory, for ipc_import.
 *
 * The lists are under SEGMENT, and only who has the turn changes them.
 */
#ifndef VS_MEMORY_IPC_BORROWED_H
#define VS_MEMORY_IPC_BORROWED_H

#include "base/context.h"
#include "memory/ipc_owner.h"

struct vs_import_chunk {
	uint64_t offset, size;
	CUmemGenericAllocationHandle handle;	/* 0: not mapped */
};

/* A segment of another process. */
struct vs_import {
	struct vs_ipc_owner *owner;
	uint64_t segment;
	CUdeviceptr base;
	size_t size;
	CUdevice device;	/* where its memory is */
	int tag;
	bool asleep;		/* nothing of it is mapped */
	bool woken;		/* by the wake that runs */
	const char *kept_why;	/* stays mapped, for this reason; or NULL */
	bool orphan;		/* its owner had ended when it was to sleep */
	uint64_t lost;		/* bytes that came back as zeros: their owner
				   had ended */
	struct vs_import_chunk *chunks;
	size_t count, room;
	struct vs_import *next;
};

/* An allocation in it. */
struct vs_opened {
	struct vs_ipc_handle handle;
	struct vs_import *import;
	CUdeviceptr base;
	size_t size;
	uint64_t id;		/* buffer id */
	CUcontext context;	/* that opened it */
	CUdevice device;	/* of that */
	bool sync_memops;	/* as the program set it */
	unsigned refs;		/* 0: closed */
	bool waited;		/* and nothing uses it any more */
	struct vs_opened *next;
};

extern struct vs_import *vs_imports;
extern struct vs_opened *vs_opened;

/* One thread at a time; called without locks. */
void vs_ipc_take_turn(void);
void vs_ipc_end_turn(void);

/* With the turn.  Map what @o, with its handle, context and device, is to be,
 * and add it with one reference; as vs_ipc_way in what it returns. */
enum vs_status vs_borrow(struct vs_opened *o, struct vs_why *why);

/* With the turn.  The same for what is there and asleep. */
enum vs_status vs_borrow_again(struct vs_opened *o, struct vs_why *why);

/* With the turn, in the pinned context that opened it, which is current.  Its
 * owner has ended: what is not mapped of it gets memory of our own, with what
 * another mapping of the same has, or zeros. */
enum vs_status vs_borrowed_renew(struct vs_opened *o,
				 struct vs_context *context,
				 struct vs_why *why);

/* With the turn.  What is not mapped of the segment is given back. */
void vs_borrowed_return(struct vs_ipc_owner *owner,
			const struct vs_ipc_handle *handle);

/* With the turn; true when its bytes are known to be back. */
bool vs_borrowed_unmap(struct vs_import *i, struct vs_import_chunk *c);

/*
 * With the turn.  End what is closed and waited for; @all: the program is at
 * rest, and nothing has to be waited for.  What sleeps is left for the @wake:
 * until then its owner and we are to know of each other, so that who wakes one
 * wakes both.
 */
void vs_ipc_settle(bool all, bool wake);

#endif
