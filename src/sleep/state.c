/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/state.h"
#include "sleep/gate.h"
#include "sleep/plan.h"
#include "memory/ipc_import.h"
#include "memory/managed.h"

static vs_tag_set asleep;	/* tags that sleep */
static bool slept_all;		/* put to sleep without a list of tags */

static vs_tag_set known_tags(void)
{
	int count = vs_tag_count();

	return count < VS_TAG_MAX ? ((vs_tag_set)1 << count) - 1 :
				    ~(vs_tag_set)0;
}

bool vs_state_dead(struct vs_why *why)
{
	struct vs_ledger now;

	vs_ledger_read(&now);
	if (now.state != VS_DEAD)
		return false;
	*why = now.last.error;
	why->status = VS_FAILED;
	return true;
}

void vs_state_die(const struct vs_why *why)
{
	vs_ledger_failed(why);
	vs_ledger_enter(VS_DEAD);
	vs_gate_open(VS_HOLD_ASLEEP);
}

bool vs_state_covers(const struct vs_request *request)
{
	if (request->all_tags)
		return slept_all;
	return (asleep & request->tags) == request->tags;
}

bool vs_state_touches(const struct vs_request *request)
{
	return slept_all || asleep & vs_plan_tags(request) ||
	       (!request->own_only && vs_ipc_sleeps(vs_plan_tags(request)));
}

void vs_state_slept(const struct vs_request *request)
{
	asleep |= vs_plan_tags(request) & known_tags();
	slept_all |= request->all_tags;
}

static bool any_evicted(void)
{
	const struct vs_segment *s;
	bool found = false;
	size_t i, k;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; k < s->chunk_count; k++)
			if (s->chunks[k].state == VS_CHUNK_EVICTED)
				found = true;
	}
	vs_lock_drop(&vs_segment_lock);
	return found || vs_managed_asleep(~(vs_tag_set)0);
}

/* A tag without memory, put to sleep with all others, wakes with the last one
 * that has some: else a staged wake would never end the hold. */
void vs_state_woke(const struct vs_request *request)
{
	asleep &= ~vs_plan_tags(request);
	slept_all = false;
	if (!any_evicted())
		asleep = 0;
}

enum vs_state vs_state_settled(void)
{
	int tag, count = vs_tag_count();

	if (slept_all)
		return VS_ASLEEP;
	if (!asleep)
		return vs_ipc_sleeps(~(vs_tag_set)0) ? VS_PARTLY : VS_AWAKE;
	for (tag = 0; tag < count; tag++)
		if (vs_tag_policy(tag) != VS_POLICY_KEEP &&
		    !(asleep >> tag & 1))
			return VS_PARTLY;
	return VS_ASLEEP;
}

vs_tag_set vs_state_asleep(void)
{
	return asleep;
}
