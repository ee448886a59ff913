/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>

static struct vs_lock context_lock = VS_LOCK(VS_RANK_CONTEXT);
static pthread_cond_t unpinned = PTHREAD_COND_INITIALIZER;
static struct vs_context *contexts;	/* under context_lock */
static unsigned long last_serial;	/* likewise */

/*
 * What this thread noted last.  A detach moves the generation on, since the
 * driver may hand the same handle out again.
 */
static _Atomic unsigned long generation = 1;
static _Thread_local struct {
	CUcontext handle;
	unsigned long generation;
} noted __attribute__((tls_model("initial-exec")));

static struct vs_context *find(CUcontext handle)
{
	struct vs_context *c;

	for (c = contexts; c; c = c->next)
		if (c->handle == handle)
			return c;
	return NULL;
}

static bool device_of(CUcontext handle, CUdevice *device)
{
	CUcontext popped;
	CUresult rc;

	if (vs_real.cuCtxPushCurrent_v2(handle))
		return false;
	rc = vs_real.cuCtxGetDevice(device);
	vs_real.cuCtxPopCurrent_v2(&popped);
	return rc == CUDA_SUCCESS;
}

static bool add(CUcontext handle, CUdevice device, bool primary)
{
	struct vs_context *c, *fresh = calloc(1, sizeof(*fresh));

	vs_lock_take(&context_lock);
	c = find(handle);
	if (c)
		c->primary |= primary;
	if (c || !fresh) {
		vs_lock_drop(&context_lock);
		if (!c)
			vs_log_error("context %p is not known: no host memory",
				     (void *)handle);
		free(fresh);
		return false;
	}
	fresh->handle = handle;
	fresh->serial = ++last_serial;
	fresh->device = device;
	fresh->primary = primary;
	fresh->next = contexts;
	contexts = fresh;
	vs_lock_drop(&context_lock);
	return true;
}

static bool is_known(CUcontext handle)
{
	bool yes;

	vs_lock_take(&context_lock);
	yes = find(handle) != NULL;
	vs_lock_drop(&context_lock);
	return yes;
}

/* A green one may be current to another thread: it is asked nothing. */
bool vs_context_note(CUcontext handle)
{
	unsigned long now = atomic_load(&generation);
	CUdevice device;
	bool fresh;

	if (!handle && (vs_real.cuCtxGetCurrent(&handle) || !handle))
		return false;
	if (noted.handle == handle && noted.generation == now)
		return false;
	fresh = !is_known(handle);
	if (fresh && !device_of(handle, &device))
		return false;
	if (fresh)
		fresh = add(handle, device, false);
	noted.handle = handle;
	noted.generation = now;
	return fresh;
}

bool vs_context_note_primary(CUcontext handle, CUdevice device)
{
	return add(handle, device, true);
}

void vs_context_note_green(CUcontext green, CUdevice device)
{
	CUcontext owner = vs_context_primary(device);
	struct vs_context *c;

	if (!owner)
		return;
	add(green, device, false);
	vs_lock_take(&context_lock);
	c = find(green);
	if (c)
		c->owner = owner;
	vs_lock_drop(&context_lock);
}

/* The record that stands for @handle; under the lock. */
static struct vs_context *find_owner(CUcontext handle)
{
	struct vs_context *c = find(handle);

	return c && c->owner ? find(c->owner) : c;
}

CUcontext vs_context_current(void)
{
	CUcontext handle = NULL;
	struct vs_context *c;

	if (vs_real.cuCtxGetCurrent(&handle) || !handle)
		return NULL;
	vs_lock_take(&context_lock);
	c = find_owner(handle);
	if (c)
		handle = c->handle;
	vs_lock_drop(&context_lock);
	return handle;
}

struct vs_context *vs_context_pin(CUcontext handle)
{
	struct vs_context *c;

	vs_lock_take(&context_lock);
	c = find_owner(handle);
	if (c)
		c->pins++;
	vs_lock_drop(&context_lock);
	return c;
}

struct vs_context *vs_context_pin_serial(unsigned long serial)
{
	struct vs_context *c;

	vs_lock_take(&context_lock);
	for (c = contexts; c && c->serial != serial; c = c->next)
		;
	if (c)
		c->pins++;
	vs_lock_drop(&context_lock);
	return c;
}

void vs_context_unpin(struct vs_context *context)
{
	vs_lock_take(&context_lock);
	if (!--context->pins)
		pthread_cond_broadcast(&unpinned);
	vs_lock_drop(&context_lock);
}

int vs_context_count(void)
{
	struct vs_context *c;
	int count = 0;

	vs_lock_take(&context_lock);
	for (c = contexts; c; c = c->next)
		count += !c->owner;
	vs_lock_drop(&context_lock);
	return count;
}

