/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"
#include "init.h"
#include "memory/capture.h"
#include "memory/detach.h"
#include "base/context.h"

#define DEVICES 64

/*
 * Retains less releases that we saw of each primary context.  Too few only
 * make a release look like the last one, which the driver's state corrects.
 */
static _Atomic int retained[DEVICES];

static bool in_range(CUdevice device)
{
	return device >= 0 && device < DEVICES;
}

static CUresult learned(CUresult rc, const CUcontext *context)
{
	if (!rc && *context)
		vs_init_context(*context);
	return rc;
}

VS_EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags,
			       CUdevice device)
{
	return learned(VS_REAL(cuCtxCreate, (context, flags, device)),
		       context);
}

VS_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags,
				  CUdevice device)
{
	return learned(VS_REAL(cuCtxCreate_v2, (context, flags, device)),
		       context);
}

VS_EXPORT CUresult cuCtxCreate_v3(CUcontext *context,
				  CUexecAffinityParam *affinity, int count,
				  unsigned int flags, CUdevice device)
{
	return learned(VS_REAL(cuCtxCreate_v3,
			       (context, affinity, count, flags, device)),
		       context);
}

VS_EXPORT CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *how,
				  unsigned int flags, CUdevice device)
{
	return learned(VS_REAL(cuCtxCreate_v4, (context, how, flags, device)),
		       context);
}

VS_EXPORT CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	return learned(VS_REAL(cuCtxAttach, (context, flags)), context);
}

VS_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	return learned(VS_REAL(cuCtxSetCurrent, (context)), &context);
}

VS_EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
	return learned(VS_REAL(cuCtxPushCurrent, (context)), &context);
}

VS_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	return learned(VS_REAL(cuCtxPushCurrent_v2, (context)), &context);
}

VS_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context,
					    CUdevice device)
{
	CUresult rc = VS_REAL(cuDevicePrimaryCtxRetain, (context, device));

	learned(rc, context);
	if (rc || !in_range(device))
		return rc;
	retained[device]++;
	if (vs_gate_mine())
		vs_context_note_primary(*context, device);
	return rc;
}

/* A context goes, or not: what we hold of it goes the same way. */
static struct vs_detached *detach(CUcontext context,
					    CUdevice device)
{
	return vs_gate_mine() ? vs_detach_take(context, device) : NULL;
}

static CUresult ended(CUresult rc, bool lives,
		      struct vs_detached *detached)
{
	if (rc || lives)
		vs_detach_restore(detached);
	else
		vs_detach_drop(detached);
	return rc;
}

#define DESTROY(sym)							\
VS_EXPORT CUresult sym(CUcontext context)				\
{									\
	struct vs_detached *detached = NULL;			\
									\
	if (context)							\
		detached = detach(context, 0);				\
	return ended(VS_REAL(sym, (context)), false, detached);		\
}
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* One of several uses may end: then the context lives on, and is current. */
VS_EXPORT CUresult cuCtxDetach(CUcontext context)
{
	struct vs_detached *detached = NULL;
	CUcontext now = NULL;
	CUresult rc;

	if (context)
		detached = detach(context, 0);
	rc = VS_REAL(cuCtxDetach, (context));
	if (VS_REAL(cuCtxGetCurrent, (&now)))
		now = NULL;
	return ended(rc, now && now == context, detached);
}

#define RESET(sym)							\
VS_EXPORT CUresult sym(CUdevice device)					\
{									\
	struct vs_detached *detached = detach(NULL, device);	\
	CUresult rc = VS_REAL(sym, (device));				\
									\
	if (!rc && in_range(device))					\
		retained[device] = 0;					\
	return ended(rc, false, detached);				\
}
RESET(cuDevicePrimaryCtxReset)
RESET(cuDevicePrimaryCtxReset_v2)

static bool active(CUdevice device)
{
	unsigned int flags;
	int yes = 1;

	if (VS_REAL(cuDevicePrimaryCtxGetState, (device, &flags, &yes)))
		return true;
	return yes;
}

static struct vs_detached *detach_if_last(CUdevice device)
{
	if (in_range(device) && retained[device] > 1)
		return NULL;
	return detach(NULL, device);
}

static CUresult released(CUresult rc, CUdevice device,
			 struct vs_detached *detached)
{
	bool lives = active(device);

	if (!rc && in_range(device) && !lives)
		retained[device] = 0;
	else if (!rc && in_range(device) && retained[device] > 0)
		retained[device]--;
	if (!rc && !lives && !detached)
		detached = detach(NULL, device);
	return ended(rc, lives, detached);
}

#define RELEASE(sym)							\
VS_EXPORT CUresult sym(CUdevice device)					\
{									\
	struct vs_detached *detached = detach_if_last(device);\
									\
	return released(VS_REAL(sym, (device)), device, detached);	\
}
RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)

/*
 * A green context holds the primary one as a retain does; that one's handle
 * is had by a retain more, taken back at once.
 */
static void learn_green(CUgreenCtx green, CUdevice device)
{
	CUcontext primary, context;

	if (VS_REAL(cuDevicePrimaryCtxRetain, (&primary, device)))
		return;
	vs_init_context(primary);
	if (vs_gate_mine()) {
		vs_context_note_primary(primary, device);
		if (!VS_REAL(cuCtxFromGreenCtx, (&context, green)))
			vs_context_note_green(context, device);
	}
	if (VS_REAL(cuDevicePrimaryCtxRelease_v2, (device)))
		VS_REAL(cuDevicePrimaryCtxRelease_v2, (device));
}

VS_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc,
				    CUdevice device, unsigned int flags)
{
	CUresult rc = VS_REAL(cuGreenCtxCreate, (green, desc, device, flags));

	if (rc || !in_range(device))
		return rc;
	retained[device]++;
	learn_green(*green, device);
	return rc;
}

/* It may be the last to hold the primary context, and all that is in it. */
VS_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	struct vs_capture_entry *captures;
	struct vs_context *known = NULL;
	struct vs_detached *detached;
	CUcontext context;
	CUdevice device;
	CUresult rc;

	if (vs_gate_mine() && !VS_REAL(cuCtxFromGreenCtx, (&context, green)))
		known = vs_context_detach(context);
	if (!known)
		return VS_REAL(cuGreenCtxDestroy, (green));
	device = known->device;
	captures = vs_capture_take(context);
	detached = detach_if_last(device);
	rc = VS_REAL(cuGreenCtxDestroy, (green));
	if (rc) {
		vs_context_attach(known);
		vs_capture_restore(captures);
	} else {
		vs_context_forget(known);
		vs_capture_drop(captures);
	}
	return released(rc, device, detached);
}
