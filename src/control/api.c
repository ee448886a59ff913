/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/api.h"

#include "base/config.h"
#include "base/driver.h"
#include "base/tag.h"
#include "control/command.h"
#include "memory/capture.h"
#include "memory/segment.h"
#include "sleep/callback.h"
#include "sleep/gate.h"
#include "sleep/operation.h"

#define VSLEEP_LIBRARY
#include <vsleep.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FOREVER 1e9		/* seconds: a job ends by itself */
#define DAY 86400.0		/* seconds */
#define ABSENT "vsleep is switched off here, or this is a forked child"

/* The oldest form of the reply; no sane one is larger than the other. */
#define REPLY_MIN (offsetof(struct vsleep_reply, message) + 256)
#define REPLY_MAX 65536

_Static_assert((int)VSLEEP_OK == VS_OK && (int)VSLEEP_PARTIAL == VS_PARTIAL &&
	       (int)VSLEEP_BUSY == VS_BUSY &&
	       (int)VSLEEP_NO_MEMORY == VS_NOMEM &&
	       (int)VSLEEP_NO_HOST == VS_NOHOST &&
	       (int)VSLEEP_REFUSED == VS_REFUSED &&
	       (int)VSLEEP_CANCELLED == VS_CANCELLED &&
	       (int)VSLEEP_CUDA == VS_CUDA && (int)VSLEEP_FAILED == VS_FAILED,
	       "results are the library's statuses");
_Static_assert((int)VSLEEP_AWAKE == VS_AWAKE &&
	       (int)VSLEEP_DRAINING == VS_DRAINING &&
	       (int)VSLEEP_SLEEPING == VS_SLEEPING &&
	       (int)VSLEEP_ASLEEP == VS_ASLEEP &&
	       (int)VSLEEP_WAKING == VS_WAKING &&
	       (int)VSLEEP_PARTLY == VS_PARTLY && (int)VSLEEP_LOST == VS_DEAD,
	       "states are the ledger's");
_Static_assert((int)VSLEEP_OFFLOAD == VS_POLICY_OFFLOAD &&
	       (int)VSLEEP_DISCARD == VS_POLICY_DISCARD &&
	       (int)VSLEEP_KEEP == VS_POLICY_KEEP, "policies are the tags'");

bool (*vs_api_prepare)(void);

/* The value of a call, with errno as it was before. */
#define KEEPING_ERRNO(call)						\
	__extension__ ({						\
		int saved_ = errno;					\
		__typeof__(call) value_ = (call);			\
									\
		errno = saved_;						\
		value_;							\
	})

static bool present(void)
{
	if (!vs_gate_cold())
		return vs_gate_mine();
	return vs_api_prepare && vs_api_prepare();
}

static bool good_size(const struct vsleep_reply *out)
{
	return !out || (out->size >= REPLY_MIN && out->size <= REPLY_MAX);
}

static void fill(struct vsleep_reply *out, const struct vs_ledger *ledger,
		 const char *message)
{
	struct vsleep_reply full = {
		.size = out->size,
		.state = (int)ledger->state,
		.held = ledger->holds != 0,
		.sequence = ledger->sequence,
		.released = ledger->last.released_bytes,
		.restored = ledger->last.restored_bytes,
		.copied = ledger->last.copied_bytes,
		.kept = ledger->last.kept_bytes,
		.lost = ledger->last.lost_bytes,
		.unmanaged = ledger->unmanaged_bytes,
		.resident = ledger->resident_bytes,
		.evicted = ledger->evicted_bytes,
		.backed_up = ledger->host_bytes,
		.seconds = ledger->last.seconds,
	};

	snprintf(full.message, sizeof(full.message), "%s", message);
	memcpy(out, &full, out->size < sizeof(full) ? out->size : sizeof(full));
}

/* Where the library has not started, or not in this process, its locks may be
 * anybody's: there is nothing to be told either. */
static int answer(struct vsleep_reply *out, int code, const char *message)
{
	struct vs_reply now = { 0 };

	if (!out)
		return code;
	if (vs_gate_mine())
		vs_operation_status(&now);
	fill(out, &now.ledger, message);
	return code;
}

/* Functions that the driver calls in a stream's order may not call it. */
static bool in_host_function(void)
{
	CUcontext context;

	return vs_real.cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_PERMITTED;
}

