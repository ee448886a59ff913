/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prog - what every test program needs from the host side: settings from the
 * environment, progress that the runner can see, seeded random numbers, a hash.
 *
 * Nothing here calls CUDA.
 */
#ifndef VS_TEST_PROG_H
#define VS_TEST_PROG_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static inline long prog_env(const char *name, long fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 0) : fallback;
}

/* Put `text` into the file that $PROGRESS names, in one write. */
static inline void prog_mark(const char *text)
{
	static int fd = -2;
	char line[32];

	if (fd == -2) {
		const char *path = getenv("PROGRESS");

		fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
			  : -1;
	}
	if (fd < 0)
		return;
	snprintf(line, sizeof(line), "%-20.20s\n", text);
	if (pwrite(fd, line, strlen(line), 0) < 0)
		perror("PROGRESS");
}

/* Step n is done: one line on stderr, and $PROGRESS. */
static inline void prog_step(long n)
{
	char text[32];

	snprintf(text, sizeof(text), "step %ld", n);
	fprintf(stderr, "%s\n", text);
	prog_mark(text);
}

/* splitmix64 */
static inline uint64_t prog_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* FNV-1a over the bytes, going on from `hash` (0: start). */
static inline uint64_t prog_hash(const void *data, size_t len, uint64_t hash)
{
	const unsigned char *p = (const unsigned char *)data;

	if (!hash)
		hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	return hash;
}

static inline double prog_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A size between 512 B and max, each power of two as likely as another. */
static inline size_t prog_size(uint64_t *state, size_t max)
{
	int bits = 0;
	size_t size;

	while (((size_t)1024 << bits) <= max)
		bits++;
	size = (size_t)512 << prog_random(state) % (uint64_t)(bits + 1);
	size += prog_random(state) % size;
	return (size > max ? max : size) & ~(size_t)3;
}

#endif
