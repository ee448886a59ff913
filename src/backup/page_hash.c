/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/page_hash.h"
#include "base/driver.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const char image[] =
#include "backup/page_hash.inc"
;

/* One piece of pinned memory; the kernel reads and writes it there. */
struct vs_page_hash {
	struct vs_context *context;
	CUfunction function;
	CUdeviceptr device_keys;
	size_t max, count;
	void *pinned;
	struct vs_page_keys *keys;	/* pinned, as the two below */
	struct vs_page_span *spans;
	struct vs_page_part *parts;
};

_Static_assert(sizeof(struct vs_page_span) == 16 &&
	       sizeof(struct vs_page_part) == 40 &&
	       VS_PAGE_KEYS_ON_DEVICE == 9248, "page_hash.ptx counts on it");

static pthread_once_t keys_once = PTHREAD_ONCE_INIT;
static struct vs_page_keys keys;	/* after keys_once */

static struct vs_lock stuck_lock = VS_LOCK(VS_RANK_POOL);
static void *stuck;	/* pinned memory that was not freed, each a pointer to
			   the next; under stuck_lock */

/* How many of the bytes came from the kernel's generator. */
static size_t fill_random(char *to, size_t size)
{
	size_t done = 0;
	ssize_t got;
	int fd;

	do {
		got = getrandom(to + done, size - done, GRND_NONBLOCK);
		if (got > 0)
			done += (size_t)got;
	} while (done < size && (got > 0 || (got < 0 && errno == EINTR)));
	if (done == size)
		return done;
	fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return done;
	do {
		got = read(fd, to + done, size - done);
		if (got > 0)
			done += (size_t)got;
	} while (done < size && (got > 0 || (got < 0 && errno == EINTR)));
	close(fd);
	return done;
}

/* Where there is no generator: not what the bound in page_math.h wants, but
 * nothing that pages could depend on. */
static void fill_otherwise(char *to, size_t size)
{
	struct timespec now;
	uint64_t x, state;
	size_t at;

	clock_gettime(CLOCK_MONOTONIC, &now);
	state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^
		(uint64_t)getpid() << 44 ^ (uintptr_t)&now ^
		(uintptr_t)&keys << 13;
	for (at = 0; at < size; at++) {
		x = state += UINT64_C(0x9e3779b97f4a7c15);
		x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
		to[at] = (char)(x >> 56);
	}
}

static void make_keys(void)
{
	int saved = errno;
	size_t done = fill_random((char *)&keys, sizeof(keys));

	fill_otherwise((char *)&keys + done, sizeof(keys) - done);
	errno = saved;
}

const struct vs_page_keys *vs_page_hash_keys(void)
{
	pthread_once(&keys_once, make_keys);
	return &keys;
}

/* Try to free @pinned, or NULL, and what could not be freed before. */
static void free_pinned(void *pinned)
{
	void *list, *next;

	vs_lock_take(&stuck_lock);
	list = stuck;
	stuck = NULL;
	vs_lock_drop(&stuck_lock);
	if (pinned) {
		*(void **)pinned = list;
		list = pinned;
	}
	for (; list; list = next) {
		next = *(void **)list;
		if (!vs_real.cuMemFreeHost(list) ||
		    !vs_real.cuMemFreeHost(list))
			continue;
		vs_lock_take(&stuck_lock);
		*(void **)list = stuck;
		stuck = list;
		vs_lock_drop(&stuck_lock);
	}
}

static enum vs_status failed(const struct vs_context *context, CUresult rc,
			     enum vs_status without, const char *what,
			     struct vs_why *why)
{
	char error[96];

	return vs_why_set(why, rc == CUDA_ERROR_OUT_OF_MEMORY ? without :
			       VS_CUDA, "%s on device %d: %s", what,
			  context->device,
			  vs_driver_error(rc, error, sizeof(error)));
}

/* A driver that loads lazily may find out only now that memory is short. */
static enum vs_status find_kernel(struct vs_page_hash *hash,
				  struct vs_why *why)
{
	struct vs_context *context = hash->context;
	CUmodule module = context->page_hash;
	CUresult rc = CUDA_SUCCESS;

	if (!module)
		rc = vs_real.cuModuleLoadData(&module, image);
	if (!rc) {
		context->page_hash = module;
		rc = vs_real.cuModuleGetFunction(&hash->function, module,
						 "vs_page_hash");
	}
	if (!rc)
		rc = vs_real.cuModuleGetGlobal_v2(&hash->device_keys, NULL,
						  module, "vs_page_keys");
	return rc ? failed(context, rc, VS_NOMEM, "kernel that hashes pages",
			   why) : VS_OK;
}