/* Zero, or what the call returns; @bad is filled when an argument is wrong. */
static int refuse(struct vsleep_reply *out, const struct vs_why *bad)
{
	if (!present())
		return answer(out, VSLEEP_NOT_PRESENT, ABSENT);
	if (bad->status)
		return answer(out, VSLEEP_INVALID, bad->text);
	if (!vs_operation_started())
		return answer(out, VSLEEP_NOT_PRESENT, "no CUDA context yet");
	if (vs_operation_is_self())
		return answer(out, VSLEEP_BUSY, "called from a callback of "
			      "vsleep, whose end is waited for");
	if (in_host_function())
		return answer(out, VSLEEP_BUSY, "called from a function that "
			      "a stream waits for");
	if (vs_capture_mine())
		return answer(out, VSLEEP_BUSY, "this thread has begun a "
			      "capture of a stream: end it first");
	return VSLEEP_OK;
}

static int ask(const struct vs_request *request, const struct vs_why *bad,
	       struct vsleep_reply *out)
{
	int rc = refuse(out, bad);
	struct vs_reply reply;

	if (rc)
		return rc;
	vs_operation_run(request, FOREVER, &reply);
	if (out)
		fill(out, &reply.ledger, reply.status ? reply.why.text : "");
	return (int)reply.status;
}

/* Of sleep and pause.  NaN is no timeout; and none is too short for an idle
 * device to say that it is. */
static enum vs_status read_timeout(double timeout, struct vs_request *request,
				   struct vs_why *bad)
{
	if (timeout < 0)
		return VS_OK;
	if (!(timeout <= DAY))
		return vs_why_set(bad, VS_REFUSED, "timeout=%g: must be at "
				  "most %.0f seconds, or negative for "
				  "VSLEEP_TIMEOUT", timeout, DAY);
	request->timeout_ms = (unsigned)(timeout * 1000);
	if (!request->timeout_ms)
		request->timeout_ms = 1;
	return VS_OK;
}

static enum vs_status read_wait(double wait, struct vs_request *request,
				struct vs_why *bad)
{
	if (!(wait >= 0 && wait <= DAY))
		return vs_why_set(bad, VS_REFUSED, "wait=%g: must be 0 to "
				  "%.0f seconds", wait, DAY);
	request->wait_ms = (unsigned)(wait * 1000);
	return VS_OK;
}

static enum vs_status read_flags(unsigned flags, unsigned known,
				 struct vs_why *bad)
{
	if (flags & ~known)
		return vs_why_set(bad, VS_REFUSED, "flags=0x%x: only those of "
				  "0x%x are known here", flags, known);
	return VS_OK;
}

static enum vs_status read_tags(const char *tags, struct vs_request *request,
				struct vs_why *bad)
{
	if (!tags)
		return VS_OK;
	request->all_tags = false;
	/* The settings may name tags, so they are read first. */
	return present() ? vs_tag_parse_set(tags, &request->tags, bad) : VS_OK;
}

static int do_sleep(int level, const char *tags, unsigned flags,
		    double timeout, struct vsleep_reply *out)
{
	struct vs_why bad = { .status = VS_OK };
	struct vs_request request;

	if (!good_size(out))
		return VSLEEP_INVALID;
	vs_command_preset(VS_VERB_SLEEP, &request);
	request.level = level;
	request.hold = flags & VSLEEP_HOLD ? VS_YES : VS_NO;
	request.discard_all = flags & VSLEEP_DISCARD_ALL;
	request.force = flags & VSLEEP_FORCE;
	if (level != 1 && level != 2)
		vs_why_set(&bad, VS_REFUSED, "level=%d: must be 1 or 2", level);
	else if (!read_flags(flags, VSLEEP_HOLD | VSLEEP_DISCARD_ALL |
			     VSLEEP_FORCE, &bad) &&
		 !read_timeout(timeout, &request, &bad))
		read_tags(tags, &request, &bad);
	return ask(&request, &bad, out);
}

static int do_wake(const char *tags, unsigned flags, double wait,
		   struct vsleep_reply *out)
{
	struct vs_why bad = { .status = VS_OK };
	struct vs_request request;

	if (!good_size(out))
		return VSLEEP_INVALID;
	vs_command_preset(VS_VERB_WAKE, &request);
	request.hold = flags & VSLEEP_NO_HOLD ? VS_NO : VS_DEFAULT;
	if (!read_flags(flags, VSLEEP_NO_HOLD, &bad) &&
	    !read_wait(wait, &request, &bad))
		read_tags(tags, &request, &bad);
	return ask(&request, &bad, out);
}

static int do_pause(double timeout, struct vsleep_reply *out)
{
	struct vs_why bad = { .status = VS_OK };
	struct vs_request request;

	if (!good_size(out))
		return VSLEEP_INVALID;
	vs_command_preset(VS_VERB_PAUSE, &request);
	read_timeout(timeout, &request, &bad);
	return ask(&request, &bad, out);
}

