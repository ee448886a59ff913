/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging - a block of each device by way of which memory in use is copied.
 *
 * It is ours, counts as free, and is the program's when that runs out of
 * memory: then it goes back, and is refused until the next begin.  Rank STORE.
 */
#ifndef VS_MEMORY_STAGING_H
#define VS_MEMORY_STAGING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cuda.h"
#include "base/why.h"

/* From now on blocks may be had; they all go back.  One thread. */
void vs_staging_begin(void);
void vs_staging_end(void);

/* The block of @device, made when it is first asked for, is in use until the
 * put.  On that thread, in RELAXED capture mode with a context of the device
 * current.  VS_NOMEM: too little is free, or the program wants it. */
enum vs_status vs_staging_take(CUdevice device, CUdeviceptr *base,
			       struct vs_why *why);
void vs_staging_put(CUdevice device);

/* The program has run out of memory: the block of @device goes back, once it
 * is not in use; if the device does not get there, it stays.  Any thread,
 * without locks, in RELAXED capture mode. */
void vs_staging_yield(CUdevice device);

/* Bytes of @device that it takes now. */
size_t vs_staging_bytes(CUdevice device);

#endif
