/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_fixture - stream-ordered memory through the exported wrappers, and
 * streams that are busy until told otherwise.
 */
#ifndef TESTS_POOL_FIXTURE_H
#define TESTS_POOL_FIXTURE_H

#include "memory_fixture.h"

#define POOL_SIZES 3
extern const size_t pool_sizes[POOL_SIZES];
extern const size_t pool_large;		/* most of a device */

extern CUstream one, two;	/* non-blocking streams of the context */

void pool_start(void);
/* Nothing is left, and no invalid call was made. */
void pool_end(void);

CUmemoryPool pool_default(void);
CUdeviceptr pool_alloc(size_t size, CUstream stream);
void pool_free(CUdeviceptr base, CUstream stream);
/* Queries and records that the driver has seen. */
unsigned long pool_questions(void);

/* Queue a wait in the stream; end it. */
void pool_busy(CUstream stream);
void pool_let_go(void);
/* A second one behind it, which has begun; its end. */
void pool_busy_more(CUstream stream);
void pool_wait_for_second(void);
void pool_let_go_more(void);
/* From another thread, while this one is blocked. */
void pool_let_go_later(void);
bool pool_was_let_go(void);
void pool_wait_fn(void *unused);
void pool_nothing_fn(void *unused);

/* The device has no room for anything of that size any more. */
void pool_full(void);

#endif
