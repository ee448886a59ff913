/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roam - what the threads of roam.c have, and what both of its files use.
 */
#ifndef VS_TEST_ROAM_H
#define VS_TEST_ROAM_H

#include "drv.h"

#include <stdbool.h>

#define STREAMS 4		/* the first is a default stream */
#define BLOCKS 16
#define PLACES 12
#define HANDLES 6

#define TRY(call) try((call), #call, __LINE__)

struct device {
	CUdevice number;
	CUcontext context;
	CUfunction pattern, check, spin;
	CUmemoryPool pool;
};

enum way { PLAIN, ASYNC, POOLED, WAYS };

struct block {
	CUdeviceptr p;
	size_t words;
	uint32_t seed;
	enum way way;
	int stream;
};

struct handle {
	CUmemGenericAllocationHandle value;
	int refs, maps;
	uint32_t seed;
	bool fresh;		/* made since its tag sleeps */
};

struct place {
	struct handle *handle;
	bool writable, far;
};

struct thread {
	pthread_t id;
	int number;
	char tag[16];
	uint64_t state;
	struct device *device, *other;
	CUstream streams[STREAMS];
	CUstream far;		/* on the other device */
	CUevent event;
	CUdeviceptr bad;
	uint64_t wrong, short_of, naps;
	struct block blocks[BLOCKS];
	struct handle handles[HANDLES];
	struct place places[PLACES];
	CUdeviceptr reserved;
	CUmemAllocationProp prop;
	size_t unit;
	bool napping, exports;
};

static inline unsigned draw(struct thread *t, unsigned below)
{
	return (unsigned)(prog_random(&t->state) % below);
}

/* No memory is no fault; anything else is. */
static inline bool try(CUresult rc, const char *what, int line)
{
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		drv_check(rc, what, line);
	return !rc;
}

static inline void launch(CUfunction f, CUstream s, size_t words, void **args)
{
	CK(cuLaunchKernel(f, (unsigned)(words / 256 + 1), 1, 1, 256, 1, 1, 0,
			  s, args, NULL));
}

static inline void spin(struct thread *t, CUstream s)
{
	uint64_t ns = draw(t, 2) ? 0 : draw(t, 500000);
	CUdeviceptr out = 0;
	void *args[] = { &ns, &out };

	if (ns)
		launch(t->device->spin, s, 1, args);
}

static inline uint32_t write_words(struct thread *t, CUdeviceptr p,
				   uint64_t words, CUstream s)
{
	uint32_t seed = (uint32_t)prog_random(&t->state) | 1;
	void *args[] = { &p, &words, &seed };

	spin(t, s);
	launch(t->device->pattern, s, words, args);
	return seed;
}

static inline void compare(struct thread *t, struct device *d, CUdeviceptr p,
			   uint64_t words, uint32_t seed, CUstream s)
{
	void *args[] = { &p, &words, &seed, &t->bad };

	launch(d->check, s, words, args);
}

/* Memory that a thread maps by hand: a step, and the end of it. */
void roam_step_mapped(struct thread *t);
void roam_end_mapped(struct thread *t);

#endif
