/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ipc_fixture.h"

#include "base/device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct vs_ipc_peer *ipc_peer;
int ipc_broken;
enum vs_status ipc_answer;
bool ipc_mute;
int ipc_asked;
int ipc_lives = -1;
int ipc_nonsense;
CUdeviceptr ipc_base;
CUipcMemHandle ipc_handle;

void ipc_turn_key(struct vs_ipc_handle *h)
{
	int i;

	for (i = 0; i < VS_IPC_KEY; i++)
		h->key[i] ^= 0xff;
}

static int reach(const struct vs_ipc_handle *h, pid_t *pid,
		 struct vs_why *why)
{
	int ends[2];

	(void)h;
	if (!ipc_lives) {
		vs_why_set(why, VS_REFUSED, "the owner has ended");
		return -1;
	}
	if (pipe(ends)) {
		vs_why_set(why, VS_REFUSED, "%s", strerror(errno));
		return -1;
	}
	*pid = getpid();
	if (!ipc_peer)
		ipc_peer = vs_ipc_peer_begin(getpid());
	/* Nobody reads it: only its end would be seen. */
	fcntl(ends[1], F_SETFD, FD_CLOEXEC);
	return ends[0];
}

static void spoil(struct vs_ipc_loan *out)
{
	if (ipc_nonsense == 1)
		out->segment_size = out->size - 1;
	if (ipc_nonsense == 2)
		out->size = UINT64_MAX;
	if (ipc_nonsense == 3)
		out->parts[0].offset = UINT64_MAX;
	if (ipc_nonsense == 4)
		strcpy(out->device, "GPU-none");
}

static enum vs_status borrow(int link, const struct vs_ipc_handle *h,
			     unsigned first, struct vs_ipc_loan *out,
			     struct vs_why *why)
{
	struct vs_ipc_handle right = *h;
	enum vs_status st;

	(void)link;
	ipc_asked++;
	if (!ipc_lives)
		return vs_why_set(why, VS_FAILED, "the owner has ended");
	if (ipc_lives > 0)
		ipc_lives--;
	if (ipc_mute)
		return vs_why_set(why, VS_CANCELLED, "mute");
	if (ipc_broken && ipc_broken--)
		return vs_why_set(why, VS_FAILED, "broken");
	if (ipc_answer)
		return vs_why_set(why, ipc_answer, "as the test wants it");
	ipc_turn_key(&right);
	st = vs_ipc_lend(ipc_peer, &right, first, out, why);
	if (!st)
		spoil(out);
	return st;
}

static enum vs_status give_back(int link, const struct vs_ipc_handle *h,
				uint64_t from, uint64_t to, bool wait,
				struct vs_why *why)
{
	struct vs_ipc_handle right = *h;
	enum vs_status st;

	(void)link;
	ipc_asked += wait;
	if (!ipc_lives)
		return vs_why_set(why, VS_FAILED, "the owner has ended");
	if (ipc_broken && ipc_broken--)
		return vs_why_set(why, VS_FAILED, "broken");
	ipc_turn_key(&right);
	st = vs_ipc_take_back(ipc_peer, &right, from, to, why);
	return wait && ipc_mute ? vs_why_set(why, VS_CANCELLED, "mute") : st;
}

static const struct vs_ipc_way way = { reach, borrow, give_back };

CUipcMemHandle ipc_handle_of(CUdeviceptr address)
{
	struct vs_ipc_handle ours;
	CUipcMemHandle out;

	ck_ok(vs_ipc_get(&out, address));
	memcpy(&ours, &out, sizeof(ours));
	ipc_turn_key(&ours);
	memcpy(&out, &ours, sizeof(out));
	return out;
}

CUdeviceptr ipc_made(size_t size, CUipcMemHandle *handle)
{
	CUdeviceptr base = fixture_alloc("default", size);

	*handle = ipc_handle_of(base);
	return base;
}

void ipc_start(void)
{
	fixture_start("default", "held=keep");
	vs_device_note(0);
	vs_ipc_way = &way;
	ipc_base = fixture_alloc("default", LARGE);
	ipc_handle = ipc_handle_of(ipc_base + 5);
}

size_t ipc_lent(void)
{
	struct vs_segment *s;
	size_t i, k, sum = 0;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; k < s->chunk_count; k++)
			sum += s->chunks[k].lent;
	}
	vs_lock_drop(&vs_segment_lock);
	return sum;
}

CUdeviceptr ipc_opened(const CUipcMemHandle *what)
{
	CUdeviceptr at;

	ck_ok(vs_ipc_open(&at, what, 1));
	return at;
}

void ipc_closed(CUdeviceptr at)
{
	CUresult rc;

	ck_assert(vs_ipc_close(at, &rc));
	ck_ok(rc);
}

void ipc_same(CUdeviceptr a, CUdeviceptr b, size_t size)
{
	ck_assert(!memcmp((void *)(uintptr_t)a, (void *)(uintptr_t)b, size));
}

static void kept(void *arg, uint64_t bytes, const char *why)
{
	(void)why;
	*(uint64_t *)arg += bytes;
}

uint64_t ipc_unmap_all(void)
{
	uint64_t stuck = 0;

	vs_ipc_sleep(ALL, kept, &stuck);
	return stuck;
}
