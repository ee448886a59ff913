/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_import.h"
#include "memory/device_wait.h"
#include "memory/ipc_borrowed.h"
#include "memory/ipc_export.h"
#include "memory/peer.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_MAX_MS 100
#define SAY_TRIES 12		/* about a second */

static bool taken;		/* the turn; under vs_segment_lock */
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t natives;

bool vs_ipc_is_ours(const CUipcMemHandle *handle)
{
	return !memcmp(handle, VS_IPC_MAGIC, sizeof(VS_IPC_MAGIC));
}

void vs_ipc_take_turn(void)
{
	vs_lock_take(&vs_segment_lock);
	while (taken)
		vs_lock_wait(&vs_segment_lock, &turn, 0);
	taken = true;
	vs_lock_drop(&vs_segment_lock);
}

void vs_ipc_end_turn(void)
{
	vs_lock_take(&vs_segment_lock);
	taken = false;
	pthread_cond_broadcast(&turn);
	vs_lock_drop(&vs_segment_lock);
}

/* ---- open --------------------------------------------------------------- */

/* One that is open already, or is about to be closed, counts once more; in
 * another context it is opened for its own, at the same address. */
static bool open_again(const struct vs_ipc_handle *handle, CUcontext context,
		       CUdeviceptr *out, CUresult *rc)
{
	struct vs_opened *o;

	vs_lock_take(&vs_segment_lock);
	for (o = vs_opened; o; o = o->next)
		if (o->context == context &&
		    !memcmp(&o->handle, handle, sizeof(*handle)))
			break;
	*rc = o && o->import->asleep ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	if (o && !*rc) {
		o->refs++;
		o->waited = false;
		*out = o->base;
	}
	vs_lock_drop(&vs_segment_lock);
	return o != NULL;
}

static CUresult explain(enum vs_status st, const struct vs_ipc_handle *handle,
			const struct vs_why *why)
{
	if (st == VS_BUSY || st == VS_NOMEM)
		return CUDA_ERROR_NOT_READY;
	vs_log_warn("memory of process %d cannot be opened: %s",
		    (int)handle->pid, why->text);
	return st == VS_REFUSED ? CUDA_ERROR_INVALID_VALUE :
				  CUDA_ERROR_MAP_FAILED;
}

static CUresult open_fresh(const struct vs_ipc_handle *handle,
			   CUcontext context, CUdevice device,
			   CUdeviceptr *out, CUdevice *owner)
{
	struct vs_opened *o = calloc(1, sizeof(*o));
	struct vs_why why = { .text = "no memory" };
	enum vs_status st = VS_NOHOST;

	if (o) {
		o->handle = *handle;
		o->context = context;
		o->device = device;
		st = vs_borrow(o, &why);
	}
	if (st) {
		free(o);
		return explain(st, handle, &why);
	}
	*out = o->base;
	*owner = o->import->device;
	return CUDA_SUCCESS;
}

CUresult vs_ipc_open(CUdeviceptr *out, const CUipcMemHandle *handle,
		     unsigned int flags)
{
	struct vs_ipc_handle ours;
	CUstreamCaptureMode mode;
	unsigned changes = vs_vmm_accessors();
	CUdevice device, owner = -1;
	CUcontext context = NULL;
	CUresult rc;

	memcpy(&ours, handle, sizeof(ours));
	rc = vs_real.cuCtxGetCurrent(&context);
	if (rc || !context)
		return rc ? rc : CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (vs_ipc_own(&ours) || vs_real.cuCtxGetDevice(&device))
		return CUDA_ERROR_INVALID_CONTEXT;
	context = vs_context_current();
	mode = vs_context_relax();
	vs_ipc_take_turn();
	vs_ipc_settle(false, false);
	if (!open_again(&ours, context, out, &rc))
		rc = open_fresh(&ours, context, device, out, &owner);
	vs_ipc_end_turn();
	if (owner >= 0)
		vs_peer_look_again(owner, changes);
	vs_context_unrelax(mode);
	return rc;
}

void vs_ipc_pause(unsigned tries)
{
	unsigned ms = tries < 7 ? 1u << tries : PAUSE_MAX_MS;
	struct timespec pause = { .tv_nsec = ms * 1000000L };

	if (tries == SAY_TRIES)
		vs_log_info("opening memory of another process waits until "
			    "that wakes");
	nanosleep(&pause, NULL);
}

void vs_ipc_note_native(void)
{
	atomic_fetch_add(&natives, 1);
}

uint64_t vs_ipc_native_opened(void)
{
	return atomic_load(&natives);
}

/* ---- close -------------------------------------------------------------- */

/* Lock held.  That of the current context, if it has one. */
static struct vs_opened *find_opened(CUdeviceptr base, CUcontext current)
{
	struct vs_opened *found = NULL, *o;

	for (o = vs_opened; o; o = o->next)
		if (o->base == base && o->refs &&
		    (!found || o->context == current))
			found = o;
	return found;
}

/* Lock held.  Nothing that runs uses what is closed of it. */
static void note_rest(CUdeviceptr base, CUcontext context)
{
	struct vs_opened *o;

	for (o = vs_opened; o; o = o->next)
		if (o->base == base && o->context == context && !o->refs)
			o->waited = true;
}

