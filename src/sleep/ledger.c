/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/ledger.h"
#include "sleep/gate.h"
#include "backup/spill.h"
#include "backup/store.h"
#include "base/context.h"
#include "base/device.h"
#include "base/driver.h"
#include "base/lock.h"
#include "memory/managed.h"
#include "memory/ipc_export.h"
#include "memory/ipc_import.h"
#include "memory/segment.h"
#include "memory/vmm.h"

#include <stdio.h>
#include <string.h>

static struct vs_lock ledger_lock = VS_LOCK(VS_RANK_STATE);
static struct vs_ledger_last last;		/* under ledger_lock */
static enum vs_state state = VS_AWAKE;
static uint64_t sequence;
static vs_tag_set asleep;
static uint64_t lost[VS_TAG_MAX];
static _Atomic(const char *) prepare = "off";

const char *vs_ledger_state_word(enum vs_state now)
{
	static const char *const words[] = {
		[VS_AWAKE] = "awake",
		[VS_DRAINING] = "draining",
		[VS_SLEEPING] = "sleeping",
		[VS_ASLEEP] = "asleep",
		[VS_WAKING] = "waking",
		[VS_PARTLY] = "partial",
		[VS_DEAD] = "failed",
	};

	return words[now];
}

void vs_ledger_enter(enum vs_state now)
{
	vs_lock_take(&ledger_lock);
	state = now;
	vs_lock_drop(&ledger_lock);
}

void vs_ledger_commit(enum vs_state now, vs_tag_set sleeping,
		      const struct vs_ledger_last *result)
{
	vs_lock_take(&ledger_lock);
	state = now;
	asleep = sleeping;
	sequence++;
	last = *result;
	vs_lock_drop(&ledger_lock);
}

void vs_ledger_lost(int tag, uint64_t bytes)
{
	vs_lock_take(&ledger_lock);
	lost[tag] = bytes;
	vs_lock_drop(&ledger_lock);
}

void vs_ledger_prepare(const char *word)
{
	atomic_store(&prepare, word);
}

void vs_ledger_failed(const struct vs_why *why)
{
	vs_lock_take(&ledger_lock);
	last.error = *why;
	vs_lock_drop(&ledger_lock);
}

void vs_ledger_keep(struct vs_ledger_last *result, uint64_t bytes,
		    const char *why, bool wish)
{
	struct vs_ledger_kept *kept = result->kept;
	int i;

	if (!bytes)
		return;
	result->kept_bytes += bytes;
	for (i = 0; i < VS_KEPT_MAX && kept[i].bytes; i++)
		if (!strncmp(kept[i].why, why, sizeof(kept[i].why) - 1)) {
			kept[i].bytes += bytes;
			return;
		}
	if (i == VS_KEPT_MAX) {
		i--;
		bytes += kept[i].bytes;
		why = "other reasons";
	} else if (!wish) {
		memmove(kept + 1, kept, (size_t)i * sizeof(*kept));
		i = 0;
	}
	kept[i].bytes = bytes;
	snprintf(kept[i].why, sizeof(kept[i].why), "%s", why);
}

static void add_devices(struct vs_ledger *out)
{
	struct vs_ledger_device *d;
	struct vs_device known;
	int counts[VS_DEVICE_MAX], device;

	vs_context_count_each(counts, VS_DEVICE_MAX);
	for (device = 0; device < VS_DEVICE_MAX; device++) {
		if (!counts[device] || out->devices_count == VS_LEDGER_DEVICES)
			continue;
		vs_device_read(device, &known);
		d = &out->devices[out->devices_count++];
		d->device = device;
		d->contexts = counts[device];
		d->vmm = known.vmm && !vs_vmm_refused(device);
		memcpy(d->uuid, known.uuid, sizeof(d->uuid));
		memcpy(d->bus, known.bus, sizeof(d->bus));
	}
}

