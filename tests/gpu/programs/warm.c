/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warm GIB - touch that much host memory with 16 threads and give it back.
 *
 * A virtual machine may get its memory only as it is touched; this is done
 * before anything is measured.
 */
#include "prog.h"

#include <pthread.h>
#include <sys/mman.h>

#define THREADS 16

static char *memory;
static size_t share;

static void *touch(void *number)
{
	char *from = memory + (size_t)number * share;

	for (size_t at = 0; at < share; at += 4096)
		from[at] = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	size_t size = argc == 2 ? strtoull(argv[1], NULL, 0) * GIB : 0;
	pthread_t threads[THREADS];
	double from = prog_now();

	if (!size) {
		fprintf(stderr, "usage: warm GIB\n");
		return 2;
	}
	share = size / THREADS;
	memory = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
	if (memory == MAP_FAILED) {
		perror("warm");
		return 1;
	}
	madvise(memory, size, MADV_HUGEPAGE);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, touch, (void *)i))
			return 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("touched %zu GiB in %.1f s\n", size / GIB, prog_now() - from);
	return 0;
}
