/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_import - memory of other processes, mapped here.
 *
 * Each segment of another process that something is opened in has addresses of
 * its own here, which stay until the last allocation in it is closed; of its
 * chunks those are mapped that the opened allocations lie in.  A sleep unmaps
 * them, having nothing to copy, and a wake asks the owner for them again.
 *
 * Data under SEGMENT.  What asks the owner or the driver is done by one thread
 * at a time, who has the turn.
 */
#ifndef VS_MEMORY_IPC_IMPORT_H
#define VS_MEMORY_IPC_IMPORT_H

#include "base/tag.h"
#include "memory/ipc.h"

/* These 64 bytes are a handle of ours. */
bool vs_ipc_is_ours(const CUipcMemHandle *handle);

/* cuIpcOpenMemHandle, inside the gate.  CUDA_ERROR_NOT_READY: the owner sleeps
 * or moves its memory; leave the gate, and try again. */
CUresult vs_ipc_open(CUdeviceptr *out, const CUipcMemHandle *handle,
		     unsigned int flags);
/* Wait before the next try; no lock, outside the gate. */
void vs_ipc_pause(unsigned tries);

/* cuIpcCloseMemHandle; false: not opened by us. */
bool vs_ipc_close(CUdeviceptr base, CUresult *rc);

/* What was opened in a context that is gone is closed. */
void vs_ipc_drop_context(CUcontext context);

/* The opened allocation around an address. */
struct vs_ipc_view {
	CUdeviceptr base;
	size_t size;
	uint64_t id;
	CUdevice device;
	CUcontext context;
	bool sync_memops;
	bool mapped;
};
/* With the segment lock held.  Covers: in addresses of ours at all. */
bool vs_ipc_look(CUdeviceptr address, struct vs_ipc_view *out);
bool vs_ipc_covers(CUdeviceptr address);
/* Without: somebody may know the pages, so that it stays mapped from now on;
 * false: it is none of these, or stays for a reason already.  And back. */
bool vs_ipc_keep(CUdeviceptr address, const char *reason);
void vs_ipc_let_go(CUdeviceptr address);
/* What the program set; false: it is none of these. */
bool vs_ipc_set_sync(CUdeviceptr address, bool on);

/* Mappings of memory of @device get the access that others have come to
 * have. */
void vs_ipc_extend(CUdevice device);

/* The program is at rest: unmap what was mapped under @tags, but for policy
 * keep and what could not be had again: told to @kept. */
void vs_ipc_sleep(vs_tag_set tags,
		  void (*kept)(void *arg, uint64_t bytes, const char *why),
		  void *arg);
/* Map it again; VS_NOMEM: its owner sleeps.  On failure nothing changed. */
enum vs_status vs_ipc_wake(vs_tag_set tags, struct vs_why *why);
/* Back to where the last wake began. */
void vs_ipc_unwake(void);
/* Something of @tags is unmapped; is mapped, and would go with a sleep. */
bool vs_ipc_sleeps(vs_tag_set tags);
bool vs_ipc_awake(vs_tag_set tags);

/* Whose memory is mapped here; how many. */
int vs_ipc_owners(struct vs_ipc_relation *out, int max);
/* Bytes that are mapped, or that sleep; handles of the driver's own that were
 * opened. */
uint64_t vs_ipc_bytes(bool asleep);
uint64_t vs_ipc_native_opened(void);
void vs_ipc_note_native(void);

#endif
