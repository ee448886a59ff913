/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer - access of one device to the memory of another.
 *
 * Plain allocations can be copied between devices, and reached by a peer that
 * the program has enabled; mapped memory only where access was set.  So each
 * device on which the program has a context is given access to our memory on
 * the others, as far as the hardware allows; wakes map with the same access.
 */
#ifndef VS_MEMORY_PEER_H
#define VS_MEMORY_PEER_H

#include "base/cuda.h"

/* A context that was not known before.  Called on program threads, without
 * locks. */
void vs_peer_context(CUcontext context);

/* What was mapped while a device came in: look again.  @changes: what
 * vs_vmm_accessors said before the mapping. */
void vs_peer_look_again(CUdevice device, unsigned changes);

#endif
