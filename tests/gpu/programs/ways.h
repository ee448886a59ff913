/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways - what the files of the program ways share: the blocks that it holds,
 * and who makes them.
 */
#ifndef VS_TEST_WAYS_H
#define VS_TEST_WAYS_H

#include "prog.h"

#include <cuda.h>
#include <stdbool.h>

static inline void ways_check(CUresult rc, const char *what, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s: error %d\n", line, what, rc);
	exit(3);
}

#define CK(call) ways_check((call), #call, __LINE__)

struct block {
	CUdeviceptr p;
	CUdeviceptr read;	/* where it is read, when not there */
	size_t size;
	uint32_t seed;
};

#define MAX_BLOCKS 512

extern struct block ways_blocks[MAX_BLOCKS];
extern size_t ways_count;
extern CUstream ways_streams[3];
extern size_t ways_bytes;	/* that a way shall hold */
extern CUdevice ways_device;

/* The block is held from now on, and filled. */
struct block *ways_hold(CUdeviceptr p, size_t size);
/* A pattern of a new seed, on the null stream, which is waited for. */
void ways_fill(struct block *b, uint32_t seed);
/* How many words of it are not its pattern's; everything is waited for. */
uint64_t ways_compare(const struct block *b);
/* Exit with 77: the machine or the driver has not got it. */
void ways_leave(const char *why);

/* A way that is not bare memory keeps and checks the bytes itself. */
struct way {
	const char *name;
	void (*make)(void);
	void (*churn)(uint32_t step);	/* once a step, everything at rest */
	uint64_t (*check)(void);	/* words that are wrong elsewhere */
	bool own;		/* churn sees to new patterns itself */
};

extern const struct way ways_vmm[];
extern const struct way ways_shared[];

/* ways_vmm.c: the properties of memory of the device; whole granules; a handle
 * mapped at a place, or with 0 at a new one. */
CUmemAllocationProp ways_props(int handle_types);
size_t ways_round(size_t size);
CUdeviceptr ways_map(CUdeviceptr at, size_t size,
		     CUmemGenericAllocationHandle handle,
		     CUmemAccess_flags flags);

/* ways_shared.c: the other process, with a context: `ways --child WHAT FD`. */
int ways_child(const char *what, int fd);

#endif
