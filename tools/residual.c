/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "residual.h"

#include "nvml.h"
#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unmanaged memory that need not be on the device. */
#define NOT_ON_DEVICE "managed"

static const struct {
	const char *kind;
	const char *text;
} kinds[] = {
	{ "native", "plain allocations that were left to the driver: with no "
	  "tag (VSLEEP_TAG set but empty), or on a device without usable "
	  "virtual memory management" },
	{ "vmm", "what the program creates itself by cuMemCreate with no tag "
	  "(VSLEEP_TAG set but empty)" },
	{ "pool", "stream-ordered allocations (cudaMallocAsync)" },
	{ "managed", "cudaMallocManaged; the driver moves it by itself, and "
	  "part of it may be on the device" },
	{ "array", "CUDA arrays" },
	{ "graph", "graph-owned memory in use: what nodes of graphs have "
	  "allocated and not freed, as the last sleep found it" },
};

const char *residual_kind(const char *kind)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].kind, kind))
			return kinds[i].text;
	return NULL;
}

/* The key is "unmanaged-KIND-bytes". */
bool residual_next(const struct answer *answer, int *at, char kind[32],
		   unsigned long long *bytes)
{
	const struct pair *pair;
	int end;

	while (*at < answer->count) {
		pair = &answer->pairs[(*at)++];
		end = 0;
		if (sscanf(pair->key, "unmanaged-%31[a-z]-bytes%n", kind,
			   &end) != 1 || !end || pair->key[end])
			continue;
		*bytes = strtoull(pair->value, NULL, 10);
		return true;
	}
	return false;
}

static unsigned long long on_device(const struct answer *answer)
{
	unsigned long long sum = 0, bytes;
	char kind[32];
	int at = 0;

	while (residual_next(answer, &at, kind, &bytes))
		if (strcmp(kind, NOT_ON_DEVICE))
			sum += bytes;
	return sum;
}

void residual_of(const struct answer *answer, pid_t pid, struct residual *out)
{
	unsigned long long counted;

	memset(out, 0, sizeof(*out));
	out->managed = answer_number(answer, "resident-bytes");
	out->unmanaged = on_device(answer);
	out->known = nvml_used(NULL, pid, &out->used);
	/* Less than is there for sure: the figure of somebody else's. */
	if (out->known && out->used < out->managed) {
		out->known = false;
		out->used = 0;
	}
	counted = out->managed + out->unmanaged;
	if (out->used > counted)
		out->rest = out->used - counted;
}

static void add_to_device(struct answer *answer, struct pair *pair, pid_t pid)
{
	unsigned long long used;
	struct words device;
	const char *text;

	answer_words(pair->key, pair->value, &device);
	if (!nvml_used(words_text(&device, "uuid"), pid, &used))
		return;
	text = answer_store(answer, "%s used-bytes=%llu", pair->value, used);
	if (text)
		pair->value = text;
}

void residual_add(struct answer *answer, pid_t pid)
{
	struct residual residual;
	int i;

	residual_of(answer, pid, &residual);
	if (!residual.known) {
		answer_put(answer, "used", "unknown");
		return;
	}
	answer_put(answer, "used-bytes",
		   answer_store(answer, "%llu", residual.used));
	answer_put(answer, "rest-bytes",
		   answer_store(answer, "%llu", residual.rest));
	for (i = 0; i < answer->count; i++)
		if (!strcmp(answer->pairs[i].key, "device"))
			add_to_device(answer, &answer->pairs[i], pid);
}

void residual_print(const struct answer *answer)
{
	char used[SIZE_TEXT], managed[SIZE_TEXT], rest[SIZE_TEXT];
	char size[SIZE_TEXT], kind[32];
	unsigned long long bytes;
	int at = 0;

	if (!answer_text(answer, "used-bytes")[0]) {
		printf("  on the GPU: unknown, the driver's management "
		       "library does not tell\n");
		return;
	}
	printf("  on the GPU: %s used, of it %s managed",
	       print_size(answer_number(answer, "used-bytes"), used),
	       print_size(answer_number(answer, "resident-bytes"), managed));
	while (residual_next(answer, &at, kind, &bytes))
		if (strcmp(kind, NOT_ON_DEVICE))
			printf(", %s unmanaged (%s)", print_size(bytes, size),
			       kind);
	printf(", %s context, modules and what else the driver holds\n",
	       print_size(answer_number(answer, "rest-bytes"), rest));
}
