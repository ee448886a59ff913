/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_peer.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A chunk that a peer has. */
struct loan {
	uint64_t segment;
	uint64_t offset;
};

struct vs_ipc_peer {
	pid_t pid;
	struct vs_ipc_birth born;
	unsigned connections;
	struct loan *loans;
	size_t count, room;
	struct vs_ipc_peer *next;
};

static struct vs_ipc_peer *peers;	/* under vs_segment_lock */
static unsigned peer_count;		/* likewise */
static _Atomic pid_t awaited;

struct vs_ipc_birth vs_ipc_peer_born(pid_t pid)
{
	char path[32], text[512], state = 'X';
	struct vs_ipc_birth birth = { 0, 0 };
	const char *rest;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return birth;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return birth;
	text[len] = '\0';
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
			    "%*u %*u %*u %*d %*d %*d %*d %*d %*d %llu %*u %*d "
			    "%*u %*u %*u %llu", &state, &birth.start,
			    &birth.stack) != 3 || state == 'Z' || state == 'X')
		birth.start = 0;
	return birth;
}

bool vs_ipc_peer_same(struct vs_ipc_birth a, struct vs_ipc_birth b)
{
	return a.start && a.start == b.start &&
	       (a.stack == b.stack || !a.stack || !b.stack);
}

struct vs_segment *vs_ipc_peer_segment(uint64_t id)
{
	struct vs_segment *s;
	size_t i;

	for (i = 0; id && i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (s->lend_id == id)
			return s;
	}
	return NULL;
}

static struct vs_chunk *find_chunk(struct vs_segment *s, uint64_t offset)
{
	struct vs_chunk *c;

	for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
		if (c->offset == offset)
			return c;
	return NULL;
}

/* Lock held.  What the segment was part of may be gone. */
static void drop_loan(struct vs_ipc_peer *peer, size_t index)
{
	struct loan *loan = &peer->loans[index];
	struct vs_segment *s = vs_ipc_peer_segment(loan->segment);
	struct vs_chunk *c = s ? find_chunk(s, loan->offset) : NULL;

	if (c && c->lent)
		c->lent--;
	*loan = peer->loans[--peer->count];
}

/* Lock held. */
static void drop_peer(struct vs_ipc_peer *peer)
{
	struct vs_ipc_peer **p = &peers;

	while (peer->count)
		drop_loan(peer, peer->count - 1);
	while (*p != peer)
		p = &(*p)->next;
	*p = peer->next;
	peer_count--;
	free(peer->loans);
	free(peer);
}

/* Its earlier connection broke, or is about to: it is the same borrower. */
static struct vs_ipc_peer *find(pid_t pid, struct vs_ipc_birth birth)
{
	struct vs_ipc_peer *p;

	for (p = peers; p; p = p->next)
		if (p->pid == pid && vs_ipc_peer_same(p->born, birth))
			return p;
	return NULL;
}

struct vs_ipc_peer *vs_ipc_peer_begin(pid_t pid)
{
	struct vs_ipc_birth birth = vs_ipc_peer_born(pid);
	struct vs_ipc_peer *fresh = calloc(1, sizeof(*fresh)), *peer;

	vs_ipc_forget_dead();
	vs_lock_take(&vs_segment_lock);
	peer = find(pid, birth);
	if (!peer && fresh && peer_count < VS_IPC_PEERS) {
		peer = fresh;
		fresh = NULL;
		peer->pid = pid;
		peer->born = birth;
		peer->next = peers;
		peers = peer;
		peer_count++;
	}
	if (peer)
		peer->connections++;
	vs_lock_drop(&vs_segment_lock);
	free(fresh);
	return peer;
}

bool vs_ipc_peer_only(struct vs_ipc_peer *peer)
{
	bool only;

	vs_lock_take(&vs_segment_lock);
	only = peer->connections == 1;
	vs_lock_drop(&vs_segment_lock);
	return only;
}

void vs_ipc_peer_hold(struct vs_ipc_peer *peer)
{
	vs_lock_take(&vs_segment_lock);
	peer->connections++;
	vs_lock_drop(&vs_segment_lock);
}

void vs_ipc_peer_end(struct vs_ipc_peer *peer)
{
	vs_lock_take(&vs_segment_lock);
	peer->connections--;
	vs_lock_drop(&vs_segment_lock);
	vs_ipc_forget_dead();
}

void vs_ipc_forget_dead(void)
{
	struct vs_ipc_peer *p, *next;

	vs_lock_take(&vs_segment_lock);
	for (p = peers; p; p = next) {
		next = p->next;
		if (!p->connections &&
		    (!p->count ||
		     !vs_ipc_peer_same(p->born, vs_ipc_peer_born(p->pid))))
			drop_peer(p);
	}
	vs_lock_drop(&vs_segment_lock);
}

static bool has_loan(const struct vs_ipc_peer *peer, uint64_t segment,
		     uint64_t offset)
{
	size_t i;

	for (i = 0; i < peer->count; i++)
		if (peer->loans[i].segment == segment &&
		    peer->loans[i].offset == offset)
			return true;
	return false;
}

bool vs_ipc_peer_add(struct vs_ipc_peer *peer, const struct vs_segment *s,
		     struct vs_chunk *c, bool *fresh)
{
	struct loan *grown;
	size_t room = peer->room ? peer->room * 2 : 16;

	*fresh = false;
	if (has_loan(peer, s->lend_id, c->offset))
		return true;
	if (peer->count == peer->room) {
		grown = realloc(peer->loans, room * sizeof(*grown));
		if (!grown)
			return false;
		peer->loans = grown;
		peer->room = room;
	}
	peer->loans[peer->count++] = (struct loan){ s->lend_id, c->offset };
	c->lent++;
	*fresh = true;
	return true;
}

void vs_ipc_peer_drop(struct vs_ipc_peer *peer, uint64_t segment,
		      uint64_t from, uint64_t to)
{
	size_t i;

	for (i = peer->count; i-- > 0;)
		if (peer->loans[i].segment == segment &&
		    peer->loans[i].offset >= from &&
		    peer->loans[i].offset < to)
			drop_loan(peer, i);
}

void vs_ipc_peer_await(pid_t owner)
{
	atomic_store(&awaited, owner);
}

bool vs_ipc_peer_awaited(const struct vs_ipc_peer *peer)
{
	return peer->pid == atomic_load(&awaited);
}

const char *vs_ipc_mapped_by(const struct vs_segment *segment,
			     const struct vs_chunk *chunk)
{
	static char text[64];	/* under vs_segment_lock */
	struct vs_ipc_peer *p;

	if (!chunk->lent)
		return NULL;
	for (p = peers; p; p = p->next)
		if (has_loan(p, segment->lend_id, chunk->offset))
			break;
	snprintf(text, sizeof(text), "mapped by process %d",
		 p ? (int)p->pid : 0);
	return text;
}

int vs_ipc_borrowers(struct vs_ipc_relation *out, int max)
{
	struct vs_ipc_peer *p;
	struct vs_segment *s;
	struct vs_chunk *c;
	int count = 0;
	size_t i;

	vs_ipc_forget_dead();
	vs_lock_take(&vs_segment_lock);
	for (p = peers; p && count < max; p = p->next, count++) {
		out[count] = (struct vs_ipc_relation){ .pid = p->pid };
		for (i = 0; i < p->count; i++) {
			s = vs_ipc_peer_segment(p->loans[i].segment);
			c = s ? find_chunk(s, p->loans[i].offset) : NULL;
			if (c)
				out[count].bytes += c->size;
		}
	}
	vs_lock_drop(&vs_segment_lock);
	return count;
}
