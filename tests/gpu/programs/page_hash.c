/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_hash - src/backup/page_hash.c alone, on a real GPU.
 *
 *   page_hash compare   sums of the device beside those of the host, for
 *                       spans of many sizes and contents
 *   page_hash changes   bits, words and blocks that change or move, and what
 *                       the hash misses of it
 *   page_hash rate      the time to load the kernel, and PAGE_MIB (32768) of
 *                       device memory summed in a row
 *
 * It has the driver's entry points where the library has its table of them,
 * and nothing else of the library.  SEED gives other spans.
 */
#include "prog.h"

#include "backup/page_hash.h"
#include "base/driver.h"
#include "base/lock.h"

#include <stdarg.h>

#define PAGES 64

struct vs_driver vs_real;
static struct vs_context context;
static CUstream stream;
static CUdeviceptr device;
static struct vs_page_hash *hash;
static struct vs_page_span spans[PAGES];
static struct vs_page_sum sums[PAGES], expected[PAGES];
static char *host;	/* the bytes of the pages, as they should be */
static uint64_t state;

enum vs_status vs_why_set(struct vs_why *why, enum vs_status status,
			  const char *format, ...)
{
	va_list args;

	if (!why)
		return status;
	va_start(args, format);
	why->status = status;
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return status;
}

const char *vs_driver_error(CUresult code, char *buf, size_t size)
{
	snprintf(buf, size, "error %d", code);
	return buf;
}

void vs_lock_take(struct vs_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
}

void vs_lock_drop(struct vs_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

static void check(CUresult rc, const char *what, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s: error %d\n", line, what, rc);
	exit(3);
}

#define CK(call) check((call), #call, __LINE__)

static void check_status(enum vs_status st, const struct vs_why *why)
{
	if (!st)
		return;
	fprintf(stderr, "status %d: %s\n", st, why->text);
	exit(3);
}

static void start(void)
{
	CUcontext handle;

#define USE(name) vs_real.name = name
	USE(cuModuleLoadData);
	USE(cuModuleGetFunction);
	USE(cuModuleGetGlobal_v2);
	USE(cuMemHostAlloc);
	USE(cuMemFreeHost);
	USE(cuMemcpyHtoDAsync_v2);
	USE(cuLaunchKernel);
	USE(cuStreamSynchronize);
	USE(cuStreamQuery);
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&handle, 0));
	CK(cuCtxSetCurrent(handle));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	context.handle = handle;
	state = (uint64_t)prog_env("SEED", 4711);
}

static void open_hash(size_t room)
{
	struct vs_why why;

	check_status(vs_page_hash_open(&context, room, &hash, &why), &why);
}

/* Pages on the device with a random span in each. */
static void make_pages(void)
{
	CK(cuMemAlloc_v2(&device, PAGES * VS_PAGE));
	host = malloc(PAGES * VS_PAGE);
	if (!host)
		exit(3);
	open_hash(PAGES);
}

/* What is pageable may still be on its way when the call returns. */
static void upload(void)
{
	CK(cuMemcpyHtoD_v2(device, host, PAGES * VS_PAGE));
	CK(cuCtxSynchronize());
}

static void run(size_t count)
{
	struct vs_why why;

	check_status(vs_page_hash_queue(hash, stream, spans, count, &why),
		     &why);
	check_status(vs_page_hash_wait(hash, stream, &why), &why);
	vs_page_hash_collect(hash, sums);
}

static void sum_on_host(size_t i)
{
	vs_page_math_sum(vs_page_hash_keys(), host + (spans[i].base - device),
			 spans[i].size, &expected[i]);
}

static void fill(char *to, size_t size)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < size; i += sizeof(word)) {
		word = prog_random(&state);
		memcpy(to + i, &word, sizeof(word));
	}
}

/* Near an edge of what the kernel does in one go, or anywhere. */
static size_t pick_size(void)
{
	static const size_t edges[] = {
		1, 16, VS_PAGE_STEP, 4 * VS_PAGE_STEP, VS_PAGE_PART,
		5 * VS_PAGE_PART, VS_PAGE,
	};
	uint64_t way = prog_random(&state) % 10;
	size_t size;

	if (way < 7)
		size = edges[way] + prog_random(&state) % 9 - 4;
	else if (way == 7)
		size = prog_random(&state) % (8 * VS_PAGE_STEP);
	else
		size = prog_random(&state) % VS_PAGE;
	return size - 1 < VS_PAGE ? size : VS_PAGE;
}

static void pick_page(size_t i)
{
	uint64_t way = prog_random(&state) % 8;
	size_t room, at;
	char *bytes;

	spans[i].size = pick_size();
	room = (VS_PAGE - spans[i].size) / 256;
	at = room ? prog_random(&state) % (room + 1) * 256 : 0;
	spans[i].base = device + i * VS_PAGE + at;
	fill(host + i * VS_PAGE, VS_PAGE);
	bytes = host + i * VS_PAGE + at;
	if (way < 3)
		memset(bytes, 0, spans[i].size);
	if (way == 1)
		bytes[spans[i].size - 1] = (char)0x80;
	if (way == 2)
		bytes[prog_random(&state) % spans[i].size] = 1;
}