/* The address is the device's too: it is neither registered memory nor
 * write-combined. */
static enum vs_status take_pinned(struct vs_page_hash *hash,
				  struct vs_why *why)
{
	const size_t parts = sizeof(struct vs_page_part) * VS_PAGE_PARTS;
	CUresult rc;

	rc = vs_real.cuMemHostAlloc(&hash->pinned, sizeof(*hash->keys) +
				    hash->max * (sizeof(*hash->spans) + parts),
				    CU_MEMHOSTALLOC_PORTABLE |
				    CU_MEMHOSTALLOC_DEVICEMAP);
	if (rc)
		return failed(hash->context, rc, VS_NOHOST,
			      "host memory for hashes of pages", why);
	hash->keys = hash->pinned;
	hash->spans = (struct vs_page_span *)(hash->keys + 1);
	hash->parts = (struct vs_page_part *)(hash->spans + hash->max);
	memcpy(hash->keys, vs_page_hash_keys(), sizeof(*hash->keys));
	return VS_OK;
}

enum vs_status vs_page_hash_open(struct vs_context *context, size_t max,
				 struct vs_page_hash **out,
				 struct vs_why *why)
{
	struct vs_page_hash *hash = calloc(1, sizeof(*hash));
	enum vs_status st;

	if (!hash)
		return vs_why_set(why, VS_NOHOST, "no memory for hashes");
	free_pinned(NULL);
	hash->context = context;
	hash->max = max;
	st = find_kernel(hash, why);
	if (!st)
		st = take_pinned(hash, why);
	if (st)
		free(hash);
	else
		*out = hash;
	return st;
}

/* A grid of code for so old a target has 65535 blocks at most. */
#define LAUNCH ((size_t)65535 / VS_PAGE_PARTS)

static CUresult launch(struct vs_page_hash *hash, CUstream stream,
		       size_t from, size_t count)
{
	struct vs_page_span *spans = hash->spans + from;
	struct vs_page_part *parts = hash->parts + from * VS_PAGE_PARTS;
	void *params[] = { &hash->device_keys, &spans, &parts };

	return vs_real.cuLaunchKernel(hash->function,
				      (unsigned)(count * VS_PAGE_PARTS), 1, 1,
				      VS_PAGE_THREADS, 1, 1, 0, stream, params,
				      NULL);
}

/* The keys go along each time: whatever stream it is, they are there. */
enum vs_status vs_page_hash_queue(struct vs_page_hash *hash, CUstream stream,
				  const struct vs_page_span *spans,
				  size_t count, struct vs_why *why)
{
	size_t from;
	CUresult rc;

	hash->count = count;
	if (!count)
		return VS_OK;
	memcpy(hash->spans, spans, count * sizeof(*spans));
	rc = vs_real.cuMemcpyHtoDAsync_v2(hash->device_keys, hash->keys,
					  VS_PAGE_KEYS_ON_DEVICE, stream);
	for (from = 0; !rc && from < count; from += LAUNCH)
		rc = launch(hash, stream, from,
			    count - from < LAUNCH ? count - from : LAUNCH);
	return rc ? failed(hash->context, rc, VS_NOMEM, "hash of pages", why) :
	       VS_OK;
}

void vs_page_hash_collect(struct vs_page_hash *hash, struct vs_page_sum *out)
{
	size_t i;

	for (i = 0; i < hash->count; i++)
		vs_page_math_join(hash->keys, hash->parts + i * VS_PAGE_PARTS,
				  hash->spans[i].size, &out[i]);
}

/* A failed wait is no proof that the kernel is done with the buffers. */
enum vs_status vs_page_hash_wait(struct vs_page_hash *hash, CUstream stream,
				 struct vs_why *why)
{
	struct timespec nap = { .tv_nsec = 100000 };
	CUresult rc = vs_real.cuStreamSynchronize(stream);

	if (!rc)
		return VS_OK;
	while (vs_real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
		nanosleep(&nap, NULL);
	return failed(hash->context, rc, VS_CUDA, "hash of pages", why);
}

void vs_page_hash_close(struct vs_page_hash *hash)
{
	if (!hash)
		return;
	free_pinned(hash->pinned);
	free(hash);
}

void vs_page_hash_forget(struct vs_page_hash *hash)
{
	free(hash);
}
