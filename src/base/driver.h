/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver - the real entry points, from the libcuda that the program loaded.
 *
 * driver.def has one row X(name) per exported entry point, all 637 of them;
 * the types come from cuda.h.  We never load libcuda ourselves: the table is
 * filled when the program has (RTLD_NOLOAD).  A row that the driver lacks
 * stays NULL.  Filling takes no lock and may run in several threads at once:
 * each writes the same values.
 */
#ifndef VS_BASE_DRIVER_H
#define VS_BASE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/cuda.h"

struct vs_driver {
#define X(name) __typeof__(&name) name;
#include "base/driver.def"
#undef X
};

enum vs_driver_row {
#define X(name) VS_ROW_##name,
#include "base/driver.def"
#undef X
	VS_ROW_COUNT
};

extern struct vs_driver vs_real;

/* Fill the table if the program's libcuda is there; true once it is filled. */
bool vs_driver_load(void);

/* The real dlsym, found by dlvsym over the known symbol versions. */
void *vs_driver_dlsym(void *handle, const char *name);

/* The handle of the program's libcuda as dlopen gives it; NULL before load. */
void *vs_driver_handle(void);

/* The row whose real pointer is @pointer, or -1.  Binary search. */
int vs_driver_find(const void *pointer);

/* The row of an exported name, or -1. */
int vs_driver_row(const char *name);
const char *vs_driver_name(int row);

/*
 * What escapes us.  A known name that came with an unknown pointer, or a slot
 * of an unknown cu* name that was called: sleep refuses without force.
 */
void vs_driver_unhooked(const char *name);
unsigned long vs_driver_unhooked_count(char *name, size_t size);

/* Counting tail jumps for cu* names newer than our list; the code is in
 * intercept/tailjump-*.S, which adds to calls and jumps to target. */
#define VS_DRIVER_SLOTS 64
struct vs_driver_slot {
	void *target;
	unsigned long calls;
	char name[48];
};
extern struct vs_driver_slot vs_driver_slots[VS_DRIVER_SLOTS];

/* The context that gave this code gives nothing else any more. */
bool vs_driver_sticky(CUresult code);

/* Nothing that was queued on @stream is under way any more.  A wait that fails
 * is no proof of that, a lost context is: it answers no more "not ready". */
static inline void vs_driver_settle(CUstream stream)
{
	struct timespec nap = { .tv_nsec = 100000 };

	if (!vs_real.cuStreamSynchronize(stream))
		return;
	while (vs_real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
		nanosleep(&nap, NULL);
}

/* "out of memory (2)" of a code, from the driver; static storage or @buf. */
const char *vs_driver_error(CUresult code, char *buf, size_t size);

#endif
