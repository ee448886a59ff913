/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device can run: C functions, found by the kernel's name.  A kernel
 * that takes time sleeps; the host's processors are not the device's.
 */
#include "sim_module.h"

#include "backup/page_math.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ADDED_MAX	64

#define ARG(i, type)	(*(type *)args[i])

static uint32_t word_of(uint32_t seed, uint32_t i)
{
	uint32_t x = seed ^ i * UINT32_C(2654435761);

	x ^= x >> 16;
	x *= UINT32_C(0x85ebca6b);
	x ^= x >> 13;
	x *= UINT32_C(0xc2b2ae35);
	x ^= x >> 16;
	return x;
}

static void fill(void **args)
{
	uint32_t *p = ARG(0, uint32_t *);
	uint64_t i, n = ARG(1, uint64_t);

	for (i = 0; i < n; i++)
		p[i] = ARG(2, uint32_t);
}

static void add(void **args)
{
	uint32_t *p = ARG(0, uint32_t *);
	uint64_t i, n = ARG(1, uint64_t);

	for (i = 0; i < n; i++)
		p[i] += ARG(2, uint32_t);
}

static void pattern(void **args)
{
	uint32_t *p = ARG(0, uint32_t *);
	uint64_t i, n = ARG(1, uint64_t);

	for (i = 0; i < n; i++)
		p[i] = word_of(ARG(2, uint32_t), (uint32_t)i);
}

static void check(void **args)
{
	const uint32_t *p = ARG(0, uint32_t *);
	uint64_t i, n = ARG(1, uint64_t);
	uint32_t bad = 0;

	for (i = 0; i < n; i++)
		bad += p[i] != word_of(ARG(2, uint32_t), (uint32_t)i);
	__atomic_fetch_add(ARG(3, uint32_t *), bad, __ATOMIC_RELAXED);
}

static void saxpy(void **args)
{
	uint64_t i, n = ARG(0, uint64_t);
	float a = ARG(1, float), *y = ARG(3, float *);
	const float *x = ARG(2, float *);

	for (i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void spin(void **args)
{
	uint64_t due = sim_now() + ARG(0, uint64_t);
	struct timespec ts = { (time_t)(due / 1000000000),
			       (long)(due % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	if (ARG(1, uint32_t *))
		__atomic_store_n(ARG(1, uint32_t *), 1, __ATOMIC_RELEASE);
}

static void wait_flag(void **args)
{
	while (!__atomic_load_n(ARG(0, uint32_t *), __ATOMIC_ACQUIRE))
		usleep(20);
	if (ARG(1, uint32_t *))
		__atomic_store_n(ARG(1, uint32_t *), 1, __ATOMIC_RELEASE);
}

static void fault(void **args)
{
	(void)args;
	sim_kernel_fault();
}

/* What src/backup/page_hash.ptx does, by its parameters. */
static void page_hash(void **args, const unsigned *dims)
{
	const struct { uint64_t base, size; } *spans = ARG(1, void *), *span;
	struct vs_page_part *parts = ARG(2, struct vs_page_part *);
	size_t i, at, left;

	for (i = 0; i < dims[0]; i++) {
		span = &spans[i / VS_PAGE_PARTS];
		at = i % VS_PAGE_PARTS * VS_PAGE_PART;
		if (span->size <= at)
			continue;
		left = span->size - at;
		vs_page_math_part(ARG(0, struct vs_page_keys *),
				  (const char *)(uintptr_t)span->base + at,
				  left < VS_PAGE_PART ? left : VS_PAGE_PART,
				  &parts[i]);
	}
}

static const struct sim_kernel built_in[] = {
	{ "fill", "pqw", fill, NULL },
	{ "add", "pqw", add, NULL },
	{ "pattern", "pqw", pattern, NULL },
	{ "check", "pqwp", check, NULL },
	{ "saxpy", "qwpp", saxpy, NULL },
	{ "spin", "qp", spin, NULL },
	{ "wait_flag", "pp", wait_flag, NULL },
	{ "fault", "", fault, NULL },
	{ "vs_page_hash", "pqq", NULL, page_hash },
};

static struct sim_kernel added[ADDED_MAX];	/* under sim_lock */
static size_t n_added;

/* The latest of a name counts. */
const struct sim_kernel *sim_kernel_find(const char *name)
{
	size_t i;

	for (i = n_added; i-- > 0; )
		if (strcmp(added[i].name, name) == 0)
			return &added[i];
	for (i = 0; i < sizeof(built_in) / sizeof(*built_in); i++)
		if (strcmp(built_in[i].name, name) == 0)
			return &built_in[i];
	return NULL;
}

size_t sim_param_size(char letter)
{
	switch (letter) {
	case 'b': return 1;
	case 'h': return 2;
	case 'w': return 4;
	default: return 8;
	}
}

static void add_kernel(const char *name, const char *params,
		       void (*fn)(void **args),
		       void (*fn_grid)(void **args, const unsigned *dims))
{
	pthread_mutex_lock(&sim_lock);
	if (n_added == ADDED_MAX || params[strspn(params, "bhwqp")]) {
		fprintf(stderr, "sim: cannot add kernel %s(%s)\n", name,
			params);
		abort();
	}
	added[n_added++] = (struct sim_kernel){ strdup(name), strdup(params),
						fn, fn_grid };
	pthread_mutex_unlock(&sim_lock);
}

SIM_EXPORT void sim_kernel_add(const char *name, const char *params,
			       void (*fn)(void **args))
{
	add_kernel(name, params, fn, NULL);
}

SIM_EXPORT void sim_kernel_add_grid(const char *name, const char *params,
				    void (*fn)(void **args,
					       const unsigned *dims))
{
	add_kernel(name, params, NULL, fn);
}

void sim_kernel_reset(void)
{
	while (n_added) {
		struct sim_kernel *k = &added[--n_added];

		free((char *)k->name);
		free((char *)k->params);
	}
}
