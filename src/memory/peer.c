/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/peer.h"
#include "memory/ipc_import.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdatomic.h>

static _Atomic uint64_t known;	/* bit n: a context on device n */

static struct vs_segment *next_of(CUdevice device, CUdeviceptr after)
{
	struct vs_segment *s;
	size_t i;

	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (s->base > after && s->device == device)
			return s;
	}
	return NULL;
}

/* The next segment of @device behind @after, pinned by nobody else. */
static struct vs_segment *pin_next(CUdevice device, CUdeviceptr after)
{
	struct vs_segment *s;

	vs_lock_take(&vs_segment_lock);
	while ((s = next_of(device, after)) && s->pins)
		vs_segment_wait_change();
	if (s)
		vs_segment_pin(s);
	vs_lock_drop(&vs_segment_lock);
	return s;
}

/* Chunks are only added behind the others, and a pinned segment loses none. */
static void extend_segment(struct vs_segment *s)
{
	struct vs_why why;
	struct vs_chunk c;
	size_t i;

	for (i = 0;; i++) {
		vs_lock_take(&vs_segment_lock);
		if (i < s->chunk_count)
			c = s->chunks[i];
		else
			c.size = 0;
		vs_lock_drop(&vs_segment_lock);
		if (!c.size)
			return;
		if (c.state == VS_CHUNK_RESIDENT &&
		    vs_vmm_access(s->device, s->base + c.offset, c.size, &why))
			vs_log_warn("no access for another device: %s",
				    why.text);
	}
}

/* An operation that has them pinned is waited for: what it maps has the new
 * access already. */
static void extend_mappings(CUdevice device)
{
	CUstreamCaptureMode mode = vs_context_relax();
	struct vs_segment *s;
	CUdeviceptr after = 0;

	while ((s = pin_next(device, after))) {
		after = s->base;
		extend_segment(s);
		vs_lock_take(&vs_segment_lock);
		vs_segment_unpin(s);
		vs_lock_drop(&vs_segment_lock);
	}
	vs_ipc_extend(device);
	vs_context_unrelax(mode);
}

static void pair(CUdevice owner, CUdevice accessor)
{
	int can = 0;

	if (vs_real.cuDeviceCanAccessPeer(&can, accessor, owner) || !can)
		return;
	if (vs_vmm_add_accessor(owner, accessor))
		extend_mappings(owner);
}

static void device_comes_in(CUdevice device)
{
	uint64_t bit, others;
	int other;

	if (device < 0 || device > 63)
		return;
	bit = (uint64_t)1 << device;
	others = atomic_fetch_or(&known, bit);
	if (others & bit)
		return;
	for (other = 0; other < 64; other++) {
		if (!(others >> other & 1))
			continue;
		pair(device, other);
		pair(other, device);
	}
}

void vs_peer_context(CUcontext context)
{
	struct vs_context *c = vs_context_pin(context);

	if (!c)
		return;
	device_comes_in(c->device);
	vs_context_unpin(c);
}

void vs_peer_look_again(CUdevice device, unsigned changes)
{
	if (changes != vs_vmm_accessors())
		extend_mappings(device);
}
