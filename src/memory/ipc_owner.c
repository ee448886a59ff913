/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_owner.h"
#include "memory/ipc_import.h"
#include "base/lock.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS 64	/* owners at the same time */
#define SILENCE 5	/* seconds */
#define TRIES 8		/* of one that breaks, in a quarter of a second */

static struct vs_ipc_owner *owners;
/* Descriptors plus one, so that a forked child finds them: 0 is free. */
static _Atomic int links[LINKS];

static int fd_of(const struct vs_ipc_owner *owner)
{
	return owner->slot < 0 ? -1 : atomic_load(&links[owner->slot]) - 1;
}

/* The program may have closed it, and opened another file meanwhile. */
static bool still_ours(const struct vs_ipc_owner *owner)
{
	struct stat st;

	return owner->slot >= 0 && !fstat(fd_of(owner), &st) &&
	       st.st_dev == owner->dev && st.st_ino == owner->ino;
}

static void hang_up(struct vs_ipc_owner *owner)
{
	int fd = fd_of(owner);

	if (fd < 0)
		return;
	if (still_ours(owner)) {
		/* A forked child may still hold a copy of the descriptor. */
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	atomic_store(&links[owner->slot], 0);
	owner->slot = -1;
}

/* The first that answers has the memory, or nothing is borrowed of it; where it
 * has no number here, it is not to be told from others that end. */
static void note_birth(struct vs_ipc_owner *owner, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (!owner->born.start && !owner->users &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid)
		owner->born = vs_ipc_peer_born(who.pid);
}

static enum vs_status keep_link(struct vs_ipc_owner *owner, int fd,
				struct vs_why *why)
{
	struct stat st;
	int i, none;

	for (i = 0; i < LINKS; i++) {
		none = 0;
		if (fstat(fd, &st) ||
		    !atomic_compare_exchange_strong(&links[i], &none, fd + 1))
			continue;
		owner->slot = i;
		owner->dev = st.st_dev;
		owner->ino = st.st_ino;
		owner->owing = false;
		return VS_OK;
	}
	close(fd);
	return vs_why_set(why, VS_NOHOST, "memory of more than %d processes "
			  "at the same time", LINKS);
}

/* It has said what is not asked for yet, or nothing any more. */
static bool has_spoken(const struct vs_ipc_owner *owner)
{
	struct pollfd one = { .fd = fd_of(owner), .events = POLLIN };

	return poll(&one, 1, 0) > 0;
}

static bool usable(const struct vs_ipc_owner *owner)
{
	return !owner->owing && still_ours(owner) && !has_spoken(owner);
}

static enum vs_status dial(struct vs_ipc_owner *owner, struct vs_why *why)
{
	int fd;

	if (usable(owner))
		return VS_OK;
	hang_up(owner);
	fd = vs_ipc_way->reach(&owner->handle, &owner->pid, why);
	if (fd < 0)
		return why->status;
	note_birth(owner, fd);
	return keep_link(owner, fd, why);
}

/* An answer that comes late ends it. */
static bool silent(const struct vs_ipc_owner *owner)
{
	return owner->silent && vs_lock_now() < owner->silent &&
	       !(owner->owing && still_ours(owner) && has_spoken(owner));
}

/* An answer that comes late is not for the next question. */
static void note(struct vs_ipc_owner *owner, enum vs_status st)
{
	if (st == VS_FAILED)
		hang_up(owner);
	if (st != VS_CANCELLED)
		return;
	owner->owing = true;
	owner->silent = vs_lock_now() + SILENCE;
}

static struct vs_ipc_owner *find(const struct vs_ipc_handle *handle)
{
	struct vs_ipc_owner *o;

	for (o = owners; o; o = o->next)
		if (!memcmp(o->handle.key, handle->key, VS_IPC_KEY))
			break;
	return o;
}

enum vs_status vs_ipc_owner_get(const struct vs_ipc_handle *handle,
				struct vs_ipc_owner **out, struct vs_why *why)
{
	struct vs_ipc_owner *o = find(handle);
	enum vs_status st;

	if (!vs_ipc_way)
		return vs_why_set(why, VS_REFUSED, "vsleep has not started");
	if (o) {
		o->users++;
		*out = o;
		return VS_OK;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return vs_why_set(why, VS_NOHOST, "no memory");
	o->handle = *handle;
	o->pid = handle->pid;
	o->slot = -1;
	st = dial(o, why);
	if (st) {
		free(o);
		return st;
	}
	o->users = 1;
	o->next = owners;
	owners = o;
	*out = o;
	return VS_OK;
}

void vs_ipc_owner_put(struct vs_ipc_owner *owner)
{
	struct vs_ipc_owner **p = &owners;

	if (--owner->users)
		return;
	while (*p != owner)
		p = &(*p)->next;
	*p = owner->next;
	hang_up(owner);
	free(owner);
}

/* A connection that breaks may have been a leftover, or the owner is about to
 * close the place where it is reached: a few times more. */
enum vs_status vs_ipc_owner_borrow(struct vs_ipc_owner *owner,
				   const struct vs_ipc_handle *handle,
				   unsigned first, struct vs_ipc_loan *out,
				   struct vs_why *why)
{
	enum vs_status st = VS_FAILED;
	int tries;

	if (silent(owner))
		return vs_why_set(why, VS_BUSY, "process %d does not answer",
				  (int)owner->pid);
	for (tries = 0; tries < TRIES && st == VS_FAILED; tries++) {
		if (tries > 1)
			vs_ipc_pause((unsigned)tries);
		st = dial(owner, why);
		if (st)
			return st;
		st = vs_ipc_way->borrow(fd_of(owner), handle, first, out, why);
		note(owner, st);
	}
	if (st == VS_CANCELLED) {
		/* What nobody takes is not lent. */
		hang_up(owner);
		return VS_BUSY;
	}
	return st == VS_FAILED ? VS_CUDA : st;
}

/* Who is stopped finds what was sent when it goes on. */
static enum vs_status give_back(struct vs_ipc_owner *owner,
				const struct vs_ipc_handle *handle,
				uint64_t from, uint64_t to)
{
	enum vs_status st = VS_FAILED;
	bool wait = !silent(owner);
	struct vs_why why;
	int tries;

	for (tries = 0; tries < 2 && st == VS_FAILED; tries++) {
		st = dial(owner, &why);
		if (st)
			return st;
		st = vs_ipc_way->give_back(fd_of(owner), handle, from, to,
					   wait, &why);
		note(owner, st);
	}
	if (!wait)
		owner->owing = true;
	return st;
}

void vs_ipc_owner_give_back(struct vs_ipc_owner *owner,
			    const struct vs_ipc_handle *handle, uint64_t from,
			    uint64_t to)
{
	give_back(owner, handle, from, to);
}

bool vs_ipc_owner_gone(struct vs_ipc_owner *owner)
{
	/* Another process with its number does not know the key. */
	return !usable(owner) &&
	       give_back(owner, &owner->handle, 0, 0) == VS_REFUSED;
}

bool vs_ipc_owner_ended(struct vs_ipc_owner *owner)
{
	if (!owner->born.start)
		return vs_ipc_owner_gone(owner);
	return !vs_ipc_peer_same(owner->born, vs_ipc_peer_born(owner->pid));
}

bool vs_ipc_owner_lacks(struct vs_ipc_owner *owner,
			const struct vs_ipc_handle *handle)
{
	struct vs_ipc_loan loan = { .count = 0 };
	enum vs_status st;
	struct vs_why why;

	/* There are no so many chunks: nothing is lent. */
	st = vs_ipc_owner_borrow(owner, handle, UINT32_MAX, &loan, &why);
	vs_ipc_close_parts(&loan);
	return st == VS_REFUSED;
}

void vs_ipc_owner_forget(void)
{
	int i, fd;

	for (i = 0; i < LINKS; i++) {
		fd = atomic_exchange(&links[i], 0) - 1;
		if (fd >= 0)
			close(fd);
	}
}
