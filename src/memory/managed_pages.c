/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/managed_pages.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 512	/* pages that are asked for at once */
#define INTERRUPTS 8	/* that a read may be tried again after */

/* Of an entry: the page is mapped, or it is swapped out. */
#define PRESENT ((uint64_t)1 << 63)
#define SWAPPED ((uint64_t)1 << 62)

const char *vs_managed_pagemap = "/proc/self/pagemap";

void vs_managed_pages_begin(struct vs_managed_pages *pages)
{
	long page = sysconf(_SC_PAGESIZE);
	int tries = 0;

	pages->page = page > 0 ? (size_t)page : 0;
	do
		pages->fd = open(vs_managed_pagemap, O_RDONLY | O_CLOEXEC);
	while (pages->fd < 0 && errno == EINTR && tries++ < INTERRUPTS);
	if (pages->fd < 0)
		vs_log_info("%s: %s: all managed memory counts as on a device",
			    vs_managed_pagemap, strerror(errno));
}

void vs_managed_pages_end(struct vs_managed_pages *pages)
{
	if (pages->fd >= 0)
		close(pages->fd);
	pages->fd = -1;
}

/* The entries of @count pages from number @first on. */
static bool read_entries(int fd, uintptr_t first, size_t count,
			 uint64_t *entries)
{
	size_t done = 0, size = count * sizeof(*entries);
	int tries = 0;
	ssize_t got;

	while (done < size) {
		got = pread(fd, (char *)entries + done, size - done,
			    (off_t)(first * sizeof(*entries) + done));
		if (got < 0 && errno == EINTR && tries++ < INTERRUPTS)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* What of page @number lies in [@base, @end). */
static size_t share(size_t page, uintptr_t number, uintptr_t base,
		    uintptr_t end)
{
	uintptr_t from = number * page, to = from + page;

	if (from < base)
		from = base;
	if (to > end)
		to = end;
	return to - from;
}

bool vs_managed_pages_absent(const struct vs_managed_pages *pages,
			     uintptr_t base, size_t size, size_t *absent)
{
	uintptr_t end = base + size, number, last;
	uint64_t entries[CHUNK];
	size_t i, count, sum = 0;

	if (pages->fd < 0 || !pages->page || !size)
		return false;
	last = (end - 1) / pages->page;
	for (number = base / pages->page; number <= last; number += count) {
		count = last - number + 1;
		if (count > CHUNK)
			count = CHUNK;
		if (!read_entries(pages->fd, number, count, entries))
			return false;
		for (i = 0; i < count; i++)
			if (!(entries[i] & (PRESENT | SWAPPED)))
				sum += share(pages->page, number + i, base,
					     end);
	}
	*absent = sum;
	return true;
}
