/* SPDX-License-Identifier: Apache-2.0 */
/* The upper of two libraries that define the same names: each looks for its
 * namesake below. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

const char *whose(void);
int cuFooCreate(void);

const char *whose(void)
{
	static char text[32];
	const char *(*next)(void) = dlsym(RTLD_NEXT, "whose");

	snprintf(text, sizeof(text), "upper over %s", next ? next() : "none");
	return text;
}

int cuFooCreate(void)
{
	void *below = dlopen("libdlsym-lower.so", RTLD_NOW);
	int (*next)(void) = below ? dlsym(below, "cuFooCreate") : NULL;

	return next ? 2 * next() : -1;
}
