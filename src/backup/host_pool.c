/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/host_pool.h"
#include "backup/host_budget.h"
#include "base/config.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE ((size_t)2 << 20)
#define THREADS_MAX 64

struct vs_host_batch {
	struct vs_context *context;	/* pinned by the caller */
	size_t count;
	_Atomic size_t wanted;	/* of them */
	_Atomic size_t next;	/* block that a thread takes next */
	pthread_t threads[THREADS_MAX];
	size_t thread_count;
	struct vs_host_block *blocks[];
};

static struct vs_lock pool_lock = VS_LOCK(VS_RANK_POOL);
/*
 * Of the threads that prepare blocks one pins at a time, and none while copies
 * are queued: in the driver they would wait for each other all the same, and
 * every single copy for the next block.  Under pool_lock, as the conditions
 * are.
 */
static bool pinning;
static unsigned copiers;
static pthread_cond_t may_pin = PTHREAD_COND_INITIALIZER;
static pthread_cond_t may_copy = PTHREAD_COND_INITIALIZER;
static pthread_cond_t prepared = PTHREAD_COND_INITIALIZER;
static struct vs_host_block *stuck;	/* still pinned; under pool_lock */
static _Atomic size_t taken;

size_t vs_host_pool_taken(void)
{
	return atomic_load(&taken);
}

void vs_host_pool_charge(ptrdiff_t bytes)
{
	atomic_fetch_add(&taken, (size_t)bytes);
}

size_t vs_host_pool_budget(void)
{
	size_t limit = vs_config.host_limit, used = vs_host_pool_taken();
	size_t room = vs_host_budget_cgroup();

	if (!limit)
		limit = vs_host_budget_available();
	else
		limit = limit > used ? limit - used : 0;
	return limit < room ? limit : room;
}

/* Aligned to huge pages, so that populating and pinning are quick. */
static char *map_aligned(size_t size)
{
	char *raw, *base;
	size_t head;

	raw = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	head = (HUGE - (uintptr_t)raw % HUGE) % HUGE;
	base = raw + head;
	if (head)
		munmap(raw, head);
	munmap(base + size, HUGE - head);
	return base;
}

/* One mapping for all blocks of a list: pinning takes longer in many. */
static char *map_blocks(size_t size)
{
	char *base = map_aligned(size);

	if (!base)
		return NULL;
	madvise(base, size, MADV_HUGEPAGE);
	madvise(base, size, MADV_DONTFORK);
	madvise(base, size, MADV_DONTDUMP);
	return base;
}

static struct vs_host_block *make_block(char *base, size_t size,
					struct vs_host_batch *batch)
{
	struct vs_host_block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->base = base;
	b->size = size;
	b->batch = batch;
	atomic_fetch_add(&taken, size);
	return b;
}

/*
 * A registration belongs to its context and is gone with it.  Pages that are
 * unmapped while registered would stay pinned, and their addresses could not
 * be registered again, so a failure is not taken for an answer.
 */
static bool unpin(struct vs_host_block *block)
{
	struct vs_context *context = vs_context_pin_serial(block->context);
	struct vs_context_scope scope;
	CUresult rc = CUDA_ERROR_UNKNOWN;
	CUcontext current;

	if (!context)
		return true;
	if (!vs_context_enter(context, &scope, NULL) ||
	    !vs_context_enter(context, &scope, NULL)) {
		rc = vs_real.cuMemHostUnregister(block->base);
		if (rc)
			rc = vs_real.cuMemHostUnregister(block->base);
		vs_context_leave(&scope);
	} else if (vs_real.cuCtxGetCurrent(&current) ==
		   CUDA_ERROR_DEINITIALIZED) {
		rc = CUDA_ERROR_DEINITIALIZED;
	}
	vs_context_unpin(context);
	return !rc || rc == CUDA_ERROR_DEINITIALIZED;
}

void vs_host_pool_give_back(struct vs_host_block *block)
{
	if (block->pinned && !unpin(block)) {
		vs_log_warn("%zu MiB of host memory could not be unpinned",
			    block->size >> 20);
		vs_lock_take(&pool_lock);
		block->next = stuck;
		stuck = block;
		vs_lock_drop(&pool_lock);
		return;
	}
	munmap(block->base, block->size);
	atomic_fetch_sub(&taken, block->size);
	free(block);
}