void vs_context_count_each(int *counts, int max)
{
	struct vs_context *c;
	int i;

	for (i = 0; i < max; i++)
		counts[i] = 0;
	vs_lock_take(&context_lock);
	for (c = contexts; c; c = c->next)
		if (!c->owner && c->device >= 0 && c->device < max)
			counts[c->device]++;
	vs_lock_drop(&context_lock);
}

static int pin_some(CUdevice device, bool any, struct vs_context **out,
		    int max)
{
	struct vs_context *c;
	int count = 0;

	vs_lock_take(&context_lock);
	for (c = contexts; c && count < max; c = c->next) {
		if (c->owner || (!any && c->device != device))
			continue;
		c->pins++;
		out[count++] = c;
	}
	vs_lock_drop(&context_lock);
	return count;
}

int vs_context_pin_all(struct vs_context **out, int max)
{
	return pin_some(0, true, out, max);
}

int vs_context_pin_device(CUdevice device, struct vs_context **out, int max)
{
	return pin_some(device, false, out, max);
}

static struct vs_context **find_link(CUcontext handle, CUdevice device)
{
	struct vs_context **link;

	for (link = &contexts; *link; link = &(*link)->next)
		if (handle ? (*link)->handle == handle ||
			     (*link)->owner == handle :
		    (*link)->primary && (*link)->device == device)
			return link;
	return NULL;
}

/* Noted anew while the pins were waited for, it has one more record. */
struct vs_context *vs_context_detach(CUcontext handle)
{
	struct vs_context **link, *c, *taken = NULL;

	vs_lock_take(&context_lock);
	while ((link = find_link(handle, 0))) {
		c = *link;
		*link = c->next;
		c->next = taken;
		taken = c;
		atomic_fetch_add(&generation, 1);
		while (c->pins)
			vs_lock_wait(&context_lock, &unpinned, 0);
	}
	vs_lock_drop(&context_lock);
	return taken;
}

/* Our streams in the context have died with it. */
void vs_context_forget(struct vs_context *context)
{
	struct vs_context *next;

	for (; context; context = next) {
		next = context->next;
		free(context);
	}
}

/* Noted anew meanwhile it has two records from now on: both may be pinned,
 * and both serials have to be found. */
void vs_context_attach(struct vs_context *context)
{
	struct vs_context *next;

	vs_lock_take(&context_lock);
	for (; context; context = next) {
		next = context->next;
		context->next = contexts;
		contexts = context;
	}
	vs_lock_drop(&context_lock);
}

CUcontext vs_context_primary(CUdevice device)
{
	struct vs_context **link;
	CUcontext handle;

	vs_lock_take(&context_lock);
	link = find_link(NULL, device);
	handle = link ? (*link)->handle : NULL;
	vs_lock_drop(&context_lock);
	return handle;
}

/* One thread of an operation works in a context, so the stream is made once. */
enum vs_status vs_context_stream(struct vs_context *context, CUstream *out,
				 struct vs_why *why)
{
	char error[96];
	CUresult rc;

	if (!context->stream) {
		rc = vs_real.cuStreamCreate(&context->stream,
					    CU_STREAM_NON_BLOCKING);
		if (rc) {
			context->stream = NULL;
			return vs_why_set(why, VS_CUDA,
					  "stream on device %d: %s",
					  context->device,
					  vs_driver_error(rc, error,
							  sizeof(error)));
		}
	}
	*out = context->stream;
	return VS_OK;
}

enum vs_status vs_context_enter(struct vs_context *context,
				struct vs_context_scope *scope,
				struct vs_why *why)
{
	char error[96];
	CUresult rc;

	scope->mode = vs_context_relax();
	rc = vs_real.cuCtxPushCurrent_v2(context->handle);
	if (rc) {
		vs_context_unrelax(scope->mode);
		return vs_why_set(why, VS_CUDA, "context %p of device %d: %s",
				  (void *)context->handle, context->device,
				  vs_driver_error(rc, error, sizeof(error)));
	}
	return VS_OK;
}

/* The program's thread must get its context back, so a failure is not taken
 * for an answer the first time. */
void vs_context_leave(struct vs_context_scope *scope)
{
	CUcontext popped;

	if (vs_real.cuCtxPopCurrent_v2(&popped))
		vs_real.cuCtxPopCurrent_v2(&popped);
	vs_context_unrelax(scope->mode);
}

CUstreamCaptureMode vs_context_relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (vs_real.cuThreadExchangeStreamCaptureMode(&mode))
		return CU_STREAM_CAPTURE_MODE_RELAXED;
	return mode;
}

void vs_context_unrelax(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode ours = mode;

	if (mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    vs_real.cuThreadExchangeStreamCaptureMode(&ours))
		vs_real.cuThreadExchangeStreamCaptureMode(&mode);
}
