/* SPDX-License-Identifier: Apache-2.0 */
/*
 * borrow - how this process asks others for their memory: vs_ipc_way by the
 * protocol, over their sockets.
 */
#ifndef VS_CONTROL_BORROW_H
#define VS_CONTROL_BORROW_H

#include "memory/ipc.h"

extern const struct vs_ipc_way vs_borrow_way;

#endif