static void retry_stuck(void)
{
	struct vs_host_block *list, *block;

	vs_lock_take(&pool_lock);
	list = stuck;
	stuck = NULL;
	vs_lock_drop(&pool_lock);
	while ((block = list)) {
		list = block->next;
		vs_host_pool_give_back(block);
	}
}

/*
 * A huge page at a time, since whoever pins waits for the address space
 * meanwhile.  A kernel older than 5.14 has no populate; touching does the
 * same, but cannot be refused.
 */
static int populate(struct vs_host_block *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0;

#ifdef MADV_POPULATE_WRITE
	while (at < b->size &&
	       !madvise(b->base + at, HUGE, MADV_POPULATE_WRITE))
		at += HUGE;
	if (at < b->size && errno != EINVAL)
		return errno;
#endif
	for (; at < b->size; at += page)
		((volatile char *)b->base)[at] = 0;
	return 0;
}

static void pin(struct vs_host_block *b, const struct vs_context *context)
{
	b->context = context->serial;
	b->pinned = !vs_real.cuMemHostRegister_v2(b->base, b->size,
						CU_MEMHOSTREGISTER_PORTABLE);
}

static void pin_in_turn(struct vs_host_block *b)
{
	vs_lock_take(&pool_lock);
	while (pinning || copiers)
		vs_lock_wait(&pool_lock, &may_pin, 0);
	pinning = true;
	vs_lock_drop(&pool_lock);
	pin(b, b->batch->context);
	vs_lock_take(&pool_lock);
	pinning = false;
	if (copiers)
		pthread_cond_broadcast(&may_copy);
	else
		pthread_cond_signal(&may_pin);
	vs_lock_drop(&pool_lock);
}

void vs_host_pool_copy_begin(void)
{
	vs_lock_take(&pool_lock);
	copiers++;
	while (pinning)
		vs_lock_wait(&pool_lock, &may_copy, 0);
	vs_lock_drop(&pool_lock);
}

void vs_host_pool_copy_end(void)
{
	vs_lock_take(&pool_lock);
	if (!--copiers)
		pthread_cond_signal(&may_pin);
	vs_lock_drop(&pool_lock);
}

static void prepare_block(struct vs_host_block *b)
{
	int error = populate(b);

	if (!error)
		pin_in_turn(b);
	vs_lock_take(&pool_lock);
	b->error = error;
	b->ready = error ? VS_HOST_FAILED : VS_HOST_READY;
	pthread_cond_broadcast(&prepared);
	vs_lock_drop(&pool_lock);
}

static void *prepare_thread(void *arg)
{
	struct vs_host_batch *batch = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	size_t i;

	vs_real.cuThreadExchangeStreamCaptureMode(&mode);
	vs_real.cuCtxSetCurrent(batch->context->handle);
	vs_lock_take(&pool_lock);	/* until all have been started */
	vs_lock_drop(&pool_lock);
	for (;;) {
		i = atomic_fetch_add(&batch->next, 1);
		if (i >= atomic_load(&batch->wanted))
			break;
		prepare_block(batch->blocks[i]);
	}
	return NULL;
}

static size_t blocks_of(size_t bytes)
{
	return (bytes + VS_HOST_BLOCK - 1) / VS_HOST_BLOCK;
}

/* Of all threads the share that these blocks are of all, at least one. */
static size_t thread_count(size_t blocks, size_t all)
{
	size_t count = vs_thread_count(THREADS_MAX);

	if (blocks < all)
		count = (count * blocks + all - 1) / all;
	return count < blocks ? count : blocks;
}

/* Those that populate hold up what a start does to the address space. */
static void start_threads(struct vs_host_batch *batch, size_t all)
{
	size_t wanted = thread_count(batch->count, all);

	vs_lock_take(&pool_lock);
	while (batch->thread_count < wanted &&
	       !vs_thread_start(&batch->threads[batch->thread_count],
				"vsleep-host", prepare_thread, batch))
		batch->thread_count++;
	vs_lock_drop(&pool_lock);
}

enum vs_status vs_host_pool_check(size_t bytes, struct vs_why *why)
{
	size_t room;

