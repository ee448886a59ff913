/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/ring.h"
#include "backup/host_pool.h"
#include "backup/spill.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/thread.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* With fewer the link idles; with the least there still is some overlap. */
#define SLOTS_MAX (VS_RING_MOST / VS_PAGE)
#define SLOTS_MIN (VS_RING_LEAST / VS_PAGE)
#define BLOCKS_MAX (SLOTS_MAX * VS_PAGE / VS_HOST_BLOCK)
#define THREADS_MAX 12

struct slot {
	char *memory;
	CUevent event;
	bool out;
	CUdeviceptr near;
	struct vs_far far;
	size_t size;
	struct slot *next;	/* in the list that it is in; under lock */
};

struct vs_ring {
	struct vs_context *context;
	CUstream stream;
	struct vs_host_block *blocks[BLOCKS_MAX];
	size_t block_count;
	struct slot slots[SLOTS_MAX];
	size_t slot_count;
	pthread_t threads[THREADS_MAX];
	size_t thread_count;
	struct vs_lock lock;
	pthread_cond_t work;	/* for the threads */
	pthread_cond_t room;	/* a slot is free, or the ring has failed */
	/* under lock: */
	struct slot *free;
	struct slot *first, **last;	/* for the threads, in their order */
	size_t busy;			/* slots that are with them */
	bool stop;
	enum vs_status status;		/* of the first failure */
	struct vs_why why;		/* likewise */
};

static enum vs_status copy_failed(struct vs_why *why, CUresult rc,
				  const struct slot *slot)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "copy %s 0x%llx, %zu KiB: %s",
			  slot->out ? "out of" : "into", slot->near,
			  slot->size >> 10,
			  vs_driver_error(rc, error, sizeof(error)));
}

static void note_failure(struct vs_ring *ring, enum vs_status st,
			 const struct vs_why *why)
{
	vs_lock_take(&ring->lock);
	if (!ring->status) {
		ring->status = st;
		ring->why = *why;
	}
	pthread_cond_broadcast(&ring->room);
	vs_lock_drop(&ring->lock);
}

static enum vs_status far_out(const struct slot *slot, struct vs_why *why)
{
	CUresult rc = vs_real.cuEventSynchronize(slot->event);

	if (rc)
		return copy_failed(why, rc, slot);
	if (!slot->far.memory)
		return vs_spill_write(slot->far.slot, slot->memory,
				      slot->size, why);
	memcpy(slot->far.memory, slot->memory, slot->size);
	return VS_OK;
}

static enum vs_status far_in(const struct vs_ring *ring,
			     const struct slot *slot, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	CUresult rc;

	if (slot->far.memory)
		memcpy(slot->memory, slot->far.memory, slot->size);
	else
		st = vs_spill_read(slot->far.slot, slot->memory, slot->size,
				   why);
	if (st)
		return st;
	rc = vs_real.cuMemcpyHtoDAsync_v2(slot->near, slot->memory,
					  slot->size, ring->stream);
	if (!rc)
		rc = vs_real.cuEventRecord(slot->event, ring->stream);
	if (!rc)
		rc = vs_real.cuEventSynchronize(slot->event);
	return rc ? copy_failed(why, rc, slot) : VS_OK;
}

/* The next slot for a thread; NULL: there will be none.  Of a ring that has
 * failed none is worked on any more, nor used again. */
static struct slot *next_slot(struct vs_ring *ring)
{
	struct slot *slot;

	vs_lock_take(&ring->lock);
	for (;;) {
		slot = ring->first;
		if (slot) {
			ring->first = slot->next;
			if (!ring->first)
				ring->last = &ring->first;
			if (!ring->status)
				break;
			ring->busy--;
			pthread_cond_broadcast(&ring->room);
		} else if (ring->stop) {
			break;
		} else {
			vs_lock_wait(&ring->lock, &ring->work, 0);
		}
	}
	vs_lock_drop(&ring->lock);
	return slot;
}

