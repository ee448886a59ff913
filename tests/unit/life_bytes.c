/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "life_bytes.h"
#include "life.h"

#include <string.h>

#define PAGE 1024	/* words */

static uint32_t word(uint32_t seed, size_t i)
{
	uint32_t x = seed ^ (uint32_t)i * 2654435761u;

	return (x ^ x >> 15) * 0x2c1b3c6du;
}

/* Pages are alike but for their first word, for speed. */
static void make_page(uint32_t page[PAGE], const struct life_block *b)
{
	size_t i;

	for (i = 0; i < PAGE; i++)
		page[i] = word(b->seed, i);
}

static size_t rest(const struct life_block *b, size_t at)
{
	return b->size - at < PAGE * 4 ? b->size - at : PAGE * 4;
}

void life_fill(const struct life_block *b)
{
	uint32_t page[PAGE];
	size_t at;

	make_page(page, b);
	for (at = 0; at < b->size; at += rest(b, at)) {
		page[0] = word(b->seed, PAGE + at);
		memcpy((char *)(uintptr_t)b->base + at, page, rest(b, at));
	}
}

/* A chunk's end may lie in it. */
static bool is_mixed(const char *seen, const uint32_t *page, size_t size)
{
	const char *want = (const char *)page;
	size_t i;

	for (i = 0; i < size; i++)
		if (seen[i] && seen[i] != want[i])
			return false;
	return true;
}

void life_look_at_bytes(const struct life_block *b)
{
	static const uint32_t zeros[PAGE];
	const char *seen = (const char *)(uintptr_t)b->base;
	uint32_t page[PAGE];
	size_t at;

	make_page(page, b);
	for (at = 0; at < b->size; at += rest(b, at)) {
		page[0] = word(b->seed, PAGE + at);
		if (!memcmp(seen + at, b->zero ? zeros : page, rest(b, at)))
			continue;
		if (b->mixed && is_mixed(seen + at, page, rest(b, at)))
			continue;
		life_fail("0x%llx of tag %s differs at byte %zu", b->base,
			  b->tag, at);
	}
}