static void add_to_device(struct vs_ledger *out, CUdevice device,
			  const struct vs_chunk *chunk)
{
	int i;

	for (i = 0; i < out->devices_count; i++) {
		if (out->devices[i].device != device)
			continue;
		if (chunk->state == VS_CHUNK_RESIDENT)
			out->devices[i].resident_bytes += chunk->size;
		if (chunk->state == VS_CHUNK_EVICTED)
			out->devices[i].evicted_bytes += chunk->size;
	}
}

static void add_segment(struct vs_ledger *out, const struct vs_segment *s)
{
	struct vs_ledger_tag *t = &out->tags[s->tag];
	size_t i;

	t->allocations += s->live_count;
	t->live_bytes += s->live_bytes;
	for (i = 0; i < s->chunk_count; i++) {
		add_to_device(out, s->device, &s->chunks[i]);
		if (s->chunks[i].state == VS_CHUNK_RESIDENT) {
			t->resident_bytes += s->chunks[i].size;
			t->retained_bytes += vs_store_held(s->chunks[i].backup);
		}
		if (s->chunks[i].state != VS_CHUNK_EVICTED)
			continue;
		t->evicted_bytes += s->chunks[i].size;
		if (s->chunks[i].backup)
			t->host_bytes += s->chunks[i].size;
	}
}

static void sum_tag(struct vs_ledger *out, int tag)
{
	struct vs_ledger_tag *t = &out->tags[tag];

	t->tag = tag;
	t->policy = vs_tag_policy(tag);
	t->state = VS_AWAKE;
	if (asleep >> tag & 1)
		t->state = t->resident_bytes ? VS_PARTLY : VS_ASLEEP;
	t->lost_bytes = lost[tag];
	out->allocations += t->allocations;
	out->live_bytes += t->live_bytes;
	out->resident_bytes += t->resident_bytes;
	out->evicted_bytes += t->evicted_bytes;
	out->host_bytes += t->host_bytes;
	out->retained_bytes += t->retained_bytes;
}

static void add_rest(struct vs_ledger *out)
{
	int kind;

	for (kind = 0; kind < VS_UNMANAGED_KINDS; kind++)
		out->unmanaged[kind] =
			vs_unmanaged_bytes((enum vs_unmanaged_kind)kind);
	out->unmanaged_bytes = vs_unmanaged_total();
	out->held_bytes = vs_store_bytes();
	out->spilled_bytes = vs_spill_bytes();
	out->managed_away = vs_managed_away(~(vs_tag_set)0);
	out->held_calls = vs_gate_held_total();
	out->held_now = vs_gate_held_now();
	out->holds = vs_gate_holds();
	snprintf(out->prepare, sizeof(out->prepare), "%s",
		 atomic_load(&prepare));
	out->unhooked = vs_driver_unhooked_count(out->unhooked_name,
						 sizeof(out->unhooked_name));
	out->ipc_refused = vs_ipc_refused();
	out->imported_bytes = vs_ipc_bytes(false);
	out->imported_asleep = vs_ipc_bytes(true);
	out->native_imports = vs_ipc_native_opened();
	out->relations_count = vs_ipc_borrowers(out->relations,
						VS_IPC_PEERS);
	out->relations_count +=
		vs_ipc_owners(out->relations + out->relations_count,
			      VS_LEDGER_RELATIONS - out->relations_count);
}

void vs_ledger_read(struct vs_ledger *out)
{
	size_t i;
	int tag;

	memset(out, 0, sizeof(*out));
	add_devices(out);
	vs_lock_take(&ledger_lock);
	out->state = state;
	out->sequence = sequence;
	out->last = last;
	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++)
		add_segment(out, vs_segment_at(i));
	vs_lock_drop(&vs_segment_lock);
	out->tags_count = vs_tag_count();
	for (tag = 0; tag < out->tags_count; tag++)
		sum_tag(out, tag);
	vs_lock_drop(&ledger_lock);
	add_rest(out);	/* holds last: they change before the state does */
}
