/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/staging.h"
#include "memory/vmm.h"
#include "backup/slice.h"
#include "base/device.h"
#include "base/driver.h"
#include "base/lock.h"

/* A kernel of the program may wait for what it allocates here, and ours for the
 * kernel. */
#define PATIENCE 0.5	/* seconds */

/* The program has things to put on the device that do not ask us for room. */
#define LEAVE_FREE (VS_SLICE_BYTES / 2)

struct block {
	CUdeviceptr base;
	size_t size;				/* 0: there is none */
	CUmemGenericAllocationHandle handle;
	bool busy;
	bool refused;		/* until the next begin */
};

static struct vs_lock staging_lock = VS_LOCK(VS_RANK_STORE);
static pthread_cond_t put = PTHREAD_COND_INITIALIZER;
static pthread_once_t put_once = PTHREAD_ONCE_INIT;
static struct block blocks[VS_DEVICE_MAX];	/* under staging_lock */

static void make_put(void)
{
	vs_lock_cond_init(&put);
}

static void release(const struct block *block)
{
	if (!block->size)
		return;
	vs_vmm_unback(block->base, block->size, block->handle);
	vs_vmm_unreserve(block->base, block->size);
}

void vs_staging_begin(void)
{
	int i;

	pthread_once(&put_once, make_put);
	vs_lock_take(&staging_lock);
	for (i = 0; i < VS_DEVICE_MAX; i++)
		blocks[i].refused = false;
	vs_lock_drop(&staging_lock);
}

void vs_staging_end(void)
{
	struct block was;
	int i;

	for (i = 0; i < VS_DEVICE_MAX; i++) {
		vs_lock_take(&staging_lock);
		was = blocks[i];
		if (!was.busy)
			blocks[i].size = 0;
		vs_lock_drop(&staging_lock);
		if (!was.busy)
			release(&was);
	}
}

static enum vs_status make(CUdevice device, struct block *out,
			   struct vs_why *why)
{
	size_t available, total, size;
	enum vs_status st;

	if (!vs_vmm_usable(device))
		return vs_why_set(why, VS_NOMEM, "device %d has no virtual "
				  "memory management", device);
	size = vs_vmm_round(device, VS_SLICE_BYTES);
	if (vs_real.cuMemGetInfo_v2(&available, &total) ||
	    available < size + LEAVE_FREE)
		return vs_why_set(why, VS_NOMEM, "device %d: less than %zu "
				  "MiB are free", device,
				  (size + LEAVE_FREE) >> 20);
	st = vs_vmm_reserve(device, size, &out->base, why);
	if (st)
		return st;
	st = vs_vmm_back(device, out->base, size, &out->handle, why);
	if (st)
		vs_vmm_unreserve(out->base, size);
	else
		out->size = size;
	return st;
}

/* Nobody else makes one, so it is made without the lock. */
enum vs_status vs_staging_take(CUdevice device, CUdeviceptr *base,
			       struct vs_why *why)
{
	struct block fresh = { .size = 0 };
	enum vs_status st = VS_OK;
	struct block *b;

	if (device < 0 || device >= VS_DEVICE_MAX)
		return vs_why_set(why, VS_NOMEM, "no block for device %d",
				  device);
	b = &blocks[device];
	vs_lock_take(&staging_lock);
	if (!b->size && !b->refused) {
		vs_lock_drop(&staging_lock);
		st = make(device, &fresh, why);
		vs_lock_take(&staging_lock);
		if (!st && !b->refused) {
			*b = fresh;
			fresh.size = 0;
		}
	}
	if (!st && b->refused)
		st = vs_why_set(why, VS_NOMEM, "device %d: the program has "
				"run out of memory", device);
	b->busy = !st;
	*base = b->base;
	vs_lock_drop(&staging_lock);
	release(&fresh);
	return st;
}

void vs_staging_put(CUdevice device)
{
	vs_lock_take(&staging_lock);
	blocks[device].busy = false;
	pthread_cond_broadcast(&put);
	vs_lock_drop(&staging_lock);
}

void vs_staging_yield(CUdevice device)
{
	double until = vs_lock_now() + PATIENCE;
	struct block was = { .size = 0 }, *b;

	if (device < 0 || device >= VS_DEVICE_MAX)
		return;
	pthread_once(&put_once, make_put);
	b = &blocks[device];
	vs_lock_take(&staging_lock);
	b->refused = true;
	while (b->busy && vs_lock_wait(&staging_lock, &put, until))
		;
	if (!b->busy) {
		was = *b;
		b->size = 0;
	}
	vs_lock_drop(&staging_lock);
	release(&was);
}

size_t vs_staging_bytes(CUdevice device)
{
	size_t bytes;

	if (device < 0 || device >= VS_DEVICE_MAX)
		return 0;
	vs_lock_take(&staging_lock);
	bytes = blocks[device].size;
	vs_lock_drop(&staging_lock);
	return bytes;
}
