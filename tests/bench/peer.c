/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer vllm|tms|kept MIB - how the peers put memory to sleep and wake it.
 *
 * All three go block by block: to sleep, pinned host memory, a synchronous
 * copy, unmap, release; to wake, create, map, access, a synchronous copy.
 *
 *   vllm   vLLM's sleep mode: the host memory goes back after the wake
 *   tms    torch_memory_saver with a backup: it goes back during the wake
 *   kept   torch_memory_saver with a retained backup: it stays
 *
 * Commands: sleep, wake, check, quit.  Sleep and wake say their seconds; vllm's
 * wake says apart how long giving the host memory back took.
 */
#include "mapped.h"

static struct mapped *blocks;
static size_t count;
static int frees_at_once, keeps;

static void put_to_sleep(void)
{
	double from = prog_now();

	for (size_t i = 0; i < count; i++) {
		struct mapped *b = &blocks[i];

		if (!b->host)
			CK(cuMemHostAlloc(&b->host, b->size, 0));
		CK(cuMemcpyDtoH(b->host, b->p, b->size));
		mapped_unback(b);
	}
	printf("ok seconds=%.6f\n", prog_now() - from);
}

static void free_host(struct mapped *b)
{
	CK(cuMemFreeHost(b->host));
	b->host = NULL;
}

static void wake(void)
{
	double from = prog_now(), woken;

	for (size_t i = 0; i < count; i++) {
		struct mapped *b = &blocks[i];

		mapped_back(b);
		CK(cuMemcpyHtoD(b->p, b->host, b->size));
		if (frees_at_once)
			free_host(b);
	}
	woken = prog_now();
	for (size_t i = 0; i < count && !keeps && !frees_at_once; i++)
		free_host(&blocks[i]);
	printf("ok seconds=%.6f release=%.6f\n", woken - from,
	       prog_now() - woken);
}

static void check(void)
{
	printf("ok bad=%lu\n", mapped_bad(blocks, count));
}

int main(int argc, char **argv)
{
	static const struct mapped_verb verbs[] = {
		{ "sleep", put_to_sleep },
		{ "wake", wake },
		{ "check", check },
		{ NULL, NULL }
	};
	const char *who = argc == 3 ? argv[1] : "";

	frees_at_once = !strcmp(who, "tms");
	keeps = !strcmp(who, "kept");
	if (!frees_at_once && !keeps && strcmp(who, "vllm")) {
		fprintf(stderr, "usage: peer vllm|tms|kept MIB\n");
		return 2;
	}
	count = strtoull(argv[2], NULL, 0) * MIB / MAPPED_GROUP_BYTES *
		MAPPED_GROUP;
	blocks = (struct mapped *)calloc(count + 1, sizeof(*blocks));
	if (!blocks)
		return 1;
	drv_open();
	for (size_t i = 0; i < count; i++) {
		blocks[i].size = mapped_group[i % MAPPED_GROUP];
		CK(cuMemAddressReserve(&blocks[i].p, blocks[i].size, 0, 0, 0));
		mapped_back(&blocks[i]);
	}
	mapped_fill(blocks, count);
	mapped_obey(verbs);
	return 0;
}
