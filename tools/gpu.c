/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "gpu.h"

#include "vsleepctl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS "/proc/driver/nvidia/gpus"

static bool parse_place(const char *text, unsigned *domain, unsigned *bus,
			unsigned *slot)
{
	return sscanf(text, "%x:%x:%x", domain, bus, slot) == 3;
}

static int is_place(const struct dirent *entry)
{
	unsigned domain, bus, slot;

	return parse_place(entry->d_name, &domain, &bus, &slot);
}

static int by_place(const struct dirent **a, const struct dirent **b)
{
	unsigned left[3], right[3];
	int i;

	parse_place((*a)->d_name, &left[0], &left[1], &left[2]);
	parse_place((*b)->d_name, &right[0], &right[1], &right[2]);
	for (i = 0; i < 3; i++)
		if (left[i] != right[i])
			return left[i] < right[i] ? -1 : 1;
	return 0;
}

/* Where the GPU is that nvidia-smi gives this index; false: there is none. */
static bool find_place(struct gpu *gpu)
{
	struct dirent **names;
	int count = scandir(GPUS, &names, is_place, by_place);
	int i;

	if (count <= 0) {
		if (!count)
			free(names);
		return true;
	}
	gpu->placed = gpu->index < (unsigned)count;
	if (gpu->placed)
		parse_place(names[gpu->index]->d_name, &gpu->domain,
			    &gpu->bus, &gpu->slot);
	else
		usage_error("--gpu %u: this machine has GPU 0 to %d",
			    gpu->index, count - 1);
	for (i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return gpu->placed;
}

/* A part of a GPU that is divided up has an identifier of its own. */
static bool is_uuid(const char *text)
{
	return (!strncasecmp(text, "GPU-", 4) ||
		!strncasecmp(text, "MIG-", 4)) &&
	       strlen(text) == 40 &&
	       strspn(text + 4, "0123456789abcdefABCDEF-") == 36;
}

bool gpu_parse(const char *text, struct gpu *out)
{
	char *end;
	unsigned long index = strtoul(text, &end, 10);

	memset(out, 0, sizeof(*out));
	if (is_uuid(text)) {
		out->uuid = text;
		return true;
	}
	if (text[0] < '0' || text[0] > '9' || *end || index > 65535) {
		usage_error("--gpu %s: must be an index from 0, or GPU- and a "
			    "UUID as nvidia-smi -L prints it", text);
		return false;
	}
	out->index = (unsigned)index;
	return find_place(out);
}

static bool is_device(const struct gpu *gpu, const struct words *device)
{
	const char *uuid = words_text(device, "uuid");
	unsigned domain, bus, slot;

	if (gpu->uuid)
		return strlen(uuid) > 4 && !strcasecmp(uuid + 4, gpu->uuid + 4);
	if (!gpu->placed)
		return words_number(device, "device") == gpu->index;
	return parse_place(words_text(device, "bus"), &domain, &bus, &slot) &&
	       domain == gpu->domain && bus == gpu->bus && slot == gpu->slot;
}

bool gpu_used(const struct gpu *gpu, const struct answer *status)
{
	struct words device;
	const char *line;
	int i;

	for (i = 0; (line = answer_nth(status, "device", i)); i++) {
		answer_words("device", line, &device);
		if (is_device(gpu, &device))
			return true;
	}
	return false;
}
