/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_hash - a hash of 128 bits and an exact test for zeros of each page of
 * device memory, computed where the pages are.
 *
 * What the hash is, and how unlikely two pages are the same one, is in
 * page_math.h.  The keys are random and this process's own: sums of another
 * process mean nothing here.  The kernel is PTX that each driver compiles when
 * it is first loaded into a context, where it stays until the context dies; it
 * takes device memory for its code and 10 KiB of keys.  Spans and sums are in
 * pinned host memory.  Has no lock: a context is for one thread at a time, as
 * is what it opens.  Copies no page and compares nothing.
 */
#ifndef VS_BACKUP_PAGE_HASH_H
#define VS_BACKUP_PAGE_HASH_H

#include <stddef.h>

#include "backup/page_math.h"
#include "base/context.h"
#include "base/cuda.h"
#include "base/why.h"

/* 1 to VS_PAGE bytes, @base a multiple of 256.  The 16 bytes in which it ends
 * are read whole. */
struct vs_page_span {
	CUdeviceptr base;
	size_t size;
};

/* The kernel and its buffers in one context. */
struct vs_page_hash;

/*
 * @context is pinned, and current on this thread in RELAXED mode, as it is for
 * all calls below.  Room for @max spans at a time, 1 at least.  The first open
 * in a context loads the kernel, for which the driver may wait for work in
 * it.  VS_NOMEM: no device memory for it; VS_NOHOST: none for the buffers.  On
 * failure nothing is kept but a kernel that was loaded; the next open tries
 * again what failed.
 */
enum vs_status vs_page_hash_open(struct vs_context *context, size_t max,
				 struct vs_page_hash **out,
				 struct vs_why *why);

/* Queue the sums of @count spans, at most @max, on @stream.  The spans are
 * copied.  Before the next queue or the close the caller waits for @stream,
 * also after a failure. */
enum vs_status vs_page_hash_queue(struct vs_page_hash *hash, CUstream stream,
				  const struct vs_page_span *spans,
				  size_t count, struct vs_why *why);

/* The wait: nothing of it is under way then, also on failure. */
enum vs_status vs_page_hash_wait(struct vs_page_hash *hash, CUstream stream,
				 struct vs_why *why);

/* The sums of the last queue, in its order, once the wait has succeeded. */
void vs_page_hash_collect(struct vs_page_hash *hash, struct vs_page_sum *out);

/* Give the buffers back; NULL is fine. */
void vs_page_hash_close(struct vs_page_hash *hash);

/* The same where the context is gone, and the buffers with it. */
void vs_page_hash_forget(struct vs_page_hash *hash);

/* The keys of this process, made at the first call; for sums of bytes that
 * the host has, by page_math.h. */
const struct vs_page_keys *vs_page_hash_keys(void);

#endif
