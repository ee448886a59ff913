/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_lender - the thread that asks the driver for the descriptors of what is
 * lent: that call may block, and who answers other processes does not wait
 * for it.
 *
 * What takes long is answered by VS_BUSY, goes on, and is there for who asks
 * again soon.  A few such errands at the same time are all there are.
 * Rank STATE.
 */
#ifndef VS_MEMORY_IPC_LENDER_H
#define VS_MEMORY_IPC_LENDER_H

#include "memory/ipc_export.h"

/* For the server's thread alone.  vs_ipc_lend, within a quarter of a second;
 * at once where the driver is known to block. */
enum vs_status vs_ipc_lender_ask(struct vs_ipc_peer *peer,
				 const struct vs_ipc_handle *handle,
				 unsigned first, struct vs_ipc_loan *out,
				 struct vs_why *why);

/* Likewise.  The peer has given something back: what it has asked for and not
 * got is not counted as lent any more, and is not for it. */
void vs_ipc_lender_forget(const struct vs_ipc_peer *peer);

#endif
