/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare mix MIB | segments N - nothing but the driver calls that a sleep and a
 * wake of such blocks need: what could be reached on this machine, and the
 * limit of the link.
 *
 *   first     threads populate and register host memory, 64 MiB at a time,
 *             while what is ready is copied; then unmap and release
 *   half      the same of every other page of 2 MiB: the rest are zeros, say;
 *             their contents are gone then
 *   again     first once more, with that host memory
 *   release   unmap and release alone
 *   wake      create, map, access, copy, block by block
 *   zero      create, map, access, clear
 *   limit     d2h= and h2d=, GiB/s of pinned copies, the better of three
 *   check, quit
 *
 * first, half, again, release, wake and zero say their seconds.
 */
#include "mapped.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE (64 * MIB)
#define PAGE (2 * MIB)

static struct mapped *blocks;
static size_t count, total;
static size_t pieces, wanted;	/* of host memory; so many are prepared */
static CUdeviceptr base;	/* the blocks lie side by side */
static CUstream stream;
static char *host;
static atomic_size_t next_piece;
static atomic_int *ready;
static unsigned threads;

static void copy_out(size_t piece)
{
	size_t at = piece * PIECE, rest = total - at;
	size_t size = rest < PIECE ? rest : PIECE;

	CK(cuMemcpyDtoHAsync(host + at, base + at, size, stream));
}

static void half_out(size_t piece)
{
	size_t at = piece * PIECE, end = at + PIECE;

	for (; at < end && 2 * at < total; at += PAGE)
		CK(cuMemcpyDtoHAsync(host + at, base + 2 * at, PAGE, stream));
}

/* One copy may not span two registrations. */
static void copy_in(size_t at, size_t end)
{
	while (at < end) {
		size_t size = PIECE - at % PIECE;

		size = size < end - at ? size : end - at;
		CK(cuMemcpyHtoDAsync(base + at, host + at, size, stream));
		at += size;
	}
}

static void release(void)
{
	for (size_t i = 0; i < count; i++)
		mapped_unback(&blocks[i]);
}

static void *prepare(void *unused)
{
	size_t i;

	CK(cuCtxSetCurrent(drv.context));
	while ((i = next_piece++) < wanted) {
		if (madvise(host + i * PIECE, PIECE, MADV_POPULATE_WRITE))
			perror("populate");
		CK(cuMemHostRegister(host + i * PIECE, PIECE,
				     CU_MEMHOSTREGISTER_PORTABLE));
		ready[i] = 1;
	}
	return unused;
}

static void say(double from)
{
	printf("ok seconds=%.6f\n", prog_now() - from);
}

static void first_of(size_t some, void (*out)(size_t piece))
{
	pthread_t *thread = (pthread_t *)calloc(threads, sizeof(*thread));
	double from = prog_now();

	wanted = some;
	for (unsigned i = 0; i < threads; i++)
		if (!thread || pthread_create(&thread[i], NULL, prepare, NULL))
			exit(1);
	for (size_t i = 0; i < wanted; i++) {
		while (!ready[i])
			usleep(50);
		out(i);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	CK(cuStreamSynchronize(stream));
	release();
	say(from);
	free(thread);
}

static void first(void)
{
	first_of(pieces, copy_out);
}

static void half(void)
{
	first_of((pieces + 1) / 2, half_out);
}

static double all_out(void)
{
	double from = prog_now();

	for (size_t i = 0; i < pieces; i++)
		copy_out(i);
	CK(cuStreamSynchronize(stream));
	return prog_now() - from;
}

static double all_in(void)
{
	double from = prog_now();

	copy_in(0, total);
	CK(cuStreamSynchronize(stream));
	return prog_now() - from;
}

static void again(void)
{
	double from = prog_now();

	all_out();
	release();
	say(from);
}

static void release_alone(void)
{
	double from = prog_now();

	release();
	say(from);
}

static void wake(void)
{
	double from = prog_now();

	for (size_t i = 0; i < count; i++) {
		size_t at = blocks[i].p - base;

		mapped_back(&blocks[i]);
		copy_in(at, at + blocks[i].size);
	}
	CK(cuStreamSynchronize(stream));
	say(from);
}

static void wake_zeroed(void)
{
	double from = prog_now();

	for (size_t i = 0; i < count; i++) {
		mapped_back(&blocks[i]);
		CK(cuMemsetD8Async(blocks[i].p, 0, blocks[i].size, stream));
	}
	CK(cuStreamSynchronize(stream));
	say(from);
}

static void limit(void)
{
	double out = 1e9, in = 1e9;

	for (int i = 0; i < 3; i++) {
		double o = all_out(), n = all_in();

		out = o < out ? o : out;
		in = n < in ? n : in;
	}
	printf("ok d2h=%.3f h2d=%.3f\n", (double)total / GIB / out,
	       (double)total / GIB / in);
}

static void check(void)
{
	printf("ok bad=%lu\n", mapped_bad(blocks, count));
}

static int shape(const char *kind, size_t n)
{
	uint64_t random = MAPPED_SEED;
	bool mix = !strcmp(kind, "mix");

	if (!mix && strcmp(kind, "segments"))
		return -1;
	count = mix ? n * MIB / MAPPED_GROUP_BYTES * MAPPED_GROUP : n;
	blocks = (struct mapped *)calloc(count + 1, sizeof(*blocks));
	if (!blocks)
		exit(1);
	for (size_t i = 0; i < count; i++) {
		blocks[i].size = mix ? mapped_group[i % MAPPED_GROUP] :
				       mapped_segment(&random);
		total += blocks[i].size;
	}
	return count ? 0 : -1;
}

static void make_host(void)
{
	pieces = (total + PIECE - 1) / PIECE;
	ready = (atomic_int *)calloc(pieces, sizeof(*ready));
	host = (char *)mmap(NULL, pieces * PIECE + 2 * MIB,
			    PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!ready || host == MAP_FAILED)
		exit(1);
	host += -(uintptr_t)host % (2 * MIB);
	madvise(host, pieces * PIECE, MADV_HUGEPAGE);
}

static void make_blocks(void)
{
	CUdeviceptr p;

	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CK(cuMemAddressReserve(&base, total, 0, 0, 0));
	p = base;
	for (size_t i = 0; i < count; i++) {
		blocks[i].p = p;
		mapped_back(&blocks[i]);
		p += blocks[i].size;
	}
	mapped_fill(blocks, count);
}

int main(int argc, char **argv)
{
	static const struct mapped_verb verbs[] = {
		{ "first", first },
		{ "half", half },
		{ "again", again },
		{ "release", release_alone },
		{ "wake", wake },
		{ "zero", wake_zeroed },
		{ "limit", limit },
		{ "check", check },
		{ NULL, NULL }
	};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (argc != 3 || shape(argv[1], strtoull(argv[2], NULL, 0))) {
		fprintf(stderr, "usage: bare mix MIB (512 or more) | "
				"segments N\n");
		return 2;
	}
	threads = cores > 1 ? (unsigned)cores - 1 : 1;
	drv_open();
	make_host();
	make_blocks();
	mapped_obey(verbs);
	return 0;
}
