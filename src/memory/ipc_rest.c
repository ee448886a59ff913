/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_borrowed.h"
#include "memory/ipc_import.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/log.h"

#include <stdio.h>

#define PATIENCE 30		/* seconds, of a wake for owners on the move */

void vs_ipc_extend(CUdevice device)
{
	struct vs_import_chunk *c;
	struct vs_import *i;
	struct vs_why why;

	vs_ipc_take_turn();
	for (i = vs_imports; i; i = i->next)
		for (c = i->chunks; i->device == device &&
		     c < i->chunks + i->count; c++)
			if (c->handle &&
			    vs_vmm_access(device, i->base + c->offset, c->size,
					  &why))
				vs_log_warn("no access for another device: %s",
					    why.text);
	vs_ipc_end_turn();
}

static double give_up;		/* when the wake that runs does */

static bool selected(const struct vs_import *i, vs_tag_set tags)
{
	return tags >> i->tag & 1 && vs_tag_policy(i->tag) != VS_POLICY_KEEP;
}

static struct vs_ipc_handle name_of(const struct vs_import *i)
{
	struct vs_ipc_handle handle = i->owner->handle;

	handle.segment = i->segment;
	return handle;
}

static uint64_t unmap_import(struct vs_import *i)
{
	struct vs_ipc_handle handle = name_of(i);
	struct vs_import_chunk *c;
	uint64_t stuck = 0;

	for (c = i->chunks; c < i->chunks + i->count; c++)
		if (c->handle && !vs_borrowed_unmap(i, c))
			stuck += c->size;
	vs_borrowed_return(i->owner, &handle);
	vs_lock_take(&vs_segment_lock);
	i->asleep = true;
	i->lost = 0;
	vs_lock_drop(&vs_segment_lock);
	return stuck;
}

static uint64_t bytes_of(const struct vs_import *i)
{
	uint64_t sum = 0;
	size_t k;

	for (k = 0; k < i->count; k++)
		if (i->chunks[k].handle)
			sum += i->chunks[k].size;
	return sum;
}

/* Why what is unmapped of it could not be had again; or NULL. */
static const char *loss(const struct vs_import *i)
{
	const struct vs_opened *o;

	if (vs_ipc_owner_gone(i->owner) || vs_ipc_owner_ended(i->owner))
		return "ended";
	for (o = vs_opened; o; o = o->next)
		if (o->import == i && o->refs &&
		    vs_ipc_owner_lacks(i->owner, &o->handle))
			return "freed it";
	return NULL;
}

void vs_ipc_sleep(vs_tag_set tags,
		  void (*kept)(void *arg, uint64_t bytes, const char *why),
		  void *arg)
{
	const char *lost;
	struct vs_import *i;
	char text[80];

	vs_ipc_take_turn();
	vs_ipc_settle(true, false);
	for (i = vs_imports; i; i = i->next) {
		if (i->asleep || !selected(i, tags))
			continue;
		if (i->kept_why) {
			kept(arg, bytes_of(i), i->kept_why);
			continue;
		}
		lost = loss(i);
		i->orphan = lost != NULL;
		if (!lost) {
			kept(arg, unmap_import(i),
			     "the driver did not unmap it");
			continue;
		}
		snprintf(text, sizeof(text), "process %d, whose memory it is, "
			 "has %s", (int)i->owner->pid, lost);
		kept(arg, bytes_of(i), text);
	}
	vs_ipc_end_turn();
}

/* It does not answer, but lives: perhaps it is about to end. */
static bool leaves(enum vs_status st, struct vs_ipc_owner *owner)
{
	return st == VS_REFUSED && vs_ipc_owner_gone(owner) &&
	       !vs_ipc_owner_ended(owner);
}

/* One that is on the move will be there soon, unless it waits for us: it is
 * told that we sleep. */
static enum vs_status fetch_patiently(struct vs_opened *o, struct vs_why *why)
{
	struct vs_ipc_owner *owner = o->import->owner;
	enum vs_status st;
	unsigned tries = 0;

	vs_ipc_peer_await(owner->pid);
	for (;;) {
		st = vs_borrow_again(o, why);
		if ((st != VS_BUSY && !leaves(st, owner)) ||
		    vs_lock_now() >= give_up)
			break;
		vs_ipc_pause(tries++);
	}
	vs_ipc_peer_await(0);
	return st;
}

static void tell_lost(struct vs_ipc_owner *owner)
{
	if (!owner->mourned)
		vs_log_warn("process %d has ended, and what this process had "
			    "open of its memory has gone with it: it is zero",
			    (int)owner->pid);
	owner->mourned = true;
}

