/* SPDX-License-Identifier: Apache-2.0 */
/*
 * small - a CUDA program that makes as many blocks of one size as it is told,
 * or as the device has room for, and frees every second one.
 *
 *   make COUNT BYTES     "ok made=N bytes=B device=D": bytes of all of them,
 *                        and what they take, by the simulated driver; a COUNT
 *                        of 0: until there is no more
 *   halve                free every second one
 *   check                how many of those that are left have a wrong byte
 *   drop                 free the rest
 */
#include "drv.h"
#include "sim.h"

#define MOST 32768

static CUdeviceptr blocks[MOST];
static size_t count, size;

static unsigned char value_of(size_t i)
{
	return (unsigned char)(i * 7 + i / 256);
}

static void make(size_t wanted, size_t bytes)
{
	CUresult rc = CUDA_SUCCESS;
	size_t before = sim_used(0);

	size = bytes;
	for (count = 0; count < MOST && (!wanted || count < wanted); count++) {
		rc = cuMemAlloc(&blocks[count], size);
		if (rc)
			break;
		if (wanted)
			CK(cuMemsetD8(blocks[count], value_of(count), size));
	}
	printf("ok made=%zu bytes=%zu device=%zu rc=%d\n", count, count * size,
	       sim_used(0) - before, rc);
}

static void drop(size_t step)
{
	size_t i;

	for (i = 0; i < count; i += step) {
		if (blocks[i])
			CK(cuMemFree(blocks[i]));
		blocks[i] = 0;
	}
	printf("ok device=%zu\n", sim_used(0));
}

static void check(void)
{
	unsigned char *out = malloc(size);
	size_t i, k, bad = 0, left = 0;

	if (!out)
		exit(3);
	for (i = 0; i < count; i++) {
		if (!blocks[i])
			continue;
		left++;
		CK(cuMemcpyDtoH(out, blocks[i], size));
		for (k = 0; k < size && out[k] == value_of(i); k++)
			;
		bad += k < size;
	}
	free(out);
	printf("ok bad=%zu left=%zu\n", bad, left);
}

int main(void)
{
	static char line[128];
	size_t wanted, bytes;

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	CK(cuMemFree(drv.bad));
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "make %zu %zu", &wanted, &bytes) == 2)
			make(wanted, bytes);
		else if (!strcmp(line, "halve\n"))
			drop(2);
		else if (!strcmp(line, "check\n"))
			check();
		else if (!strcmp(line, "drop\n"))
			drop(1);
		else
			break;
	}
	return 0;
}