/* What runs may use it; true when it does not any more. */
static bool at_rest(CUdevice device, CUdevice owner, CUcontext context,
		    CUresult *rc)
{
	bool captured;

	*rc = vs_device_wait(device, context, &captured);
	if (!*rc && !captured && owner != device)
		vs_device_wait(owner, NULL, &captured);
	return !captured;
}

/* The last that is closed: nobody has it now, but the mapping is there. */
bool vs_ipc_close(CUdeviceptr base, CUresult *rc)
{
	CUdevice device = 0, owner = 0;
	CUcontext context = vs_context_current();
	CUstreamCaptureMode mode;
	struct vs_opened *o;
	bool last = false;

	vs_lock_take(&vs_segment_lock);
	o = find_opened(base, context);
	if (o) {
		last = --o->refs == 0;
		device = o->device;
		owner = o->import->device;
		context = o->context;
	}
	vs_lock_drop(&vs_segment_lock);
	*rc = CUDA_SUCCESS;
	if (!last)
		return o != NULL;
	mode = vs_context_relax();
	if (at_rest(device, owner, context, rc)) {
		vs_ipc_take_turn();
		vs_lock_take(&vs_segment_lock);
		note_rest(base, context);
		vs_lock_drop(&vs_segment_lock);
		vs_ipc_settle(false, false);
		vs_ipc_end_turn();
	}
	vs_context_unrelax(mode);
	return true;
}

void vs_ipc_drop_context(CUcontext context)
{
	struct vs_opened *o;
	bool any = false;

	vs_lock_take(&vs_segment_lock);
	for (o = vs_opened; o; o = o->next)
		if (o->context == context) {
			o->refs = 0;
			o->waited = any = true;
		}
	vs_lock_drop(&vs_segment_lock);
	if (!any)
		return;
	vs_ipc_take_turn();
	vs_ipc_settle(false, false);
	vs_ipc_end_turn();
}

/* ---- what is asked ------------------------------------------------------ */

static struct vs_opened *find_inside(CUdeviceptr address)
{
	struct vs_opened *o;

	for (o = vs_opened; o; o = o->next)
		if (o->refs && address - o->base < o->size)
			break;
	return o;
}

bool vs_ipc_look(CUdeviceptr address, struct vs_ipc_view *out)
{
	struct vs_opened *o = find_inside(address);

	if (!o)
		return false;
	*out = (struct vs_ipc_view){
		.base = o->base, .size = o->size, .id = o->id,
		.device = o->import->device, .context = o->context,
		.sync_memops = o->sync_memops,
		.mapped = !o->import->asleep,
	};
	return true;
}

/* With the turn no sleep unmaps it meanwhile. */
bool vs_ipc_keep(CUdeviceptr address, const char *reason)
{
	struct vs_opened *o;
	bool fresh;

	vs_ipc_take_turn();
	vs_lock_take(&vs_segment_lock);
	o = find_inside(address);
	fresh = o && !o->import->kept_why;
	if (fresh)
		o->import->kept_why = reason;
	vs_lock_drop(&vs_segment_lock);
	vs_ipc_end_turn();
	return fresh;
}

void vs_ipc_let_go(CUdeviceptr address)
{
	struct vs_opened *o;

	vs_lock_take(&vs_segment_lock);
	o = find_inside(address);
	if (o)
		o->import->kept_why = NULL;
	vs_lock_drop(&vs_segment_lock);
}

bool vs_ipc_set_sync(CUdeviceptr address, bool on)
{
	struct vs_opened *o;

	vs_lock_take(&vs_segment_lock);
	o = find_inside(address);
	if (o)
		o->sync_memops = on;
	vs_lock_drop(&vs_segment_lock);
	return o != NULL;
}

bool vs_ipc_covers(CUdeviceptr address)
{
	struct vs_import *i;

	for (i = vs_imports; i; i = i->next)
		if (address - i->base < i->size)
			return true;
	return false;
}

static uint64_t bytes_of(const struct vs_import *i)
{
	uint64_t sum = 0;
	size_t k;

	for (k = 0; k < i->count; k++)
		if (i->chunks[k].handle || i->asleep)
			sum += i->chunks[k].size;
	return sum;
}

uint64_t vs_ipc_bytes(bool asleep)
{
	struct vs_import *i;
	uint64_t sum = 0;

	vs_lock_take(&vs_segment_lock);
	for (i = vs_imports; i; i = i->next)
		if (i->asleep == asleep)
			sum += bytes_of(i);
	vs_lock_drop(&vs_segment_lock);
	return sum;
}

int vs_ipc_owners(struct vs_ipc_relation *out, int max)
{
	struct vs_import *i;
	int count = 0, k;

	vs_lock_take(&vs_segment_lock);
	for (i = vs_imports; i; i = i->next) {
		for (k = 0; k < count && out[k].pid != i->owner->pid; k++)
			;
		if (k == max)
			continue;
		if (k == count)
			out[count++] = (struct vs_ipc_relation){
				.pid = i->owner->pid, .owner = true,
			};
		if (!i->asleep)
			out[k].bytes += bytes_of(i);
		out[k].lost += i->lost;
	}
	vs_lock_drop(&vs_segment_lock);
	return count;
}
