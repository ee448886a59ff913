/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touch MIB - use that much host memory as a sleep does, and give it back.
 *
 * Memory that is touched, or pinned, for the first time since a virtual machine
 * began may take several times as long; it is used before anything is measured,
 * for all sides alike.
 */
#include "drv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE (64 * MIB)
#define THREADS 15

static char *memory;
static size_t pieces;
static atomic_size_t next;
static pthread_mutex_t pinning = PTHREAD_MUTEX_INITIALIZER;

static void *use(void *unused)
{
	size_t i;

	CK(cuCtxSetCurrent(drv.context));
	while ((i = next++) < pieces) {
		if (madvise(memory + i * PIECE, PIECE, MADV_POPULATE_WRITE))
			perror("touch");
		pthread_mutex_lock(&pinning);
		CK(cuMemHostRegister(memory + i * PIECE, PIECE,
				     CU_MEMHOSTREGISTER_PORTABLE));
		pthread_mutex_unlock(&pinning);
	}
	return unused;
}

int main(int argc, char **argv)
{
	size_t size = argc == 2 ? strtoull(argv[1], NULL, 0) * MIB : 0;
	pthread_t threads[THREADS];
	double from = prog_now();
	int i;

	pieces = size / PIECE;
	if (!pieces) {
		fprintf(stderr, "usage: touch MIB (64 or more)\n");
		return 2;
	}
	drv_open();
	memory = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
	if (memory == MAP_FAILED) {
		perror("touch");
		return 1;
	}
	madvise(memory, size, MADV_HUGEPAGE);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, use, NULL))
			return 1;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("touched %zu MiB in %.1f s\n", size / MIB, prog_now() - from);
	return 0;
}
