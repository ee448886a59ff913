/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"
#include "trials.h"

#include "base/config.h"
#include "base/context.h"
#include "base/lock.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/quarantine.h"
#include "memory/spare.h"
#include "memory/vmm.h"
#include "sleep/gate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 2

CUcontext fixture_context;
static bool operating;		/* the operation thread runs */

/* A size that cannot be had is an answer, as in any other library. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_segv=0:allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

void fixture_start(const char *tag, const char *tags)
{
	struct vs_why why;

	setenv("VSLEEP_SIM_GRANULARITY", "64K", 0);
	setenv("VSLEEP_SIM_MEMORY", "256M", 0);
	setenv("VSLEEP_SIM_DEVICES", "2", 1);
	setenv("VSLEEP_THREADS", "2", 0);
	setenv("VSLEEP_RETAIN", "no", 0);
	ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW));
	ck_assert(vs_driver_load());
	ck_ok(vs_real.cuInit(0));
	ck_ok(vs_real.cuDevicePrimaryCtxRetain(&fixture_context, 0));
	vs_config_read();
	vs_tag_init(tag, tags);
	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
	fixture_current(fixture_context);
	vs_context_note_primary(fixture_context, 0);
	vs_segment_chunk = 2 * MIB;
}

CUcontext fixture_new_context(CUdevice device)
{
	CUcontext made;

	ck_ok(vs_real.cuCtxCreate_v4(&made, NULL, 0, device));
	ck_assert(vs_context_note(made));
	return made;
}

unsigned fixture_every(unsigned most)
{
	unsigned long every = trials_every();

	return !every ? 1 : every < most ? (unsigned)every : most;
}

void fixture_current(CUcontext context)
{
	ck_ok(vs_real.cuCtxSetCurrent(context));
}

static inline uint32_t word(CUdeviceptr at)
{
	uint32_t x = (uint32_t)(at >> 2) * 2654435761u;

	return (x ^ x >> 15) | 1;
}

/* Many bytes, of which the thread sanitizer would make a long story. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

/* By the word, and the rest by the byte. */
UNWATCHED void fixture_fill(CUdeviceptr base, size_t size)
{
	uint32_t *words = (uint32_t *)(uintptr_t)base;
	size_t i;

	for (i = 0; i < size / 4; i++)
		words[i] = word(base + i * 4);
	memset(words + i, 0x5a, size % 4);
}

UNWATCHED void fixture_assert_filled(CUdeviceptr base, size_t size)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)base;
	const unsigned char *rest;
	size_t i;

	for (i = 0; i < size / 4; i++)
		if (words[i] != word(base + i * 4))
			ck_abort_msg("word %zu of 0x%llx is 0x%x, not 0x%x", i,
				     base, words[i], word(base + i * 4));
	rest = (const unsigned char *)(words + i);
	for (i = 0; i < size % 4; i++)
		ck_assert_uint_eq(rest[i], 0x5a);
}

UNWATCHED void fixture_assert_zero(CUdeviceptr base, size_t size)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)base;
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i])
			ck_abort_msg("byte %zu of 0x%llx is 0x%x", i, base,
				     bytes[i]);
}

CUdeviceptr fixture_alloc(const char *tag, size_t size)
{
	CUdeviceptr base = 0;

	ck_assert_int_eq(vs_tag_mark(tag, NULL), VS_OK);
	ck_ok(vs_allocator_alloc(&base, size));
	ck_assert_ptr_nonnull(fixture_segment(base));
	fixture_fill(base, size);
	return base;
}

void fixture_free(CUdeviceptr base)
{
	ck_ok(vs_allocator_free(base));
	ck_assert_ptr_null(fixture_segment(base));
}

void fixture_later(void)
{
	ck_assert(vs_spare_idle(vs_lock_now() + 2 * VS_SPARE_TIME) == 0);
}

struct vs_segment *fixture_segment(CUdeviceptr base)
{
	struct vs_segment *found = NULL;
	struct vs_block *block;

	vs_lock_take(&vs_segment_lock);
	block = vs_segment_find(base);
	if (block)
		found = block->segment;
	vs_lock_drop(&vs_segment_lock);
	return found;
}

