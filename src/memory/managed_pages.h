/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed_pages - which pages of managed memory the host has.
 *
 * The driver takes a page out of the host's page tables when a device gets
 * it, and puts it in when the host does.  The kernel shows that to anyone, of
 * his own pages; a page that nobody has touched yet is not in them either.
 * Operation thread; no lock, no driver call.
 */
#ifndef VS_MEMORY_MANAGED_PAGES_H
#define VS_MEMORY_MANAGED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_managed_pages {
	int fd;		/* -1: it cannot be read */
	size_t page;	/* bytes of one */
};

void vs_managed_pages_begin(struct vs_managed_pages *pages);
void vs_managed_pages_end(struct vs_managed_pages *pages);

/* How much of [@base, @base + @size) the host does not have, bytes; false
 * when that cannot be told. */
bool vs_managed_pages_absent(const struct vs_managed_pages *pages,
			     uintptr_t base, size_t size, size_t *absent);

/* The file that tells; tests name others. */
extern const char *vs_managed_pagemap;

#endif