static int do_resume(struct vsleep_reply *out)
{
	static const struct vs_why fine = { .status = VS_OK };
	int rc;

	if (!good_size(out))
		return VSLEEP_INVALID;
	rc = refuse(out, &fine);
	if (rc)
		return rc;
	vs_operation_resume();
	return answer(out, VSLEEP_OK, "");
}

static int do_status(struct vsleep_reply *out)
{
	if (!good_size(out))
		return VSLEEP_INVALID;
	return present() ? answer(out, VSLEEP_OK, "") :
			   answer(out, VSLEEP_NOT_PRESENT, ABSENT);
}

int vsleep_sleep(int level, const char *tags, unsigned flags, double timeout,
		 struct vsleep_reply *reply)
{
	return KEEPING_ERRNO(do_sleep(level, tags, flags, timeout, reply));
}

int vsleep_wake(const char *tags, unsigned flags, double wait,
		struct vsleep_reply *reply)
{
	return KEEPING_ERRNO(do_wake(tags, flags, wait, reply));
}

int vsleep_pause(double timeout, struct vsleep_reply *reply)
{
	return KEEPING_ERRNO(do_pause(timeout, reply));
}

int vsleep_resume(struct vsleep_reply *reply)
{
	return KEEPING_ERRNO(do_resume(reply));
}

int vsleep_status(struct vsleep_reply *reply)
{
	return KEEPING_ERRNO(do_status(reply));
}

int vsleep_present(void)
{
	return KEEPING_ERRNO(present());
}

const char *vsleep_version(void)
{
	return vsleep_present() ? PACKAGE_VERSION : "";
}

/* What a function that answers with a status alone returns. */
static int simple(bool valid)
{
	if (!present())
		return VSLEEP_NOT_PRESENT;
	return valid ? VSLEEP_OK : VSLEEP_INVALID;
}

static int push(const char *name)
{
	int rc = simple(name && (!*name || vs_tag_valid(name)));

	return rc ? rc : (int)vs_tag_push(name, NULL);
}

static int pop(void)
{
	int rc = simple(true);

	return rc ? rc : (int)vs_tag_pop(NULL);
}

static int set(const char *name)
{
	int rc = simple(!name || vs_tag_valid(name));

	return rc ? rc : (int)vs_tag_mark(name, NULL);
}

static const char *tag_of(uint64_t address)
{
	const char *name = NULL;
	struct vs_block *block;

	if (!present())
		return NULL;
	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find_inside((CUdeviceptr)address);
	if (block)
		name = vs_tag_name(block->segment->tag);
	vs_lock_drop(&vs_segment_lock);
	return name;
}

static int get_policy(const char *tag)
{
	int rc = simple(tag && vs_tag_valid(tag)), known;

	if (rc)
		return rc < 0 ? rc : -rc;
	known = vs_tag_find(tag);
	return known < 0 ? -VSLEEP_REFUSED : (int)vs_tag_policy(known);
}

static int set_policy(const char *tag, int policy)
{
	int rc = simple(tag && vs_tag_valid(tag) &&
			policy >= VSLEEP_OFFLOAD && policy <= VSLEEP_KEEP);

	return rc ? rc : (int)vs_tag_set_policy(tag, (enum vs_policy)policy,
						NULL);
}

static int add(vs_callback_fn *before, vs_callback_fn *after, void *arg)
{
	int rc = simple(before || after);

	return rc ? rc : (int)vs_callback_add(before, after, arg, NULL);
}

static int take_off(vs_callback_fn *before, vs_callback_fn *after, void *arg)
{
	int rc = simple(before || after);

	return rc ? rc : (int)vs_callback_remove(before, after, arg, NULL);
}

int vsleep_tag_push(const char *name)
{
	return KEEPING_ERRNO(push(name));
}

int vsleep_tag_pop(void)
{
	return KEEPING_ERRNO(pop());
}

int vsleep_tag_set(const char *name)
{
	return KEEPING_ERRNO(set(name));
}

const char *vsleep_tag_of(uint64_t address)
{
	return KEEPING_ERRNO(tag_of(address));
}

int vsleep_policy_get(const char *tag)
{
	return KEEPING_ERRNO(get_policy(tag));
}

int vsleep_policy_set(const char *tag, int policy)
{
	return KEEPING_ERRNO(set_policy(tag, policy));
}

int vsleep_callback_add(void (*before)(void *), void (*after)(void *),
			void *arg)
{
	return KEEPING_ERRNO(add(before, after, arg));
}

int vsleep_callback_remove(void (*before)(void *), void (*after)(void *),
			   void *arg)
{
	return KEEPING_ERRNO(take_off(before, after, arg));
}
