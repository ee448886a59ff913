/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger - the bytes that replies state.
 *
 * resident + evicted add up to what the segments hold; everything is counted
 * in physical bytes (multiples of the granularity) except live_bytes, which
 * is what the program asked for.
 */
#ifndef VS_SLEEP_LEDGER_H
#define VS_SLEEP_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tag.h"
#include "base/why.h"
#include "memory/ipc.h"
#include "memory/unmanaged.h"

enum vs_state {
	VS_AWAKE,
	VS_DRAINING,
	VS_SLEEPING,
	VS_ASLEEP,
	VS_WAKING,
	VS_PARTLY,	/* only some tags sleep; the word is "partial" */
	VS_DEAD,	/* the word is "failed" */
};

struct vs_ledger_tag {
	int tag;
	enum vs_policy policy;
	enum vs_state state;	/* AWAKE, ASLEEP or PARTLY */
	uint64_t allocations;
	uint64_t live_bytes;
	uint64_t resident_bytes;
	uint64_t evicted_bytes;
	uint64_t host_bytes;	/* backed up in host memory */
	uint64_t retained_bytes;	/* host memory that backups of what is
					   awake hold */
	uint64_t lost_bytes;	/* content dropped by the last sleep */
};

/* Bytes that stayed, by why; what is not policy comes first. */
#define VS_KEPT_MAX 8
struct vs_ledger_kept {
	uint64_t bytes;
	char why[96];
};

/* A device that the process has a context on. */
#define VS_LEDGER_DEVICES 32
struct vs_ledger_device {
	int device;		/* the process's own number */
	char uuid[48];
	char bus[24];
	bool vmm;		/* its memory can be managed, as far as known */
	int contexts;
	uint64_t resident_bytes;
	uint64_t evicted_bytes;
};

/* Processes that memory is shared with. */
#define VS_LEDGER_RELATIONS 96

/* What the last completed sleep or wake did. */
struct vs_ledger_last {
	uint64_t released_bytes;	/* sleep: went back to the device */
	uint64_t restored_bytes;	/* wake: came back */
	uint64_t kept_bytes;		/* stayed; the sum of kept */
	struct vs_ledger_kept kept[VS_KEPT_MAX];	/* 0 bytes: no more */
	uint64_t copied_bytes;
	uint64_t unchanged_bytes;	/* sleep: the backup had them already */
	uint64_t zero_bytes;		/* sleep: not copied, since all zero */
	uint64_t pageable_bytes;	/* backed up without pinning */
	uint64_t lost_bytes;		/* sleep: content dropped */
	uint64_t verified_bytes;	/* wake: found as they went to sleep */
	uint64_t unverified_bytes;	/* wake: asked for, but not known */
	double seconds;			/* the whole operation */
	double drain_seconds;		/* of it, until at rest */
	struct vs_why error;		/* of the last one that failed */
};

struct vs_ledger {
	enum vs_state state;
	uint64_t sequence;	/* grows by one with each completed change */
	uint64_t allocations;
	uint64_t live_bytes;
	uint64_t resident_bytes;
	uint64_t evicted_bytes;
	uint64_t host_bytes;
	uint64_t held_bytes;	/* host memory that all backups hold */
	uint64_t retained_bytes;
	uint64_t spilled_bytes;	/* backups in VSLEEP_SPILL_DIR */
	uint64_t unmanaged_bytes;
	uint64_t unmanaged[VS_UNMANAGED_KINDS];
	uint64_t managed_away;	/* of managed memory: left the devices */
	uint64_t held_calls;	/* calls that have waited at the gate */
	unsigned held_now;
	unsigned holds;		/* enum vs_gate_hold bits */
	char prepare[8];	/* "off", "idle", "running" or "done" */
	uint64_t unhooked;	/* pointers handed out that we do not know */
	char unhooked_name[64];
	bool ipc_refused;
	uint64_t imported_bytes;	/* of other processes, mapped here */
	uint64_t imported_asleep;	/* likewise, but not mapped now */
	uint64_t native_imports;	/* the driver's own handles, opened */
	int relations_count;
	struct vs_ipc_relation relations[VS_LEDGER_RELATIONS];
	struct vs_ledger_last last;
	int tags_count;
	struct vs_ledger_tag tags[VS_TAG_MAX];
	int devices_count;
	struct vs_ledger_device devices[VS_LEDGER_DEVICES];
};

void vs_ledger_read(struct vs_ledger *out);

/* For the operation thread alone: a state on the way; a completed change;
 * bytes of a tag whose content the last sleep dropped. */
void vs_ledger_enter(enum vs_state now);
void vs_ledger_commit(enum vs_state now, vs_tag_set sleeping,
		      const struct vs_ledger_last *result);
void vs_ledger_lost(int tag, uint64_t bytes);

/* What prepare does now, a constant. */
void vs_ledger_prepare(const char *word);

/* A request failed, or what a signal asked for; from any thread. */
void vs_ledger_failed(const struct vs_why *why);

/* Count @bytes as kept for @why; @wish: somebody asked for it. */
void vs_ledger_keep(struct vs_ledger_last *last, uint64_t bytes,
		    const char *why, bool wish);

const char *vs_ledger_state_word(enum vs_state state);

#endif