static void done(struct vs_ring *ring, struct slot *slot, bool well)
{
	vs_lock_take(&ring->lock);
	ring->busy--;
	if (well) {
		slot->next = ring->free;
		ring->free = slot;
	}
	pthread_cond_broadcast(&ring->room);
	vs_lock_drop(&ring->lock);
}

static void *help(void *arg)
{
	struct vs_ring *ring = arg;
	struct vs_context_scope scope;
	enum vs_status st, entered;
	struct slot *slot;
	struct vs_why why;

	entered = vs_context_enter(ring->context, &scope, &why);
	if (entered)
		note_failure(ring, entered, &why);
	while ((slot = next_slot(ring))) {
		st = slot->out ? far_out(slot, &why) :
				 far_in(ring, slot, &why);
		if (st)
			note_failure(ring, st, &why);
		done(ring, slot, !st);
	}
	if (!entered)
		vs_context_leave(&scope);
	return NULL;
}

/* A slot that is free, when one is; NULL with @why: the ring has failed. */
static struct slot *take_slot(struct vs_ring *ring, struct vs_why *why)
{
	struct slot *slot = NULL;

	vs_lock_take(&ring->lock);
	while (!ring->free && !ring->status)
		vs_lock_wait(&ring->lock, &ring->room, 0);
	if (!ring->status) {
		slot = ring->free;
		ring->free = slot->next;
	} else if (why) {
		*why = ring->why;
	}
	vs_lock_drop(&ring->lock);
	return slot;
}

static void give_slot(struct vs_ring *ring, struct slot *slot)
{
	vs_lock_take(&ring->lock);
	slot->next = NULL;
	*ring->last = slot;
	ring->last = &slot->next;
	ring->busy++;
	pthread_cond_signal(&ring->work);
	vs_lock_drop(&ring->lock);
}

enum vs_status vs_ring_out(struct vs_ring *ring, CUdeviceptr from,
			   size_t size, struct vs_far to, struct vs_why *why)
{
	struct slot *slot = take_slot(ring, why);
	struct vs_why cause;
	CUresult rc;

	if (!slot)
		return ring->status;
	slot->out = true;
	slot->near = from;
	slot->far = to;
	slot->size = size;
	rc = vs_real.cuMemcpyDtoHAsync_v2(slot->memory, from, size,
					  ring->stream);
	if (!rc)
		rc = vs_real.cuEventRecord(slot->event, ring->stream);
	if (rc) {
		note_failure(ring, copy_failed(&cause, rc, slot), &cause);
		return vs_ring_drain(ring, why);
	}
	give_slot(ring, slot);
	return VS_OK;
}

enum vs_status vs_ring_in(struct vs_ring *ring, struct vs_far from,
			  CUdeviceptr to, size_t size, struct vs_why *why)
{
	struct slot *slot = take_slot(ring, why);

	if (!slot)
		return ring->status;
	slot->out = false;
	slot->near = to;
	slot->far = from;
	slot->size = size;
	give_slot(ring, slot);
	return VS_OK;
}

enum vs_status vs_ring_drain(struct vs_ring *ring, struct vs_why *why)
{
	enum vs_status st;

	vs_lock_take(&ring->lock);
	while (ring->busy)
		vs_lock_wait(&ring->lock, &ring->room, 0);
	st = ring->status;
	if (st && why)
		*why = ring->why;
	vs_lock_drop(&ring->lock);
	return st;
}

/* All of it pinned, or none: the device would wait for each copy. */
static enum vs_status take_memory(struct vs_ring *ring, size_t bytes,
				  struct vs_why *why)
{
	struct vs_host_batch *batch;
	struct vs_host_block *block;
	enum vs_status st;
	size_t i, at;

