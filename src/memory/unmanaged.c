/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#define HASH_NONFATAL_OOM 1

#include "memory/unmanaged.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdlib.h>
#include <uthash.h>

struct key {
	uint64_t value;
	uint64_t kind;
};

struct entry {
	struct key key;
	size_t size;
	CUcontext context;
	unsigned retained;	/* releases until the one that counts */
	bool hidden;		/* not counted */
	UT_hash_handle hh;
};

/* The program's own mapping; it has the bytes once the handle is released. */
struct mapping {
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
	size_t size;	/* 0: the handle's entry has them */
	UT_hash_handle hh;
};

static struct vs_lock unmanaged_lock = VS_LOCK(VS_RANK_STORE);
static struct entry *entries;			/* under unmanaged_lock */
static struct mapping *mappings;		/* likewise */
static size_t bytes[VS_UNMANAGED_KINDS];	/* likewise */

static const char *const words[VS_UNMANAGED_KINDS] = {
	[VS_UNMANAGED_NATIVE] = "native",
	[VS_UNMANAGED_VMM] = "vmm",
	[VS_UNMANAGED_POOL] = "pool",
	[VS_UNMANAGED_MANAGED] = "managed",
	[VS_UNMANAGED_ARRAY] = "array",
	[VS_UNMANAGED_GRAPH] = "graph",
};

static struct entry *find(enum vs_unmanaged_kind kind, uint64_t value)
{
	struct key key = { .value = value, .kind = kind };
	struct entry *e;

	HASH_FIND(hh, entries, &key, sizeof(key), e);
	return e;
}

static void drop(struct entry *e)
{
	if (!e->hidden)
		bytes[e->key.kind] -= e->size;
	HASH_DEL(entries, e);
	free(e);
}

void vs_unmanaged_add(enum vs_unmanaged_kind kind, uint64_t key, size_t size)
{
	struct entry *e = calloc(1, sizeof(*e)), *old;

	if (!e) {
		vs_log_warn("%zu bytes of %s memory are not counted: no host "
			    "memory", size, words[kind]);
		return;
	}
	e->key.kind = kind;
	e->key.value = key;
	e->size = size;
	e->context = vs_context_current();
	vs_lock_take(&unmanaged_lock);
	old = find(kind, key);
	if (old)
		drop(old);
	HASH_ADD(hh, entries, key, sizeof(e->key), e);
	bytes[kind] += size;
	vs_lock_drop(&unmanaged_lock);
}

size_t vs_unmanaged_remove(enum vs_unmanaged_kind kind, uint64_t key)
{
	struct entry *e;
	size_t size;

	vs_lock_take(&unmanaged_lock);
	e = find(kind, key);
	size = e ? e->size : 0;
	if (e)
		drop(e);
	vs_lock_drop(&unmanaged_lock);
	return size;
}

void vs_unmanaged_hide(enum vs_unmanaged_kind kind, uint64_t key, bool hidden)
{
	struct entry *e;

	vs_lock_take(&unmanaged_lock);
	e = find(kind, key);
	if (e && e->hidden != hidden) {
		e->hidden = hidden;
		bytes[kind] += hidden ? -e->size : e->size;
	}
	vs_lock_drop(&unmanaged_lock);
}

void vs_unmanaged_mapped(CUdeviceptr address,
			 CUmemGenericAllocationHandle handle)
{
	struct mapping *m;

	vs_lock_take(&unmanaged_lock);
	m = find(VS_UNMANAGED_VMM, handle) ? calloc(1, sizeof(*m)) : NULL;
	if (m) {
		m->address = address;
		m->handle = handle;
		HASH_ADD(hh, mappings, address, sizeof(m->address), m);
	}
	vs_lock_drop(&unmanaged_lock);
}

static struct mapping *other_mapping(const struct mapping *of,
				     CUmemGenericAllocationHandle handle)
{
	struct mapping *m, *next;

	HASH_ITER(hh, mappings, m, next) {
		if (m != of && m->handle == handle)
			return m;
	}
	return NULL;
}

static void drop_mapping(struct mapping *m)
{
	struct mapping *heir = m->size ? other_mapping(m, m->handle) : NULL;

	if (heir)
		heir->size = m->size;
	else
		bytes[VS_UNMANAGED_VMM] -= m->size;
	HASH_DEL(mappings, m);
	free(m);
}

void vs_unmanaged_unmapped(CUdeviceptr address, size_t size)
{
	struct mapping *m, *next;

	vs_lock_take(&unmanaged_lock);
	HASH_ITER(hh, mappings, m, next) {
		if (m->address - address < size)
			drop_mapping(m);
	}
	vs_lock_drop(&unmanaged_lock);
}

/* Released before, its mapping has the bytes: they are the handle's again. */
static void take_back(struct mapping *m)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return;
	e->key.kind = VS_UNMANAGED_VMM;
	e->key.value = m->handle;
	e->size = m->size;
	m->size = 0;
	HASH_ADD(hh, entries, key, sizeof(e->key), e);
}

void vs_unmanaged_retained(CUmemGenericAllocationHandle handle)
{
	struct mapping *m, *next;
	struct entry *e;

	vs_lock_take(&unmanaged_lock);
	e = find(VS_UNMANAGED_VMM, handle);
	if (e)
		e->retained++;
	HASH_ITER(hh, mappings, m, next) {
		if (!e && m->handle == handle && m->size) {
			take_back(m);
			break;
		}
	}
	vs_lock_drop(&unmanaged_lock);
}

void vs_unmanaged_released(CUmemGenericAllocationHandle handle)
{
	struct mapping *heir;
	struct entry *e;

	vs_lock_take(&unmanaged_lock);
	e = find(VS_UNMANAGED_VMM, handle);
	if (e && e->retained) {
		e->retained--;
		e = NULL;
	}
	heir = e ? other_mapping(NULL, handle) : NULL;
	if (heir) {
		heir->size = e->size;
		bytes[VS_UNMANAGED_VMM] += e->size;
	}
	if (e)
		drop(e);
	vs_lock_drop(&unmanaged_lock);
}

void vs_unmanaged_drop_context(CUcontext context)
{
	struct entry *e, *next;

	vs_lock_take(&unmanaged_lock);
	HASH_ITER(hh, entries, e, next) {
		if (e->context == context && e->key.kind != VS_UNMANAGED_VMM)
			drop(e);
	}
	vs_lock_drop(&unmanaged_lock);
}

size_t vs_unmanaged_bytes(enum vs_unmanaged_kind kind)
{
	size_t now;

	vs_lock_take(&unmanaged_lock);
	now = bytes[kind];
	vs_lock_drop(&unmanaged_lock);
	return now;
}

size_t vs_unmanaged_total(void)
{
	size_t sum = 0;
	int kind;

	for (kind = 0; kind < VS_UNMANAGED_KINDS; kind++)
		sum += vs_unmanaged_bytes((enum vs_unmanaged_kind)kind);
	return sum;
}

const char *vs_unmanaged_word(enum vs_unmanaged_kind kind)
{
	return words[kind];
}
