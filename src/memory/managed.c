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

#define BLOCK ((size_t)2 << 20)	/* the driver's own unit */

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
	short *where;		/* asleep: the device of each block, or
				   VS_MANAGED_NOWHERE; may be NULL */
	struct vs_managed *next;
};

size_t vs_managed_piece = (size_t)64 << 20;

static struct vs_lock managed_lock = VS_LOCK(VS_RANK_STORE);
static struct vs_managed *records;	/* by rising serial; under the lock */
static uint64_t last_serial;		/* likewise */

/* Blocks are where the driver has them, not from the first byte on. */
static size_t block_count(const struct vs_managed *m)
{
	return (m->base % BLOCK + m->size + BLOCK - 1) / BLOCK;
}

/* What is in the blocks from @first up to @end. */
static size_t span(const struct vs_managed *m, size_t first, size_t end,
		   CUdeviceptr *base)
{
	CUdeviceptr from = m->base - m->base % BLOCK + first * BLOCK;
	CUdeviceptr to = from + (end - first) * BLOCK;

	if (to > m->base + m->size)
		to = m->base + m->size;
	*base = from < m->base ? m->base : from;
	return to - *base;
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

/* What leaves the devices with these blocks, which are still where they are;
 * a block of which half or more does comes back. */
static size_t weigh(const struct vs_managed_mover *mover, struct vs_managed *m,
		    size_t first, size_t end)
{
	size_t i, size, part, sum = 0;
	CUdeviceptr base;

	for (i = first; i < end; i++) {
		size = span(m, i, i + 1, &base);
		part = vs_managed_move_weigh(mover, base, size,
					     m->read_mostly);
		sum += part;
		if (m->where && part && part * 2 >= size)
			m->where[i] = (short)vs_managed_move_home(mover,
					m->context, base, size);
	}
	return sum;
}

static void forget(struct vs_managed *m, size_t first, size_t end)
{
	size_t i;

	for (i = first; m->where && i < end; i++)
		m->where[i] = VS_MANAGED_NOWHERE;
}

static void move_piece(struct vs_managed_mover *mover, struct vs_managed *m,
		       size_t first, size_t end, struct vs_why *why)
{
	CUdeviceptr base;
	size_t size = span(m, first, end, &base);
	size_t leaves = weigh(mover, m, first, end);

	if (leaves && vs_host_pool_check(leaves, NULL))
		vs_why_set(why, VS_NOHOST, "managed memory: too little host "
			   "memory for it");
	else
		vs_managed_move_out(mover, base, size, m->read_mostly, why);
	if (why->status) {
		forget(m, first, end);
		return;
	}
	vs_host_pool_charge((ptrdiff_t)leaves);
	m->away += leaves;
}

/* Piece by piece, up to the first that does not go; how many bytes stay. */
static size_t move_out(struct vs_managed_mover *mover, struct vs_managed *m,
		       struct vs_why *why)
{
	size_t step = vs_managed_piece / BLOCK, count = block_count(m);
	size_t first, end;
	CUdeviceptr base;

	m->where = malloc(count * sizeof(*m->where));
	forget(m, 0, count);
	for (first = 0; first < count; first = end) {
		end = count - first < step ? count : first + step;
		move_piece(mover, m, first, end, why);
		if (why->status)
			return span(m, first, count, &base);
	}
	return 0;
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

/* From @first on, those that go to the same device, as many as it has room
 * for; none where it has none. */
static size_t run_end(const struct vs_managed_mover *mover,
		      const struct vs_managed *m, size_t first)
{
	size_t end = first, count = block_count(m);
	size_t room = vs_managed_move_room(mover, m->where[first]);
	CUdeviceptr base;

	while (end < count && m->where[end] == m->where[first] &&
	       span(m, first, end + 1, &base) <= room)
		end++;
	return end;
}

/* The rest of what does not fit comes when it is used. */
static uint64_t move_back(struct vs_managed_mover *mover,
			  const struct vs_managed *m)
{
	size_t i, end, size, came, sum = 0, late = 0, count = block_count(m);
	CUdeviceptr base;
	bool fits;

	for (i = 0; i < count; i = end) {
		end = i + 1;
		if (m->where[i] == VS_MANAGED_NOWHERE)
			continue;
		end = run_end(mover, m, i);
		fits = end > i;
		end += !fits;
		size = span(m, i, end, &base);
		came = fits ? vs_managed_move_back(mover, base, size,
						   m->where[i],
						   m->read_mostly) : 0;
		sum += came;
		late += size - came;
	}
	if (late)
		vs_log_info("%zu MiB of managed memory at 0x%llx stay on the "
			    "host until they are used", late >> 20, m->base);
	return sum;
}

/* What is to come back to a device. */
static size_t away_from(CUdevice device, vs_tag_set tags)
{
	const struct vs_managed *m;
	CUdeviceptr base;
	size_t i, sum = 0;

	vs_lock_take(&managed_lock);
	for (m = records; m; m = m->next) {
		if (!(tags >> m->tag & 1) || !m->where)
			continue;
		for (i = 0; i < block_count(m); i++)
			if (m->where[i] == device)
				sum += span(m, i, i + 1, &base);
	}
	vs_lock_drop(&managed_lock);
	return sum;
}

static void begin_wake(struct vs_managed_mover *mover, vs_tag_set tags)
{
	int i;

	vs_managed_mover_begin(mover);
	for (i = 0; i < mover->count; i++)
		vs_managed_move_plan(mover, i,
			away_from(mover->contexts[i]->device, tags));
}

/* Its blocks are ours alone from now on. */
static void take_blocks(struct vs_managed *m)
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
		if (!begun)
			begin_wake(&mover, tags);
		begun = true;
		take_blocks(&m);
		if (!m.where)
			continue;
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
