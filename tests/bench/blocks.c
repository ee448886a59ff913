/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks - an ordinary program that holds device memory and does what stdin
 * says.  It knows the contents of its memory by pages of 2 MiB.
 *
 * One command a line, one answer a line ("ok ..." or "error ..."):
 *
 *   mix MIB          groups of 512 MiB: one block of 256, two of 64, four of 32
 *   segments N       N blocks of 2 to 8 MiB
 *   fill             another pattern into each page
 *   half             every other page becomes zero
 *   change PERCENT   another pattern into so many pages, evenly spread
 *   zeros            from here on every page is expected to be zero
 *   check            how many words are not what they should be
 *   pair BYTES N     median time of N allocations, each freed at once
 *   many BYTES N     time of N allocations, which are freed afterwards
 *   quit
 *
 * Patterns are compared on the device, pages of zeros after copying them out.
 */
#include "mapped.h"

#define PAGE (2 * MIB)

struct page {
	CUdeviceptr p;
	size_t size;
	uint32_t seed;		/* 0: zeros */
};

static struct page *pages;
static size_t count;
static uint32_t last_seed;
static unsigned char *out;

static CUresult take(size_t size)
{
	size_t n = (size + PAGE - 1) / PAGE;
	CUdeviceptr p;
	CUresult rc = cuMemAlloc(&p, size);

	if (rc)
		return rc;
	pages = (struct page *)realloc(pages, (count + n) * sizeof(*pages));
	if (!pages)
		exit(1);
	for (; size; p += PAGE) {
		struct page *page = &pages[count++];

		page->p = p;
		page->size = size < PAGE ? size : PAGE;
		page->seed = 0;
		size -= page->size;
	}
	return CUDA_SUCCESS;
}

static void say_taken(CUresult rc)
{
	if (rc)
		printf("error %d after %zu pages\n", rc, count);
	else
		printf("ok pages=%zu\n", count);
}

static void mix(const size_t *n)
{
	size_t blocks = *n * MIB / MAPPED_GROUP_BYTES * MAPPED_GROUP;
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < blocks && !rc; i++)
		rc = take(mapped_group[i % MAPPED_GROUP]);
	say_taken(rc);
}

static void segments(const size_t *n)
{
	CUresult rc = CUDA_SUCCESS;
	uint64_t random = MAPPED_SEED;

	for (size_t i = 0; i < *n && !rc; i++)
		rc = take(mapped_segment(&random));
	say_taken(rc);
}

static void write_page(struct page *page)
{
	page->seed = ++last_seed;
	drv_pattern(NULL, page->p, page->size / 4, page->seed);
}

static void change(const size_t *n)
{
	size_t percent = *n, changed = 0;

	for (size_t i = 0; i < count; i++) {
		if ((i + 1) * percent / 100 == i * percent / 100)
			continue;
		write_page(&pages[i]);
		changed++;
	}
	CK(cuCtxSynchronize());
	printf("ok changed=%zu\n", changed);
}

static void fill(const size_t *n)
{
	static const size_t all = 100;

	(void)n;
	change(&all);
}

static void half(const size_t *n)
{
	(void)n;
	for (size_t i = 0; i < count; i += 2) {
		pages[i].seed = 0;
		CK(cuMemsetD8(pages[i].p, 0, pages[i].size));
	}
	CK(cuCtxSynchronize());
	printf("ok\n");
}

static void zeros(const size_t *n)
{
	(void)n;
	for (size_t i = 0; i < count; i++)
		pages[i].seed = 0;
	printf("ok\n");
}

static size_t not_zero(const struct page *page)
{
	size_t bad = 0;

	CK(cuMemcpyDtoH(out, page->p, page->size));
	if (!*out && !memcmp(out, out + 1, page->size - 1))
		return 0;
	for (size_t i = 0; i < page->size; i++)
		bad += out[i] != 0;
	return bad;
}

static void check(const size_t *n)
{
	size_t bad = 0;

	(void)n;
	for (size_t i = 0; i < count; i++) {
		if (pages[i].seed)
			drv_compare(NULL, pages[i].p, pages[i].size / 4,
				    pages[i].seed);
		else
			bad += not_zero(&pages[i]);
	}
	printf("ok bad=%zu\n", bad + drv_bad());
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pair(const size_t *n)
{
	size_t size = n[0], times = n[1];
	double *took = (double *)calloc(times + 1, sizeof(*took));
	CUdeviceptr p;

	for (size_t i = 0; took && i < times + 10; i++) {
		double from = prog_now();

		CK(cuMemAlloc(&p, size));
		CK(cuMemFree(p));
		took[i < 10 ? 0 : i - 10] = prog_now() - from;
	}
	if (!took || !times) {
		printf("error no figures\n");
		return;
	}
	qsort(took, times, sizeof(*took), by_value);
	printf("ok us=%.3f\n", took[times / 2] * 1e6);
	free(took);
}

static void many(const size_t *n)
{
	size_t size = n[0], times = n[1];
	CUdeviceptr *p = (CUdeviceptr *)calloc(times + 1, sizeof(*p));
	double from = prog_now(), took;

	for (size_t i = 0; p && i < times; i++)
		CK(cuMemAlloc(&p[i], size));
	took = prog_now() - from;
	for (size_t i = 0; p && i < times; i++)
		CK(cuMemFree(p[i]));
	printf("ok seconds=%.6f\n", took);
	free(p);
}

static const struct {
	const char *name;
	void (*run)(const size_t *n);	/* its numbers */
} verbs[] = {
	{ "mix", mix },
	{ "segments", segments },
	{ "fill", fill },
	{ "half", half },
	{ "change", change },
	{ "zeros", zeros },
	{ "check", check },
	{ "pair", pair },
	{ "many", many },
};

static void obey(const char *line)
{
	char name[16] = "";
	size_t n[2] = { 0, 0 };

	sscanf(line, "%15s %zu %zu", name, &n[0], &n[1]);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name)) {
			verbs[i].run(n);
			return;
		}
	printf("error unknown command %s\n", name);
}

int main(void)
{
	char line[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	CK(cuMemHostAlloc((void **)&out, PAGE, 0));
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n"))
		obey(line);
	printf("ok bye\n");
	return 0;
}