	retry_stuck();
	room = vs_host_pool_budget();
	if (bytes <= room)
		return VS_OK;
	return vs_why_set(why, VS_NOHOST, "host memory: need %zu MiB, may "
			  "take %zu MiB", bytes >> 20, room >> 20);
}

enum vs_status vs_host_pool_prepare(size_t bytes, size_t all,
				    struct vs_context *context,
				    struct vs_host_batch **out,
				    struct vs_why *why)
{
	size_t count = blocks_of(bytes), size, at;
	size_t all_bytes = (bytes + HUGE - 1) / HUGE * HUGE;
	struct vs_host_batch *batch;
	char *base;

	batch = calloc(1, sizeof(*batch) + count * sizeof(batch->blocks[0]));
	if (!batch)
		return vs_why_set(why, VS_NOHOST, "host memory: no memory for "
				  "a list of %zu blocks", count);
	batch->context = context;
	base = map_blocks(all_bytes);
	if (!base) {
		free(batch);
		return vs_why_set(why, VS_NOHOST, "host memory: no addresses "
				  "for %zu MiB: %s", bytes >> 20,
				  strerror(errno));
	}
	for (at = 0; at < all_bytes; at += size) {
		size = all_bytes - at;
		if (size > VS_HOST_BLOCK)
			size = VS_HOST_BLOCK;
		batch->blocks[batch->count] = make_block(base + at, size,
							 batch);
		if (!batch->blocks[batch->count])
			break;
		batch->count++;
	}
	if (at < all_bytes) {
		munmap(base + at, all_bytes - at);
		vs_host_pool_finish(batch);
		return vs_why_set(why, VS_NOHOST, "host memory: no memory for "
				  "a list of %zu blocks", count);
	}
	atomic_store(&batch->wanted, count);
	start_threads(batch, blocks_of(all));
	*out = batch;
	return VS_OK;
}

size_t vs_host_pool_count(const struct vs_host_batch *batch)
{
	return atomic_load(&batch->wanted);
}

struct vs_host_block *vs_host_pool_at(struct vs_host_batch *batch,
				      size_t index)
{
	return batch->blocks[index];
}

void vs_host_pool_limit(struct vs_host_batch *batch, size_t count)
{
	if (count < atomic_load(&batch->wanted))
		atomic_store(&batch->wanted, count);
}

/* Where no thread could be started the caller prepares the block itself. */
enum vs_status vs_host_pool_wait(struct vs_host_block *block,
				 struct vs_why *why)
{
	enum vs_status st = VS_OK;

	if (!block->batch)
		return VS_OK;
	if (!block->batch->thread_count && block->ready == VS_HOST_WAITING)
		prepare_block(block);
	vs_lock_take(&pool_lock);
	while (block->ready == VS_HOST_WAITING)
		vs_lock_wait(&pool_lock, &prepared, 0);
	if (block->ready == VS_HOST_FAILED)
		st = vs_why_set(why, VS_NOHOST, "host memory: a block of %zu "
				"MiB could not be populated: %s",
				block->size >> 20, strerror(block->error));
	vs_lock_drop(&pool_lock);
	return st;
}

void vs_host_pool_finish(struct vs_host_batch *batch)
{
	size_t i, wanted = atomic_load(&batch->wanted);

	for (i = 0; i < batch->thread_count; i++)
		pthread_join(batch->threads[i], NULL);
	for (i = 0; i < batch->count; i++)
		if (i < wanted)
			batch->blocks[i]->batch = NULL;
		else
			vs_host_pool_give_back(batch->blocks[i]);
	free(batch);
}

bool vs_host_pool_pinned(struct vs_host_block *block,
			 struct vs_context *context)
{
	struct vs_context *known;
	unsigned long serial;
	bool pinned;

	vs_lock_take(&pool_lock);
	serial = block->context;
	pinned = block->pinned;
	vs_lock_drop(&pool_lock);
	known = pinned ? vs_context_pin_serial(serial) : NULL;
	if (known)
		vs_context_unpin(known);
	if (!pinned || known)
		return pinned;
	vs_lock_take(&pool_lock);
	if (block->context == serial)
		pin(block, context);
	pinned = block->pinned;
	vs_lock_drop(&pool_lock);
	return pinned;
}
