/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_fixture - memory lent and borrowed within one process: the way to the
 * owner is a function call here, and the key on its way is turned over, so
 * that the handle is not taken for one of our own.
 */
#ifndef TESTS_IPC_FIXTURE_H
#define TESTS_IPC_FIXTURE_H

#include "memory_fixture.h"

#include "memory/ipc_export.h"
#include "memory/ipc_import.h"

#define LARGE (17 * MIB + 4096)	/* chunks of 2 MiB */
#define ALL (~(vs_tag_set)0)

extern struct vs_ipc_peer *ipc_peer;
extern int ipc_broken;		/* so many messages are not answered */
extern enum vs_status ipc_answer;	/* instead of lending */
extern bool ipc_mute;		/* an answer is waited for in vain */
extern int ipc_asked;		/* so often one was waited for */
extern int ipc_lives;		/* the owner ends after so many; -1: not */
extern int ipc_nonsense;	/* what is wrong in it; 0: nothing */

/* An allocation of LARGE bytes, and the handle as others have it. */
extern CUdeviceptr ipc_base;
extern CUipcMemHandle ipc_handle;

void ipc_start(void);
CUipcMemHandle ipc_handle_of(CUdeviceptr address);
/* Another allocation, and its handle as others have it. */
CUdeviceptr ipc_made(size_t size, CUipcMemHandle *handle);
void ipc_turn_key(struct vs_ipc_handle *h);

CUdeviceptr ipc_opened(const CUipcMemHandle *what);
void ipc_closed(CUdeviceptr at);
/* What is mapped goes; the bytes that stay. */
uint64_t ipc_unmap_all(void);

/* Chunks that are lent. */
size_t ipc_lent(void);
void ipc_same(CUdeviceptr a, CUdeviceptr b, size_t size);

#endif
