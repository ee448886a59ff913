/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/mapping.h"
#include "memory/foreign.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* under vs_segment_lock */
static struct vs_mapping **table;	/* sorted by base */
static size_t table_room, promised;
static _Atomic size_t table_count;
static struct vs_mapping_range *ranges;

/* Index of the first mapping that ends beyond @address. */
static size_t lower_bound(CUdeviceptr address)
{
	size_t low = 0, high = table_count, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (table[middle]->base + table[middle]->size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct vs_mapping *vs_mapping_after(CUdeviceptr address)
{
	size_t index = lower_bound(address);

	return index < table_count ? table[index] : NULL;
}

struct vs_mapping *vs_mapping_find(CUdeviceptr address)
{
	struct vs_mapping *m = vs_mapping_after(address);

	return m && m->base <= address ? m : NULL;
}

bool vs_mapping_any(void)
{
	return atomic_load_explicit(&table_count, memory_order_relaxed) != 0;
}

bool vs_mapping_promise(void)
{
	size_t more = table_room ? table_room * 2 : 64;
	struct vs_mapping **grown;

	if (table_count + promised == table_room) {
		grown = realloc(table, more * sizeof(*table));
		if (!grown)
			return false;
		table = grown;
		table_room = more;
	}
	promised++;
	return true;
}

void vs_mapping_give_up(void)
{
	promised--;
}

static void append(struct vs_mapping **head, struct vs_mapping *m)
{
	struct vs_mapping *first = *head;

	m->next = NULL;
	m->prev = first ? first->prev : m;
	if (first) {
		first->prev->next = m;
		first->prev = m;
	} else {
		*head = m;
	}
}

static void take_out(struct vs_mapping **head, struct vs_mapping *m)
{
	struct vs_mapping *first = *head;

	if (m == first)
		*head = m->next;
	else
		m->prev->next = m->next;
	if (m->next)
		m->next->prev = m->prev;
	else
		first->prev = m->prev;
}

void vs_mapping_add(struct vs_mapping *mapping)
{
	size_t index = lower_bound(mapping->base);

	memmove(&table[index + 1], &table[index],
		(table_count - index) * sizeof(*table));
	table[index] = mapping;
	table_count++;
	promised--;
	if (mapping->foreign)
		append(&mapping->foreign->mappings, mapping);
}

void vs_mapping_remove(struct vs_mapping *mapping)
{
	size_t index = lower_bound(mapping->base);

	while (table[index] != mapping)
		index++;
	table_count--;
	memmove(&table[index], &table[index + 1],
		(table_count - index) * sizeof(*table));
	if (mapping->foreign)
		take_out(&mapping->foreign->mappings, mapping);
	free(mapping->access);
	free(mapping);
}

bool vs_mapping_covers(CUdeviceptr base, size_t size)
{
	CUdeviceptr at = base, end = base + size;
	struct vs_mapping *m;

	if (!size || end < base)
		return false;
	while (at < end) {
		m = vs_mapping_find(at);
		if (!m)
			return false;
		at = m->base + m->size;
	}
	return true;
}

bool vs_mapping_whole(CUdeviceptr base, size_t size)
{
	struct vs_mapping *first, *last;

	if (!vs_mapping_covers(base, size))
		return false;
	first = vs_mapping_find(base);
	last = vs_mapping_find(base + size - 1);
	return first->base == base && last->base + last->size == base + size;
}

/* The number of a place on the host means nothing. */
static bool same_place(const CUmemLocation *a, const CUmemLocation *b)
{
	return a->type == b->type &&
	       (a->type != CU_MEM_LOCATION_TYPE_DEVICE || a->id == b->id);
}

/* A setting may split one entry and add one. */
bool vs_mapping_access_room(struct vs_mapping *mapping, size_t count)
{
	size_t need = mapping->access_count + 2 * count;
	struct vs_access *grown;

	if (need <= mapping->access_room)
		return true;
	if (count > SIZE_MAX / 4 / sizeof(*grown))
		return false;
	grown = realloc(mapping->access, need * sizeof(*grown));
	if (!grown)
		return false;
	mapping->access = grown;
	mapping->access_room = need;
	return true;
}

static void drop_entry(struct vs_mapping *m, size_t index)
{
	m->access_count--;
	memmove(&m->access[index], &m->access[index + 1],
		(m->access_count - index) * sizeof(*m->access));
}

/* What is said of @start to @end anew is not said by older entries. */
static void cut_out(struct vs_mapping *m, size_t start, size_t end,
		    const CUmemLocation *where)
{
	struct vs_access *a;
	size_t i = 0;

	while (i < m->access_count) {
		a = &m->access[i];
		if (!same_place(&a->where, where) || a->end <= start ||
		    a->start >= end) {
			i++;
		} else if (a->start < start && a->end > end) {
			m->access[m->access_count] = *a;
			m->access[m->access_count++].start = end;
			a->end = start;
			i++;
		} else if (a->start < start) {
			a->end = start;
			i++;
		} else if (a->end > end) {
			a->start = end;
			i++;
		} else {
			drop_entry(m, i);
		}
	}
}

/* Neighbours that say the same become one: what is set piece by piece comes
 * back at once. */
static void join(struct vs_mapping *m, struct vs_access *fresh)
{
	struct vs_access *a;
	size_t i = 0;

	while (i < m->access_count) {
		a = &m->access[i];
		if (!same_place(&a->where, &fresh->where) ||
		    a->flags != fresh->flags ||
		    (a->end != fresh->start && a->start != fresh->end)) {
			i++;
			continue;
		}
		if (a->end == fresh->start)
			fresh->start = a->start;
		else
			fresh->end = a->end;
		drop_entry(m, i);
	}
}

void vs_mapping_set_access(struct vs_mapping *mapping, size_t start,
			   size_t end, const CUmemAccessDesc *desc)
{
	struct vs_access fresh = {
		.start = start, .end = end, .where = desc->location,
		.flags = desc->flags,
	};

	cut_out(mapping, start, end, &desc->location);
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return;
	join(mapping, &fresh);
	mapping->access[mapping->access_count++] = fresh;
}

CUmemAccess_flags vs_mapping_access(const struct vs_mapping *mapping,
				    const CUmemLocation *where,
				    CUdeviceptr address)
{
	size_t at = address - mapping->base, i;
	const struct vs_access *a;

	for (i = 0; i < mapping->access_count; i++) {
		a = &mapping->access[i];
		if (same_place(&a->where, where) && at >= a->start &&
		    at < a->end)
			return a->flags;
	}
	return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool vs_mapping_writable(const struct vs_mapping *mapping, CUdevice device)
{
	CUmemLocation where = {
		.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device,
	};
	const struct vs_access *a;
	size_t i;

	for (i = 0; i < mapping->access_count; i++) {
		a = &mapping->access[i];
		if (same_place(&a->where, &where) && !a->start &&
		    a->end == mapping->size)
			return a->flags ==
			       CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	return false;
}

void vs_mapping_add_range(struct vs_mapping_range *range)
{
	range->next = ranges;
	ranges = range;
}

struct vs_mapping_range *vs_mapping_take_range(CUdeviceptr base, size_t size)
{
	struct vs_mapping_range **link = &ranges, *r;

	while ((r = *link) && (r->base != base || r->size != size))
		link = &r->next;
	if (r)
		*link = r->next;
	return r;
}

static const struct vs_mapping_range *range_around(CUdeviceptr address)
{
	const struct vs_mapping_range *r;

	for (r = ranges; r; r = r->next)
		if (address - r->base < r->size)
			break;
	return r;
}

bool vs_mapping_in_range(CUdeviceptr base, size_t size)
{
	const struct vs_mapping_range *r = range_around(base);

	return r && size <= r->size - (base - r->base);
}

bool vs_mapping_range(CUdeviceptr address, CUdeviceptr *base, size_t *size)
{
	const struct vs_mapping_range *r = range_around(address);

	if (!r)
		return false;
	*base = r->base;
	*size = r->size;
	return true;
}
