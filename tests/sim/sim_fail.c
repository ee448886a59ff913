/* SPDX-License-Identifier: Apache-2.0 */
/* Failures on request, and how often each entry point was called. */
#include "sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS	64

struct fault {
	const char *name;
	unsigned nth;
	bool onwards;
	int code;
	unsigned seen;
};

static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS];	/* under fail_lock */
static unsigned n_faults;		/* under fail_lock */
static unsigned long injected;		/* under fail_lock */
static struct sim_entry *entries;	/* under fail_lock */
atomic_bool sim_fail_armed;

static const char *const names[] = {
#define SIM_ROW(sym, version) #sym,
#include "sim_versions.def"
#undef SIM_ROW
};

static int by_name(const void *key, const void *row)
{
	return strcmp(key, *(const char *const *)row);
}

static const char *known_name(const char *name)
{
	const char *const *row = bsearch(name, names,
					 sizeof(names) / sizeof(*names),
					 sizeof(*names), by_name);

	if (!row) {
		fprintf(stderr, "sim: the driver has no entry point %s\n",
			name);
		abort();
	}
	return *row;
}

void sim_entry_list(struct sim_entry *entry)
{
	pthread_mutex_lock(&fail_lock);
	if (!atomic_load(&entry->listed)) {
		entry->next = entries;
		entries = entry;
		atomic_store(&entry->listed, true);
	}
	pthread_mutex_unlock(&fail_lock);
}

CUresult sim_fail_check(const char *name)
{
	CUresult rc = CUDA_SUCCESS;
	unsigned i;

	pthread_mutex_lock(&fail_lock);
	for (i = 0; i < n_faults; i++) {
		struct fault *f = &faults[i];

		if (strcmp(f->name, name) != 0)
			continue;
		f->seen++;
		if (rc == CUDA_SUCCESS &&
		    (f->seen == f->nth || (f->onwards && f->seen > f->nth)))
			rc = (CUresult)f->code;
	}
	if (rc != CUDA_SUCCESS)
		injected++;
	pthread_mutex_unlock(&fail_lock);
	return rc;
}

static void arm(const char *name, unsigned nth, bool onwards, int code)
{
	name = known_name(name);
	pthread_mutex_lock(&fail_lock);
	if (n_faults == FAULTS || nth == 0) {
		fprintf(stderr, "sim: cannot arm %s:%u\n", name, nth);
		abort();
	}
	faults[n_faults++] = (struct fault){ name, nth, onwards, code, 0 };
	pthread_mutex_unlock(&fail_lock);
	atomic_store(&sim_fail_armed, true);
}

SIM_EXPORT void sim_fail(const char *name, unsigned nth, int code)
{
	arm(name, nth, false, code);
}

SIM_EXPORT void sim_fail_from(const char *name, unsigned nth, int code)
{
	arm(name, nth, true, code);
}

SIM_EXPORT void sim_fail_clear(void)
{
	pthread_mutex_lock(&fail_lock);
	n_faults = 0;
	pthread_mutex_unlock(&fail_lock);
	atomic_store(&sim_fail_armed, false);
}

SIM_EXPORT unsigned long sim_injected(void)
{
	unsigned long n;

	pthread_mutex_lock(&fail_lock);
	n = injected;
	pthread_mutex_unlock(&fail_lock);
	return n;
}

/* "cuMemCreate:3:2,cuMemUnmap:1+:999" */
void sim_fail_parse(const char *text)
{
	while (*text) {
		char name[64], plus = 0;
		unsigned nth;
		int code, len = 0;

		if (sscanf(text, "%63[A-Za-z0-9_]:%u:%d%n", name, &nth, &code,
			   &len) < 3 || !len)
			if (sscanf(text, "%63[A-Za-z0-9_]:%u%1[+]:%d%n", name,
				   &nth, (char[2]){ 0 }, &code, &len) == 4)
				plus = '+';
		if (!len || (text[len] && text[len] != ',')) {
			fprintf(stderr, "sim: VSLEEP_SIM_FAIL: not understood "
				"(NAME:N:CODE or NAME:N+:CODE): %s\n", text);
			abort();
		}
		arm(name, nth, plus == '+', code);
		text += len + (text[len] == ',');
	}
}

SIM_EXPORT unsigned long sim_calls(const char *name)
{
	unsigned long n = 0;
	struct sim_entry *e;

	name = known_name(name);
	pthread_mutex_lock(&fail_lock);
	for (e = entries; e; e = e->next)
		if (strcmp(e->name, name) == 0)
			n += atomic_load(&e->calls);
	pthread_mutex_unlock(&fail_lock);
	return n;
}

SIM_EXPORT void sim_calls_reset(void)
{
	struct sim_entry *e;

	pthread_mutex_lock(&fail_lock);
	for (e = entries; e; e = e->next)
		atomic_store(&e->calls, 0);
	pthread_mutex_unlock(&fail_lock);
}

SIM_EXPORT void sim_each_call(void (*fn)(const char *name,
					 unsigned long calls, void *arg),
			      void *arg)
{
	struct sim_entry *e;

	pthread_mutex_lock(&fail_lock);
	e = entries;
	pthread_mutex_unlock(&fail_lock);
	/* entries are only ever put in front, so the rest stands still */
	for (; e; e = e->next)
		if (atomic_load(&e->calls))
			fn(e->name, atomic_load(&e->calls), arg);
}

void sim_fail_reset(void)
{
	sim_fail_clear();
	sim_calls_reset();
	pthread_mutex_lock(&fail_lock);
	injected = 0;
	pthread_mutex_unlock(&fail_lock);
}
