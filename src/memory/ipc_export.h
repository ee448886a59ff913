/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_export - handles of our memory, and its descriptors for who has one.
 *
 * A chunk that another process maps is lent: it would not go back to the
 * device, so it is neither trimmed nor put to sleep.  Data under SEGMENT.
 */
#ifndef VS_MEMORY_IPC_EXPORT_H
#define VS_MEMORY_IPC_EXPORT_H

#include "memory/ipc_peer.h"

/* cuIpcGetMemHandle. */
CUresult vs_ipc_get(CUipcMemHandle *out, CUdeviceptr address);
/* The program asked for handles of ours that could not be had. */
bool vs_ipc_refused(void);
/* The handle is one of this process. */
bool vs_ipc_own(const struct vs_ipc_handle *handle);

/* As vs_ipc_way has them; the descriptors are the caller's. */
enum vs_status vs_ipc_lend(struct vs_ipc_peer *peer,
			   const struct vs_ipc_handle *handle, unsigned first,
			   struct vs_ipc_loan *out, struct vs_why *why);
enum vs_status vs_ipc_take_back(struct vs_ipc_peer *peer,
				const struct vs_ipc_handle *handle,
				uint64_t from, uint64_t to,
				struct vs_why *why);

#endif
