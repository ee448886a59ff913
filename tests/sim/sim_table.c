/* SPDX-License-Identifier: Apache-2.0 */
/* Handles by value and memory by address. */
#include "sim_internal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	uint64_t key;		/* 0 empty, 1 was used */
	enum sim_type type;
	void *obj;
};

static struct slot *slots;
static size_t n_slots, n_filled;	/* filled: used now or before */
static unsigned long counts[SIM_TYPES];
static void *range_tree, *reserve_tree;
struct sim_range *sim_ranges;
unsigned long sim_reserves;

static size_t place(uint64_t key)
{
	return (size_t)((key >> 4) * 0x9e3779b97f4a7c15u >> 20) & (n_slots - 1);
}

static struct slot *find(uint64_t key)
{
	size_t i;

	if (key <= 1 || !n_slots)
		return NULL;
	for (i = place(key); slots[i].key; i = (i + 1) & (n_slots - 1))
		if (slots[i].key == key)
			return &slots[i];
	return NULL;
}

static void put(uint64_t key, enum sim_type type, void *obj)
{
	size_t i = place(key);

	while (slots[i].key > 1)
		i = (i + 1) & (n_slots - 1);
	if (slots[i].key == 0)
		n_filled++;
	slots[i] = (struct slot){ key, type, obj };
}

static void grow(void)
{
	struct slot *old = slots;
	size_t n_old = n_slots, used = 0, i;

	for (i = 0; i < n_old; i++)
		used += old[i].key > 1;
	for (n_slots = 256; n_slots < used * 4; n_slots *= 2)
		;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		abort();
	n_filled = 0;
	for (i = 0; i < n_old; i++)
		if (old[i].key > 1)
			put(old[i].key, old[i].type, old[i].obj);
	free(old);
}

void sim_handle_add(uint64_t key, enum sim_type type, void *obj)
{
	if ((n_filled + 1) * 2 > n_slots)
		grow();
	put(key, type, obj);
	counts[type]++;
}

void *sim_handle_get(uint64_t key, enum sim_type type)
{
	struct slot *s = find(key);

	return s && s->type == type ? s->obj : NULL;
}

void sim_handle_drop(uint64_t key)
{
	struct slot *s = find(key);

	if (!s)
		return;
	counts[s->type]--;
	*s = (struct slot){ .key = 1 };
}

unsigned long sim_handle_count(enum sim_type type)
{
	return counts[type];
}

/* fn may drop handles, also other ones, but add none. */
void sim_handle_each(enum sim_type type, void (*fn)(void *obj, void *arg),
		     void *arg)
{
	size_t i;

	for (i = 0; i < n_slots; i++)
		if (slots[i].key > 1 && slots[i].type == type)
			fn(slots[i].obj, arg);
}

/* Spans that overlap are equal, so that any byte finds its span. */
static int by_span(const void *a, const void *b)
{
	const struct sim_span *x = a, *y = b;

	if (x->base + x->len <= y->base)
		return -1;
	return y->base + y->len <= x->base;
}

static void *tree_find(void *const *tree, uintptr_t base, size_t len)
{
	struct sim_span key = { base, len };
	void *node;

	if (len == 0 || base + len < base)
		return NULL;
	node = tfind(&key, tree, by_span);
	return node ? *(void **)node : NULL;
}

struct sim_range *sim_range_at(uintptr_t addr)
{
	return tree_find(&range_tree, addr, 1);
}

struct sim_range *sim_range_over(uintptr_t base, size_t len)
{
	return tree_find(&range_tree, base, len);
}

struct sim_range *sim_range_new(uintptr_t base, size_t len,
				enum sim_kind kind)
{
	struct sim_range *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->span = (struct sim_span){ base, len };
	r->kind = kind;
	r->id = sim_next_id();
	if (!tsearch(r, &range_tree, by_span)) {
		free(r);
		return NULL;
	}
	r->next = sim_ranges;
	r->link = &sim_ranges;
	if (r->next)
		r->next->link = &r->next;
	sim_ranges = r;
	return r;
}

void sim_range_drop(struct sim_range *r)
{
	tdelete(r, &range_tree, by_span);
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	free(r);
}

struct sim_reserve *sim_reserve_at(uintptr_t base, size_t len)
{
	return tree_find(&reserve_tree, base, len);
}

void sim_reserve_add(struct sim_reserve *r)
{
	if (!tsearch(r, &reserve_tree, by_span))
		abort();
	sim_reserves++;
}

void sim_reserve_drop(struct sim_reserve *r)
{
	tdelete(r, &reserve_tree, by_span);
	sim_reserves--;
	free(r);
}

void sim_reserve_reset(void)
{
	while (reserve_tree) {
		struct sim_reserve *r = *(struct sim_reserve **)reserve_tree;

		sim_space_free(r->span.base, r->span.len);
		sim_reserve_drop(r);
	}
}
