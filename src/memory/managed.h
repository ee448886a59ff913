/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed - memory of cuMemAllocManaged, which the driver moves by itself.
 *
 * A sleep has it moved to the host and a wake has moved back what had left a
 * device.  No call of the driver tells which page is where; what the host has
 * is told by its page tables (managed_pages), and the rest counts as on a
 * device.  Content and advice stay as they are whatever fails, and whatever is
 * not moved comes when it is used.
 * No driver call is made under its lock (rank STORE).
 */
#ifndef VS_MEMORY_MANAGED_H
#define VS_MEMORY_MANAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cuda.h"
#include "base/tag.h"

struct vs_managed;

/* After the driver's success; it has the tag that is current. */
void vs_managed_add(CUdeviceptr base, size_t size);

/* Before the driver's free: its record, NULL when there is none, which the
 * others accept; then drop it, or put it back when the free failed. */
struct vs_managed *vs_managed_take(CUdeviceptr base);
void vs_managed_put_back(struct vs_managed *record);
void vs_managed_drop(struct vs_managed *record);

/* A context is gone, and what was allocated in it. */
void vs_managed_drop_context(CUcontext context);

/* The program has said that it mostly reads some of [@base, @base + @size). */
void vs_managed_read_mostly(CUdeviceptr base, size_t size);

/* Bytes; asked for in one call of a sleep or wake. */
struct vs_managed_report {
	uint64_t moved;		/* left the devices, or came back to them */
	uint64_t wished;	/* sleep: stays by policy keep */
	uint64_t kept;		/* sleep: stays for this reason */
	char why[96];
};

/* Operation thread, the devices at rest: move those of @tags that are awake,
 * all of them if they are not to be kept, as far as host memory goes. */
void vs_managed_sleep(vs_tag_set tags, struct vs_managed_report *out);
/* Move back what left, as far as the devices have memory free. */
void vs_managed_wake(vs_tag_set tags, struct vs_managed_report *out);

/* Something of @tags sleeps; something that need not stay is awake. */
bool vs_managed_asleep(vs_tag_set tags);
bool vs_managed_awake(vs_tag_set tags);

/* Bytes of @tags that stay by policy keep. */
uint64_t vs_managed_wished(vs_tag_set tags);

/* Bytes that the sleep of @tags has moved to the host. */
uint64_t vs_managed_away(vs_tag_set tags);

/* What a sleep moves at a time, a multiple of 2 MiB; tests make it small. */
extern size_t vs_managed_piece;

#endif
