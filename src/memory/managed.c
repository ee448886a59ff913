/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/managed.h"
#include "memory/managed_move.h"
#include "memory/unmanaged.h"
#include "backup/host_pool.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

#define NOWHERE (-1)

struct vs_managed {
	CUdeviceptr base;
	size_t size;
	uint64_t serial;	/* of records, never used twice */
	int tag;
	CUcontext context;
	bool read_mostly;	/* some of it */
	bool asleep;
	bool hidden;		/* and nothing of it has to stay */
	size_t away;		/* asleep: what left the devices */
	short *where;		/* asleep: the device of each piece, or
				   NOWHERE; may be NULL */
	struct vs_managed *next;
};

size_t vs_managed_piece = (size_t)64 << 20;

static struct vs_lock managed_lock = VS_LOCK(VS_RANK_STORE);
static struct vs_managed *records;	/* by rising serial; under the lock */
static uint64_t last_serial;		/* likewise */

static size_t piece_count(size_t size)
{
	return (size + vs_managed_piece - 1) / vs_managed_piece;
}

static void put_in(struct vs_managed *m)
{
	struct vs_managed **link = &records;

	while (*link && (*link)->serial < m->serial)
		link = &(*link)->next;
	m->next = *link;
	*link = m;
}

void vs_managed_add(CUdeviceptr base, size_t size)
{
	struct vs_managed *m;
	int tag = vs_tag_current();

	if (tag == VS_TAG_NATIVE)
		return;
	m = calloc(1, sizeof(*m));
	if (!m) {
		vs_log_warn("%zu bytes of managed memory do not sleep: no "
			    "host memory", size);
		return;
	}
	m->base = base;
	m->size = size;
	m->tag = tag;
	m->context = vs_context_current();
	vs_lock_take(&managed_lock);
	m->serial = ++last_serial;
	put_in(m);
	vs_lock_drop(&managed_lock);
}

struct vs_managed *vs_managed_take(CUdeviceptr base)
{
	struct vs_managed **link = &records, *m;

	vs_lock_take(&managed_lock);
	while (*link && (*link)->base != base)
		link = &(*link)->next;
	m = *link;
	if (m)
		*link = m->next;
	vs_lock_drop(&managed_lock);
	return m;
}

void vs_managed_put_back(struct vs_managed *record)
{
	CUdeviceptr base;
	bool hidden;

	if (!record)
		return;
	base = record->base;
	vs_lock_take(&managed_lock);
	put_in(record);
	hidden = record->hidden;
	vs_lock_drop(&managed_lock);
	vs_unmanaged_hide(VS_UNMANAGED_MANAGED, base, hidden);
}

void vs_managed_drop(struct vs_managed *record)
{
	if (!record)
		return;
	vs_host_pool_charge(-(ptrdiff_t)record->away);
	free(record->where);
	free(record);
}

void vs_managed_drop_context(CUcontext context)
{
	struct vs_managed **link = &records, *gone = NULL, *m;

	vs_lock_take(&managed_lock);
	while ((m = *link)) {
		if (m->context != context) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		m->next = gone;
		gone = m;
	}
	vs_lock_drop(&managed_lock);
	while ((m = gone)) {
		gone = m->next;
		vs_managed_drop(m);
	}
}

void vs_managed_read_mostly(CUdeviceptr base, size_t size)
{
	struct vs_managed *m;

	vs_lock_take(&managed_lock);
	for (m = records; m; m = m->next)
		if (base < m->base + m->size && m->base < base + size)
			m->read_mostly = true;
	vs_lock_drop(&managed_lock);
}

static bool stays(const struct vs_managed *m)
{
	return vs_tag_policy(m->tag) == VS_POLICY_KEEP;
}

/* The next one after @serial, copied: what is freed while it is worked on is
 * not found any more. */
static bool next_one(uint64_t serial, vs_tag_set tags, bool asleep,
		     struct vs_managed *out)
{
	struct vs_managed *m;

	vs_lock_take(&managed_lock);
	for (m = records; m; m = m->next)
		if (m->serial > serial && tags >> m->tag & 1 &&
		    m->asleep == asleep)
			break;
	if (m)
		*out = *m;
	vs_lock_drop(&managed_lock);
	return m != NULL;
}

static struct vs_managed *find(uint64_t serial)
{
	struct vs_managed *m = records;

	while (m && m->serial != serial)
		m = m->next;
	return m;
}

/* It sleeps from now on, as far as it does.  False: it has been freed. */
static bool settle(const struct vs_managed *slept, bool whole)
{
	struct vs_managed *m;

	vs_lock_take(&managed_lock);
	m = find(slept->serial);
	if (m) {
		m->asleep = true;
		m->hidden = whole;
		m->away = slept->away;
		m->where = slept->where;
	}
	vs_lock_drop(&managed_lock);
	if (m) {
		vs_unmanaged_hide(VS_UNMANAGED_MANAGED, slept->base, whole);
		return true;
	}
	vs_host_pool_charge(-(ptrdiff_t)slept->away);
	free(slept->where);
	return false;
}

static void report(struct vs_managed_report *out, const struct vs_managed *m,
		   size_t kept, const char *why)
{
	out->moved += m->away;
	if (kept && !out->kept)
		snprintf(out->why, sizeof(out->why), "%.*s",
			 (int)sizeof(out->why) - 1, why);
	out->kept += kept;
}