	st = vs_host_pool_check(bytes, why);
	if (!st)
		st = vs_host_pool_prepare(bytes, bytes, ring->context, &batch,
					  why);
	if (st)
		return st;
	ring->slot_count = 0;
	for (i = 0; !st && i * VS_HOST_BLOCK < bytes; i++) {
		block = vs_host_pool_at(batch, i);
		st = vs_host_pool_wait(block, why);
		if (!st && !block->pinned)
			st = vs_why_set(why, VS_NOHOST, "host memory: %zu MiB "
					"could not be pinned", bytes >> 20);
		else if (!st)
			for (at = 0; at < block->size; at += VS_PAGE)
				ring->slots[ring->slot_count++].memory =
					block->base + at;
		ring->blocks[i] = block;
	}
	if (st)
		vs_host_pool_limit(batch, 0);
	else
		ring->block_count = i;
	vs_host_pool_finish(batch);
	return st;
}

static enum vs_status make_events(struct vs_ring *ring, struct vs_why *why)
{
	struct slot *slot;
	char error[96];
	CUresult rc;
	size_t i;

	for (i = 0; i < ring->slot_count; i++) {
		slot = &ring->slots[i];
		rc = vs_real.cuEventCreate(&slot->event,
					   CU_EVENT_BLOCKING_SYNC |
					   CU_EVENT_DISABLE_TIMING);
		if (rc) {
			slot->event = NULL;
			return vs_why_set(why, VS_CUDA, "event on device %d: "
					  "%s", ring->context->device,
					  vs_driver_error(rc, error,
							  sizeof(error)));
		}
		slot->next = ring->free;
		ring->free = slot;
	}
	return VS_OK;
}

static enum vs_status start_threads(struct vs_ring *ring, struct vs_why *why)
{
	size_t count = vs_thread_count(THREADS_MAX);
	int rc = 0;

	while (!rc && ring->thread_count < count) {
		rc = vs_thread_start(&ring->threads[ring->thread_count],
				     "vsleep-ring", help, ring);
		if (!rc)
			ring->thread_count++;
	}
	if (ring->thread_count)
		return VS_OK;
	return vs_why_set(why, VS_NOHOST, "no thread for copies: %s",
			  strerror(rc));
}

enum vs_status vs_ring_open(struct vs_context *context, CUstream stream,
			    size_t most, struct vs_ring **out,
			    struct vs_why *why)
{
	struct vs_ring *ring = calloc(1, sizeof(*ring));
	size_t slots = SLOTS_MAX;
	enum vs_status st;

	if (!ring)
		return vs_why_set(why, VS_NOHOST, "no memory for a ring");
	ring->context = context;
	ring->stream = stream;
	ring->lock = (struct vs_lock)VS_LOCK(VS_RANK_POOL);
	vs_lock_cond_init(&ring->work);
	vs_lock_cond_init(&ring->room);
	ring->last = &ring->first;
	while (slots > SLOTS_MIN && slots * VS_PAGE > most)
		slots /= 2;
	do {
		st = take_memory(ring, slots * VS_PAGE, why);
		slots /= 2;
	} while (st && slots >= SLOTS_MIN);
	if (!st)
		st = make_events(ring, why);
	if (!st)
		st = start_threads(ring, why);
	if (st)
		vs_ring_close(ring);
	else
		*out = ring;
	return st;
}

void vs_ring_close(struct vs_ring *ring)
{
	size_t i;

	vs_lock_take(&ring->lock);
	ring->stop = true;
	pthread_cond_broadcast(&ring->work);
	vs_lock_drop(&ring->lock);
	for (i = 0; i < ring->thread_count; i++)
		pthread_join(ring->threads[i], NULL);
	if (ring->status)
		vs_driver_settle(ring->stream);
	for (i = 0; i < SLOTS_MAX; i++)
		if (ring->slots[i].event)
			vs_real.cuEventDestroy_v2(ring->slots[i].event);
	for (i = 0; i < ring->block_count; i++)
		vs_host_pool_give_back(ring->blocks[i]);
	pthread_cond_destroy(&ring->work);
	pthread_cond_destroy(&ring->room);
	free(ring);
}
