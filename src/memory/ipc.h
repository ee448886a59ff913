/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc - CUDA IPC between processes that vsleep is in: what both sides know.
 *
 * A handle of ours names an allocation and the process that has it.  Who opens
 * it asks that process over its socket, and gets descriptors of the physical
 * chunks that the allocation lies in; none stays open on either side, since an
 * open one would keep the memory from going back.  The owner's side is
 * ipc_export, the borrower's ipc_import; control/ carries the messages.
 */
#ifndef VS_MEMORY_IPC_H
#define VS_MEMORY_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cuda.h"
#include "base/why.h"

#define VS_IPC_MAGIC "vsleep1"	/* with its NUL 8 bytes */
#define VS_IPC_KEY 16		/* bytes that nobody else can guess */
#define VS_IPC_PARTS 32		/* chunks in one message */

/* What the 64 bytes of a CUipcMemHandle are. */
struct vs_ipc_handle {
	char magic[8];
	unsigned char key[VS_IPC_KEY];	/* of the owner */
	int32_t pid;			/* its own number for itself */
	uint32_t unused;
	uint64_t space;			/* inode of its PID namespace; 0: the
					   system's first */
	uint64_t segment;
	uint64_t block;			/* never given twice */
	uint64_t offset;		/* of the allocation in the segment */
};

/* A physical chunk; who has the message owns the descriptor. */
struct vs_ipc_part {
	uint64_t offset, size;
	int fd;
	bool fresh;		/* not lent to this process before */
};

/* What the owner answers: the allocation, and some of its chunks in order. */
struct vs_ipc_loan {
	uint64_t segment_size;
	uint64_t size;			/* of the allocation */
	char device[48];		/* its UUID */
	unsigned chunks;		/* that the allocation lies in */
	unsigned count;			/* of parts */
	struct vs_ipc_part parts[VS_IPC_PARTS];
};

/* The way to an owner; set by init.  Each may block for as long as a process
 * that runs takes to answer, and holds no lock of ours. */
struct vs_ipc_way {
	/* A descriptor, or -1; *@pid is the owner's number here.  VS_REFUSED:
	 * there is no such process any more. */
	int (*reach)(const struct vs_ipc_handle *handle, pid_t *pid,
		     struct vs_why *why);
	/* Chunks from number @first on.  VS_BUSY: it is on the move, ask again;
	 * VS_NOMEM: it sleeps; VS_REFUSED: there is no such allocation;
	 * VS_FAILED: the connection broke; VS_CANCELLED: no answer in time,
	 * and none is to be read any more. */
	enum vs_status (*borrow)(int link, const struct vs_ipc_handle *handle,
				 unsigned first, struct vs_ipc_loan *out,
				 struct vs_why *why);
	/* The chunks in these bytes of the segment are not mapped any more;
	 * what it returns likewise.  Without @wait nothing is read. */
	enum vs_status (*give_back)(int link,
				    const struct vs_ipc_handle *handle,
				    uint64_t from, uint64_t to, bool wait,
				    struct vs_why *why);
};
extern const struct vs_ipc_way *vs_ipc_way;

/* A process that has memory of ours mapped, or whose memory we map. */
struct vs_ipc_relation {
	pid_t pid;
	bool owner;		/* the memory is its own */
	uint64_t bytes;		/* mapped now */
	uint64_t lost;		/* of these, zeros since it has ended */
};

/* Whether VSLEEP_IPC leaves plain allocations of this size to the driver. */
void vs_ipc_configure(const char *setting);
bool vs_ipc_native(size_t size);

void vs_ipc_close_parts(struct vs_ipc_loan *loan);

/* Descriptors of chunks from where they are made or received to where they are
 * closed: a forked child, which would keep the memory, closes what it has. */
void vs_ipc_note_fd(int fd);
void vs_ipc_close_fd(int fd);
void vs_ipc_forget_fds(void);

#endif