static size_t piece_size(const struct vs_managed *m, size_t index)
{
	size_t rest = m->size - index * vs_managed_piece;

	return rest < vs_managed_piece ? rest : vs_managed_piece;
}

/* Piece by piece, up to the first that does not go; how many bytes stay. */
static size_t move_out(struct vs_managed_mover *mover, struct vs_managed *m,
		       struct vs_why *why)
{
	size_t i, size, left, kept = 0, count = piece_count(m->size);
	CUdevice device;

	m->where = calloc(count, sizeof(*m->where));
	for (i = 0; i < count && !why->status; i++) {
		size = piece_size(m, i);
		left = 0;
		device = NOWHERE;
		if (vs_host_pool_check(size, NULL))
			vs_why_set(why, VS_NOHOST, "managed memory: too "
				   "little host memory for it");
		else
			vs_managed_move_out(mover, m->base +
					    i * vs_managed_piece, size,
					    m->read_mostly, &left, &device,
					    why);
		vs_host_pool_charge((ptrdiff_t)left);
		m->away += left;
		if (m->where)
			m->where[i] = left * 2 >= size ? (short)device :
							 NOWHERE;
	}
	if (why->status)
		kept = m->size - (i - 1) * vs_managed_piece;
	for (; m->where && i < count; i++)
		m->where[i] = NOWHERE;
	return kept;
}

/* What is freed meanwhile has not stayed. */
static void put_to_sleep(struct vs_managed_mover *mover, struct vs_managed *m,
			 struct vs_managed_report *out)
{
	struct vs_why why = { .status = VS_OK };
	size_t kept = m->size;

	m->away = 0;
	m->where = NULL;
	if (mover->obstacle)
		vs_why_set(&why, VS_CUDA, "%s", mover->obstacle);
	else
		kept = move_out(mover, m, &why);
	if (settle(m, !kept))
		report(out, m, kept, why.text);
}

void vs_managed_sleep(vs_tag_set tags, struct vs_managed_report *out)
{
	struct vs_managed m = { .serial = 0 };
	struct vs_managed_mover mover;
	bool begun = false;

	*out = (struct vs_managed_report){ .moved = 0 };
	while (next_one(m.serial, tags, false, &m)) {
		if (stays(&m)) {
			out->wished += m.size;
			continue;
		}
		if (!begun)
			vs_managed_mover_begin(&mover);
		begun = true;
		put_to_sleep(&mover, &m, out);
	}
	if (begun)
		vs_managed_mover_end(&mover);
}

/* The rest of what does not fit comes when it is used. */
static uint64_t move_back(struct vs_managed_mover *mover,
			  const struct vs_managed *m)
{
	size_t i, came, sum = 0, late = 0, count = piece_count(m->size);

	for (i = 0; m->where && i < count; i++) {
		if (m->where[i] == NOWHERE)
			continue;
		if (vs_managed_move_back(mover, m->base + i * vs_managed_piece,
					 piece_size(m, i), m->where[i], &came))
			sum += came;
		else
			late += piece_size(m, i);
	}
	if (late)
		vs_log_info("%zu MiB of managed memory at 0x%llx stay on the "
			    "host until they are used", late >> 20, m->base);
	return sum;
}

/* Its pieces are ours alone from now on. */
static void take_pieces(struct vs_managed *m)
{
	struct vs_managed *record;

	vs_lock_take(&managed_lock);
	record = find(m->serial);
	m->where = record ? record->where : NULL;
	m->away = record ? record->away : 0;
	if (record) {
		record->asleep = false;
		record->hidden = false;
		record->where = NULL;
		record->away = 0;
	}
	vs_lock_drop(&managed_lock);
	vs_host_pool_charge(-(ptrdiff_t)m->away);
	if (record)
		vs_unmanaged_hide(VS_UNMANAGED_MANAGED, m->base, false);
}

void vs_managed_wake(vs_tag_set tags, struct vs_managed_report *out)
{
	struct vs_managed m = { .serial = 0 };
	struct vs_managed_mover mover;
	bool begun = false;

	*out = (struct vs_managed_report){ .moved = 0 };
	while (next_one(m.serial, tags, true, &m)) {
		take_pieces(&m);
		if (!m.where)
			continue;
		if (!begun)
			vs_managed_mover_begin(&mover);
		begun = true;
		out->moved += move_back(&mover, &m);
		free(m.where);
	}
	if (begun)
		vs_managed_mover_end(&mover);
}

bool vs_managed_asleep(vs_tag_set tags)
{
	struct vs_managed m;

	return next_one(0, tags, true, &m);
}

bool vs_managed_awake(vs_tag_set tags)
{
	struct vs_managed m = { .serial = 0 };

	while (next_one(m.serial, tags, false, &m))
		if (!stays(&m))
			return true;
	return false;
}

uint64_t vs_managed_wished(vs_tag_set tags)
{
	struct vs_managed m = { .serial = 0 };
	uint64_t sum = 0;

	while (next_one(m.serial, tags, false, &m))
		if (stays(&m))
			sum += m.size;
	return sum;
}

uint64_t vs_managed_away(vs_tag_set tags)
{
	const struct vs_managed *m;
	uint64_t sum = 0;

	vs_lock_take(&managed_lock);
	for (m = records; m; m = m->next)
		if (tags >> m->tag & 1)
			sum += m->away;
	vs_lock_drop(&managed_lock);
	return sum;
}