/* What was lent of it is not used after that. */
static enum vs_status renew(struct vs_opened *o, struct vs_context *context,
			    struct vs_why *why)
{
	struct vs_import *i = o->import;
	uint64_t before = i->lost;
	enum vs_status st;

	if (!context)
		return VS_REFUSED;
	st = vs_borrowed_renew(o, context, why);
	if (!st && i->lost > before)
		tell_lost(i->owner);
	return st;
}

/* In the context that opened it, as when that was done.  True in *@own: what
 * failed is no matter of its owner. */
static enum vs_status fetch_there(struct vs_opened *o, bool *own,
				  struct vs_why *why)
{
	struct vs_context *context = vs_context_pin(o->context);
	struct vs_context_scope scope;
	enum vs_status st;
	bool entered;

	entered = context && !vs_context_enter(context, &scope, NULL);
	st = fetch_patiently(o, why);
	*own = st && vs_ipc_owner_ended(o->import->owner);
	if (*own)
		st = renew(o, entered ? context : NULL, why);
	if (entered)
		vs_context_leave(&scope);
	if (context)
		vs_context_unpin(context);
	return st;
}

/* What its owner has freed is nobody's to use, open or not: its addresses stay
 * without memory. */
static enum vs_status wake_opened(struct vs_opened *o, bool *own,
				  struct vs_why *why)
{
	struct vs_ipc_owner *owner = o->import->owner;
	enum vs_status st = fetch_there(o, own, why);

	if (*own || st != VS_REFUSED || vs_ipc_owner_gone(owner) ||
	    !vs_ipc_owner_lacks(owner, &o->handle))
		return st;
	vs_log_warn("process %d has freed memory that this process still has "
		    "open: %zu bytes are not there any more", (int)owner->pid,
		    o->size);
	return VS_OK;
}

static enum vs_status wake_import(struct vs_import *i, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	struct vs_opened *o;
	bool own = false;

	for (o = vs_opened; !st && o; o = o->next)
		if (o->import == i)
			st = wake_opened(o, &own, why);
	vs_lock_take(&vs_segment_lock);
	i->asleep = false;
	i->woken = true;
	vs_lock_drop(&vs_segment_lock);
	if (!st || (own && st != VS_REFUSED))
		return st;
	if (st == VS_NOMEM)
		return vs_why_set(why, VS_NOMEM, "process %d, whose memory it "
				  "maps, is asleep: wake it first",
				  (int)i->owner->pid);
	if (st == VS_BUSY)
		return vs_why_set(why, VS_BUSY, "process %d, whose memory it "
				  "maps, is busy with it or does not answer",
				  (int)i->owner->pid);
	if (st == VS_REFUSED)
		return vs_why_set(why, VS_REFUSED, "process %d, whose memory "
				  "it had mapped, is out of reach: it cannot "
				  "come back before that has ended",
				  (int)i->owner->pid);
	return st;
}

static void unwake(void)
{
	struct vs_import *i;

	for (i = vs_imports; i; i = i->next) {
		if (i->woken)
			unmap_import(i);
		i->woken = false;
	}
}

enum vs_status vs_ipc_wake(vs_tag_set tags, struct vs_why *why)
{
	enum vs_status st = VS_OK;
	struct vs_import *i;

	vs_ipc_take_turn();
	give_up = vs_lock_now() + PATIENCE;
	vs_ipc_settle(false, true);
	for (i = vs_imports; i; i = i->next)
		i->woken = false;
	for (i = vs_imports; !st && i; i = i->next)
		if (i->asleep && tags >> i->tag & 1)
			st = wake_import(i, why);
	if (st)
		unwake();
	vs_ipc_end_turn();
	return st;
}

void vs_ipc_unwake(void)
{
	vs_ipc_take_turn();
	unwake();
	vs_ipc_end_turn();
}

bool vs_ipc_sleeps(vs_tag_set tags)
{
	struct vs_import *i;

	vs_lock_take(&vs_segment_lock);
	for (i = vs_imports; i; i = i->next)
		if (i->asleep && tags >> i->tag & 1)
			break;
	vs_lock_drop(&vs_segment_lock);
	return i != NULL;
}

bool vs_ipc_awake(vs_tag_set tags)
{
	struct vs_import *i;

	vs_lock_take(&vs_segment_lock);
	for (i = vs_imports; i; i = i->next)
		if (!i->asleep && !i->orphan && !i->kept_why &&
		    selected(i, tags))
			break;
	vs_lock_drop(&vs_segment_lock);
	return i != NULL;
}
