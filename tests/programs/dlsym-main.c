/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look names up in every way and print what comes of it: results, errors,
 * errno.  What it prints must not depend on a preloaded library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 16
#define ROUNDS 5000

const char *whose(void);
int cuFooCreate(void);

static void *lower, *libcuda;

static const struct query {
	const char *name;
	void **handle;		/* NULL: RTLD_DEFAULT */
} queries[] = {
	{ "whose", NULL }, { "whose", &lower }, { "curl_x", NULL },
	{ "cublasX", NULL }, { "cublasX", &lower }, { "missing", &lower },
	{ "cuMissing", &lower }, { "cuMissing", NULL }, { "cuInit", &lower },
	{ "cuFooCreate", NULL }, { "cuFooCreate", &lower }, { "cu", &lower },
	{ "", &lower }, { "dlerror", NULL },
	{ "cuMissing", &libcuda }, { "cuDriverGetVersion", &libcuda },
	{ "missing", &libcuda },
};
#define QUERIES (sizeof(queries) / sizeof(*queries))

static const char *file_of(void *address)
{
	const char *slash;
	Dl_info info;

	if (!dladdr(address, &info))
		return "nowhere";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static void *look_up(const struct query *query)
{
	return dlsym(query->handle ? *query->handle : RTLD_DEFAULT,
		     query->name);
}

static void report(const char *what, const char *name, void *found)
{
	int kept = errno;
	const char *error = dlerror();

	printf("%s %s: %s, error %s", what, name,
	       found ? file_of(found) : "none", error ? error : "none");
	printf(", then %s, errno %d\n", dlerror() ? "another" : "none", kept);
}

static void *hammer(void *result)
{
	void *first[QUERIES], *found;
	size_t i;
	int round;

	for (i = 0; i < QUERIES; i++)
		first[i] = look_up(&queries[i]);
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < QUERIES; i++) {
			found = look_up(&queries[i]);
			if (found != first[i] || (!found && !dlerror()))
				return NULL;
		}
	return result;
}

static void from_many_threads(void)
{
	pthread_t threads[THREADS];
	void *good;
	int i, all = 0;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, hammer, &threads[i]))
			return;
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &good);
		all += good != NULL;
	}
	printf("%d of %d threads always found the same\n", all, THREADS);
}

int main(void)
{
	size_t i;

	lower = dlopen("libdlsym-lower.so", RTLD_NOW);
	libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	printf("libraries: %d %d\n", lower != NULL, libcuda != NULL);
	if (!lower || !libcuda)
		return 1;
	printf("whose: %s\n", whose());
	printf("cuFooCreate: %d\n", cuFooCreate());
	for (i = 0; i < QUERIES; i++) {
		errno = 77;
		report("dlsym", queries[i].name, look_up(&queries[i]));
	}
	errno = 77;
	report("next", "whose", dlsym(RTLD_NEXT, "whose"));
	errno = 77;
	report("next", "missing", dlsym(RTLD_NEXT, "missing"));
	errno = 77;
	report("dlvsym", "cuInit", dlvsym(libcuda, "cuInit", "NOT_1.0"));
	dlopen("libnothing-of-the-kind.so", RTLD_NOW);
	report("dlopen", "libnothing-of-the-kind.so", NULL);
	dlsym(lower, "missing");
	report("a good one clears", "whose", dlsym(lower, "whose"));
	from_many_threads();
	return 0;
}