static bool same(const struct vs_page_sum *a, const struct vs_page_sum *b)
{
	return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
	       a->zero == b->zero;
}

static int compare(void)
{
	unsigned compared = 0, different = 0, zeros = 0;
	long round, rounds = prog_env("PAGE_ROUNDS", 20);
	size_t i;

	make_pages();
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < PAGES; i++)
			pick_page(i);
		upload();
		run(PAGES);
		for (i = 0; i < PAGES; i++) {
			sum_on_host(i);
			compared++;
			zeros += expected[i].zero;
			if (same(&sums[i], &expected[i]))
				continue;
			different++;
			fprintf(stderr, "%zu bytes at 0x%llx\n", spans[i].size,
				spans[i].base);
		}
	}
	printf("compared=%u different=%u zeros=%u\n", compared, different,
	       zeros);
	return different || !zeros;
}

/* Change the page @i, which is as the first one; not always its bytes. */
static void change(size_t i)
{
	char *bytes = host + i * VS_PAGE;
	size_t a = prog_random(&state) % (VS_PAGE / 4) * 4, size;
	size_t b = prog_random(&state) % (VS_PAGE / 4) * 4;

	switch (i % 4) {
	case 0:
		bytes[a] ^= (char)(1 << prog_random(&state) % 8);
		break;
	case 1:
		memcpy(bytes + a, host + b, 4);
		memcpy(bytes + b, host + a, 4);
		break;
	case 2:
		memcpy(bytes, host + a, VS_PAGE - a);
		memcpy(bytes + VS_PAGE - a, host, a);
		break;
	default:
		size = VS_PAGE - (a > b ? a : b);
		memcpy(bytes + a, host + b, size);
	}
}

/* Page 0 stays; the others are it, changed.  A change that left the bytes as
 * they were must leave the sum. */
static int changes(void)
{
	unsigned tried = 0, missed = 0, wrong = 0;
	long round, rounds = prog_env("PAGE_ROUNDS", 20);
	bool equal;
	size_t i;

	make_pages();
	for (i = 0; i < PAGES; i++)
		spans[i] = (struct vs_page_span){ device + i * VS_PAGE,
						  VS_PAGE };
	for (round = 0; round < rounds; round++) {
		fill(host, VS_PAGE);
		for (i = 1; i < PAGES; i++) {
			memcpy(host + i * VS_PAGE, host, VS_PAGE);
			change(i);
		}
		upload();
		run(PAGES);
		for (i = 1; i < PAGES; i++) {
			equal = !memcmp(host, host + i * VS_PAGE, VS_PAGE);
			tried += !equal;
			missed += !equal && (sums[i].hash[0] ==
					     sums[0].hash[0] ||
					     sums[i].hash[1] ==
					     sums[0].hash[1]);
			wrong += equal && !same(&sums[i], &sums[0]);
		}
	}
	printf("changed=%u missed=%u wrong=%u\n", tried, missed, wrong);
	return missed || wrong || !tried;
}

static int rate(void)
{
	size_t count = (size_t)prog_env("PAGE_MIB", 32768) * MIB / VS_PAGE, i;
	struct vs_page_span *all = calloc(count, sizeof(*all));
	struct vs_page_sum *out = calloc(count, sizeof(*out));
	double from, loaded, best = 0, took, join;
	struct vs_why why;

	if (!all || !out)
		return 3;
	from = prog_now();
	open_hash(1);
	loaded = prog_now() - from;
	vs_page_hash_close(hash);
	open_hash(count);
	CK(cuMemAlloc_v2(&device, count * VS_PAGE));
	CK(cuMemsetD32_v2(device, 0x12345678, count * VS_PAGE / 4));
	CK(cuCtxSynchronize());
	for (i = 0; i < count; i++)
		all[i] = (struct vs_page_span){ device + i * VS_PAGE,
						VS_PAGE };
	for (i = 0; i < 5; i++) {
		from = prog_now();
		check_status(vs_page_hash_queue(hash, stream, all, count,
						&why), &why);
		CK(cuStreamSynchronize(stream));
		took = prog_now() - from;
		best = !best || took < best ? took : best;
	}
	from = prog_now();
	vs_page_hash_collect(hash, out);
	join = prog_now() - from;
	vs_page_hash_close(hash);
	printf("load-ms=%.1f hash-ms=%.2f join-ms=%.2f gib-per-s=%.0f\n",
	       loaded * 1e3, best * 1e3, join * 1e3,
	       (double)(count * VS_PAGE) / (double)GIB / best);
	return out[0].zero || !same(&out[0], &out[count - 1]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	start();
	if (!strcmp(what, "compare"))
		return compare();
	if (!strcmp(what, "changes"))
		return changes();
	if (!strcmp(what, "rate"))
		return rate();
	fprintf(stderr, "usage: page_hash compare|changes|rate\n");
	return 2;
}
