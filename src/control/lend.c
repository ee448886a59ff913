/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/lend.h"

#include "memory/ipc_lender.h"

#include <string.h>
#include <sys/socket.h>

_Static_assert(VS_IPC_PARTS <= VS_PASS_MAX, "a message takes them all");

void vs_lend_begin(struct vs_lending *lending, int socket)
{
	lending->socket = socket;
	lending->peer = NULL;
	lending->count = 0;
}

/* Nobody has what was not sent.  With another connection it may have been sent
 * there since. */
static void take_back_unsent(struct vs_lending *lending)
{
	struct vs_why why;
	unsigned i;

	if (!lending->peer || !vs_ipc_peer_only(lending->peer))
		return;
	for (i = 0; i < lending->count; i++)
		if (lending->offsets[i] != UINT64_MAX)
			vs_ipc_take_back(lending->peer, &lending->handle,
					 lending->offsets[i],
					 lending->offsets[i] + 1, &why);
}

void vs_lend_end(struct vs_lending *lending)
{
	take_back_unsent(lending);
	if (lending->peer)
		vs_ipc_peer_end(lending->peer);
	lending->peer = NULL;
	while (lending->count)
		vs_ipc_close_fd(lending->fds[--lending->count]);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_key(const char *text, unsigned char *out)
{
	int i;

	if (!text || strlen(text) != 2 * VS_IPC_KEY)
		return false;
	for (i = 0; i < 2 * VS_IPC_KEY; i++)
		if (digit(text[i]) < 0)
			return false;
	for (i = 0; i < VS_IPC_KEY; i++)
		out[i] = (unsigned char)(digit(text[2 * i]) << 4 |
					 digit(text[2 * i + 1]));
	return true;
}

static bool read_number(const char *text, uint64_t *out)
{
	uint64_t number = 0;
	int i;

	if (!text)
		return false;
	for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 19; i++)
		number = number * 10 + (uint64_t)(text[i] - '0');
	*out = number;
	return i && !text[i];
}

static void bad(struct vs_text *answer, const char *keys)
{
	vs_reply_error(answer, "bad-request", "it takes key=, 32 digits of "
		       "base 16, and the numbers %s", keys);
}

/* Who is at the other end, once it asks for memory. */
static bool know(struct vs_lending *lending)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (!lending)
		return false;
	if (!lending->peer &&
	    !getsockopt(lending->socket, SOL_SOCKET, SO_PEERCRED, &who, &len))
		lending->peer = vs_ipc_peer_begin(who.pid);
	return lending->peer != NULL;
}

static void keep(struct vs_lending *lending, const struct vs_ipc_part *part)
{
	lending->fds[lending->count] = part->fd;
	lending->offsets[lending->count] = part->fresh ? part->offset :
							 UINT64_MAX;
}

void vs_lend_answer(struct vs_lending *lending,
		    const struct vs_lend_words *words, struct vs_text *answer)
{
	struct vs_ipc_handle handle = { .pid = 0 };
	struct vs_why why = { 0 };
	struct vs_ipc_loan loan;
	enum vs_status st;
	uint64_t first;

	if (!read_key(words->key, handle.key) ||
	    !read_number(words->segment, &handle.segment) ||
	    !read_number(words->offset, &handle.offset) ||
	    !read_number(words->allocation, &handle.block) ||
	    !read_number(words->first, &first) || first > UINT32_MAX) {
		bad(answer, "segment, offset, allocation and first");
		return;
	}
	if (!know(lending)) {
		vs_reply_error(answer, vs_why_word(VS_NOHOST), "memory is "
			       "lent to %d processes already", VS_IPC_PEERS);
		return;
	}
	st = vs_ipc_lender_ask(lending->peer, &handle, (unsigned)first, &loan,
			       &why);
	if (st) {
		vs_reply_error(answer, vs_why_word(st), "%s", why.text);
		return;
	}
	vs_reply_lent(answer, &loan);
	lending->handle = handle;
	for (; lending->count < loan.count; lending->count++)
		keep(lending, &loan.parts[lending->count]);
}

void vs_lend_return(struct vs_lending *lending,
		    const struct vs_lend_words *words, struct vs_text *answer)
{
	struct vs_ipc_handle handle = { .pid = 0 };
	struct vs_why why = { 0 };
	uint64_t from, to;
	enum vs_status st;

	if (!read_key(words->key, handle.key) ||
	    !read_number(words->segment, &handle.segment) ||
	    !read_number(words->from, &from) || !read_number(words->to, &to)) {
		bad(answer, "segment, from and to");
		return;
	}
	if (!know(lending)) {
		vs_reply_error(answer, vs_why_word(VS_NOHOST), "memory is "
			       "lent to %d processes already", VS_IPC_PEERS);
		return;
	}
	st = vs_ipc_take_back(lending->peer, &handle, from, to, &why);
	vs_ipc_lender_forget(lending->peer);
	if (st)
		vs_reply_error(answer, vs_why_word(st), "%s", why.text);
	else
		vs_reply_add(answer, "status=ok\n\n");
}