struct sim_ledger fixture_sim(void)
{
	struct sim_ledger now;

	sim_ledger_get(&now);
	return now;
}

struct vs_ledger fixture_ledger(void)
{
	struct vs_ledger now;

	vs_ledger_read(&now);
	return now;
}

static void assert_segment(const struct vs_segment *s)
{
	const struct vs_chunk *c;
	size_t end = 0;

	ck_assert_uint_eq(s->pins, 0);
	for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
		ck_assert(!c->busy);
		ck_assert_int_eq(c->handle != 0,
				 c->state == VS_CHUNK_RESIDENT);
		if (c->state == VS_CHUNK_RESERVED) {
			ck_assert_ptr_null(c->backup);
			ck_assert_uint_eq(c->blocks, 0);
		}
		ck_assert_uint_ge(c->offset, end);
		end = c->offset + c->size;
	}
	ck_assert_uint_le(end, s->size);
}

static bool any_pinned(void)
{
	size_t i;

	for (i = 0; i < vs_segment_count(); i++)
		if (vs_segment_at(i)->pins)
			return true;
	return false;
}

/* What the last operation gives back after its reply, or the watch, is pinned
 * for as long as the driver takes; who never unpins is found by the test's
 * time limit. */
void fixture_assert_sound(void)
{
	size_t i;

	ck_assert_msg(!fixture_sim().invalid, "invalid calls:\n%s",
		      sim_invalid_text());
	vs_lock_take(&vs_segment_lock);
	while (any_pinned())
		vs_segment_wait_change();
	for (i = 0; i < vs_segment_count(); i++)
		assert_segment(vs_segment_at(i));
	vs_lock_drop(&vs_segment_lock);
}

void fixture_assert_empty(void)
{
	struct sim_ledger real;
	int device;

	/* What the last operation puts off until after its reply. */
	if (operating)
		ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
	fixture_assert_sound();
	vs_spare_stop();	/* what the watch gives back has gone */
	vs_spare_go_on();
	vs_vmm_retry();
	for (device = 0; device < DEVICES; device++) {
		vs_quarantine_settle(device);
		vs_arena_trim(device);
		vs_spare_trim(device);
	}
	real = fixture_sim();
	ck_assert_uint_eq(real.handles, 0);
	ck_assert_uint_eq(real.mappings, 0);
	ck_assert_uint_eq(real.reservations, 0);
	ck_assert_uint_eq(real.allocations, 0);
	ck_assert_uint_eq(real.registered, 0);
	ck_assert_uint_eq(real.device_bytes, 0);
	ck_assert_uint_eq(vs_segment_count(), 0);
	fixture_assert_sound();
}

struct call {
	int (*fn)(void *arg);
	void *arg;
	int result;
};

static void *make_call(void *arg)
{
	struct call *call = arg;

	call->result = call->fn(call->arg);
	return NULL;
}

int fixture_on_thread(int (*fn)(void *arg), void *arg)
{
	struct call call = { .fn = fn, .arg = arg };
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, make_call, &call), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return call.result;
}

struct vs_reply fixture_ask(const struct vs_request *request)
{
	struct vs_reply reply;
	struct vs_why why;

	if (!operating)
		ck_assert_int_eq(vs_operation_start(&why), VS_OK);
	operating = true;
	vs_operation_run(request, 60, &reply);
	return reply;
}

vs_tag_set fixture_tags(const char *list)
{
	vs_tag_set set = 0;

	ck_assert_int_eq(vs_tag_parse_set(list, &set, NULL), VS_OK);
	return set;
}

struct vs_reply fixture_sleep(int level, const char *tags)
{
	struct vs_request request = {
		.verb = VS_VERB_SLEEP, .level = level, .all_tags = !tags,
		.tags = tags ? fixture_tags(tags) : 0, .timeout_ms = 10000,
	};

	return fixture_ask(&request);
}

struct vs_reply fixture_wake(const char *tags)
{
	struct vs_request request = {
		.verb = VS_VERB_WAKE, .all_tags = !tags,
		.tags = tags ? fixture_tags(tags) : 0,
	};

	return fixture_ask(&request);
}

int fixture_main(const char *name, void (*fill)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_set_timeout(tc, 120);
	fill(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
