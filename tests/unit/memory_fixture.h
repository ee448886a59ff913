/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_fixture - a process on the simulated driver with our floors up to
 * the gate started, as init.c starts them; and what may be asked of it.
 *
 * Device memory of the simulation can be touched directly.
 */
#ifndef TESTS_MEMORY_FIXTURE_H
#define TESTS_MEMORY_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/driver.h"
#include "memory/segment.h"
#include "sleep/ledger.h"
#include "sleep/operation.h"
#include "sim.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define ck_cu(expr, code) ck_assert_int_eq((int)(expr), (int)(code))
#define ck_ok(expr) ck_cu(expr, CUDA_SUCCESS)

/* The primary context of device 0, current on the test's thread. */
extern CUcontext fixture_context;

/* Granularity 64 KiB, or VSLEEP_SIM_GRANULARITY where a test has set it; two
 * devices of 256 MiB; chunks of 2 MiB; tags as VSLEEP_TAG and VSLEEP_TAGS. */
void fixture_start(const char *tag, const char *tags);

/* The step of a loop over many cases: 1, or with TRIALS_EVERY=N, where a
 * sanitizer makes them slow, N, and @most at most. */
unsigned fixture_every(unsigned most);

/* One more, known to us and current. */
CUcontext fixture_new_context(CUdevice device);
void fixture_current(CUcontext context);

/* An allocation of ours with that tag, filled with what its address gives. */
CUdeviceptr fixture_alloc(const char *tag, size_t size);
void fixture_free(CUdeviceptr base);
/* Time passes: what is kept for a moment only goes back. */
void fixture_later(void);
void fixture_fill(CUdeviceptr base, size_t size);
void fixture_assert_filled(CUdeviceptr base, size_t size);
void fixture_assert_zero(CUdeviceptr base, size_t size);

/* The segment of a live allocation of ours, or NULL. */
struct vs_segment *fixture_segment(CUdeviceptr base);

struct sim_ledger fixture_sim(void);
struct vs_ledger fixture_ledger(void);

/* No invalid call; chunks have a handle when resident, and only then. */
void fixture_assert_sound(void);
/* And nothing of ours is left on the devices. */
void fixture_assert_empty(void);

/* The result of a call on a thread of its own. */
int fixture_on_thread(int (*fn)(void *arg), void *arg);

/* Requests through the operation thread, started by the first. */
struct vs_reply fixture_ask(const struct vs_request *request);
struct vs_reply fixture_sleep(int level, const char *tags);
struct vs_reply fixture_wake(const char *tags);
vs_tag_set fixture_tags(const char *list);

int fixture_main(const char *name, void (*fill)(TCase *tc));

#endif
