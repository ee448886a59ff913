/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/quarantine.h"
#include "memory/arena.h"
#include "memory/device_wait.h"
#include "memory/spare.h"
#include "base/driver.h"
#include "base/log.h"

#include <stdlib.h>

#define NATIVES 32

struct pending {
	struct vs_block *block;
	struct pending *next;
};

/* under vs_segment_lock */
static struct pending *quarantine;
static struct {
	CUdeviceptr base;
	CUcontext context;
} natives[NATIVES];
static int native_count;

/* The pin of who took the block out is the last: no operation works on it. */
void vs_quarantine_end(struct vs_block *block)
{
	struct vs_segment *s = block->segment;
	CUdevice device = s->device;
	bool spare;

	if (s->part) {
		vs_arena_free(block);
		return;
	}
	vs_lock_take(&vs_segment_lock);
	vs_segment_wait_pins(s, 1);
	spare = vs_spare_put(s);
	if (!spare)
		vs_segment_remove(s);
	vs_segment_unpin(s);
	vs_lock_drop(&vs_segment_lock);
	if (spare)
		vs_spare_limit(device);
	else
		vs_segment_destroy(s);
}

void vs_quarantine_add(struct vs_block *block)
{
	struct pending *p = malloc(sizeof(*p));

	vs_lock_take(&vs_segment_lock);
	vs_segment_unpin(block->segment);
	if (p) {
		p->block = block;
		p->next = quarantine;
		quarantine = p;
	}
	vs_lock_drop(&vs_segment_lock);
	if (!p)
		vs_log_error("0x%llx: %zu bytes are lost: no host memory",
			     block->base, block->span);
}

void vs_quarantine_add_native(CUdeviceptr base, CUcontext context)
{
	bool room;

	vs_lock_take(&vs_segment_lock);
	room = native_count < NATIVES;
	if (room) {
		natives[native_count].base = base;
		natives[native_count++].context = context;
	}
	vs_lock_drop(&vs_segment_lock);
	if (!room)
		vs_real.cuMemFree_v2(base);
}

static void end_natives(void)
{
	CUdeviceptr base;

	for (;;) {
		vs_lock_take(&vs_segment_lock);
		base = native_count ? natives[--native_count].base : 0;
		vs_lock_drop(&vs_segment_lock);
		if (!base)
			return;
		vs_real.cuMemFree_v2(base);
	}
}

/* Take what is pending on @device out of the quarantine, pinned. */
static struct pending *take_pending(CUdevice device)
{
	struct pending **link = &quarantine, *taken = NULL, *p;

	vs_lock_take(&vs_segment_lock);
	while ((p = *link)) {
		if (p->block->segment->device != device) {
			link = &p->next;
			continue;
		}
		vs_segment_pin(p->block->segment);
		*link = p->next;
		p->next = taken;
		taken = p;
	}
	vs_lock_drop(&vs_segment_lock);
	return taken;
}

static void end_pending(struct pending *list)
{
	struct pending *p;

	while ((p = list)) {
		list = p->next;
		vs_quarantine_end(p->block);
		free(p);
	}
	end_natives();
}

static void put_back(struct pending *list)
{
	struct pending *p;

	vs_lock_take(&vs_segment_lock);
	while ((p = list)) {
		list = p->next;
		vs_segment_unpin(p->block->segment);
		p->next = quarantine;
		quarantine = p;
	}
	vs_lock_drop(&vs_segment_lock);
}

/* The wait comes after the taking: it covers all that was taken. */
CUresult vs_quarantine_wait(CUdevice device, CUcontext context,
			    bool *captured)
{
	struct pending *list = take_pending(device);
	CUresult rc = vs_device_wait(device, context, captured);

	if (rc || *captured)
		put_back(list);
	else
		end_pending(list);
	return rc;
}

void vs_quarantine_settle(CUdevice device)
{
	end_pending(take_pending(device));
}

void vs_quarantine_forget(const struct vs_segment *segment)
{
	struct pending **link = &quarantine, *p;

	while ((p = *link)) {
		if (p->block->segment != segment) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		free(p);
	}
}

void vs_quarantine_forget_natives(CUcontext context)
{
	int i;

	for (i = 0; i < native_count;)
		if (natives[i].context == context)
			natives[i] = natives[--native_count];
		else
			i++;
}

size_t vs_quarantine_bytes(CUdevice device)
{
	struct pending *p;
	size_t sum = 0;

	for (p = quarantine; p; p = p->next)
		if (p->block->segment->device == device &&
		    !p->block->segment->level)
			sum += p->block->span;
	return sum;
}
