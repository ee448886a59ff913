/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "life.h"
#include "life_bytes.h"
#include "life_turns.h"
#include "sim.h"

#include "backup/host_pool.h"
#include "backup/store.h"
#include "base/config.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/tag.h"
#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/quarantine.h"
#include "memory/segment.h"
#include "memory/spare.h"
#include "memory/vmm.h"
#include "sleep/gate.h"
#include "sleep/transition.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)
#define SMALL_MAX ((size_t)512 << 10)	/* larger ones lie in chunks */
#define LARGE (3 * CHUNK - 4096)
#define BLOCKS 64
#define MEMORY ((size_t)256 << 20)	/* as life_settings has it */

static struct life_block blocks[BLOCKS];
static int used;
static CUcontext contexts[2];
static char title[128] = "no fault";
static const char *step = "begin";
static bool lasting;	/* a fault lasts */
static bool given_up;	/* or one has lasted */
static bool unheld;	/* the last wake let the program run */

void life_title(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(title, sizeof(title), format, args);
	va_end(args);
}

void life_fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: after \"%s\": ", title, step);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(1);
}

/* Bytes where there is memory: touching the rest would end the run. */
static void look_at_blocks(void)
{
	struct vs_block *known;
	struct vs_chunk *c;
	bool resident;
	int i;

	for (i = 0; i < used; i++) {
		vs_lock_take(&vs_segment_lock);
		known = vs_segment_find(blocks[i].base);
		if (!known || known->size != blocks[i].size)
			life_fail("0x%llx is not known", blocks[i].base);
		resident = true;
		c = known->segment->chunks;
		for (; c < known->segment->chunks +
			   known->segment->chunk_count; c++)
			if (c->state != VS_CHUNK_RESIDENT && c->blocks)
				resident = false;
		vs_lock_drop(&vs_segment_lock);
		if (resident)
			life_look_at_bytes(&blocks[i]);
	}
	life_turns();
}

static void look_at_segments(void)
{
	struct vs_segment *s;
	struct vs_chunk *c;
	size_t i, held = 0;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		if (s->pins)
			life_fail("segment 0x%llx is still pinned", s->base);
		for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
			if ((c->handle != 0) != (c->state == VS_CHUNK_RESIDENT))
				life_fail("chunk 0x%llx+%zu: handle 0x%llx in "
					  "state %d", s->base, c->offset,
					  c->handle, c->state);
			if (c->backup && c->state == VS_CHUNK_RESERVED)
				life_fail("chunk 0x%llx+%zu: has a backup",
					  s->base, c->offset);
			held += vs_store_held(c->backup);
		}
	}
	vs_lock_drop(&vs_segment_lock);
	if (held != vs_store_bytes())
		life_fail("%zu of %zu bytes stored", held, vs_store_bytes());
}

static struct vs_ledger ledger(void)
{
	struct vs_ledger now;

	vs_ledger_read(&now);
	return now;
}

static void look(void)
{
	struct vs_ledger now = ledger();
	struct sim_ledger real;
	bool shut = vs_gate_holds() != 0;

	look_at_segments();
	sim_ledger_get(&real);
	if (real.invalid)
		life_fail("invalid calls:\n%s", sim_invalid_text());
	if (now.state != VS_AWAKE && now.state != VS_ASLEEP &&
	    now.state != VS_PARTLY)
		life_fail("state %s", vs_ledger_state_word(now.state));
	if (shut != (now.state != VS_AWAKE && !unheld))
		life_fail("the gate is %s in state %s", shut ? "shut" : "open",
			  vs_ledger_state_word(now.state));
	if (now.state == VS_AWAKE && (now.evicted_bytes || now.host_bytes))
		life_fail("awake with something evicted");
	if (vs_host_pool_taken() && !vs_store_bytes() && !lasting)
		life_fail("host memory is taken for nothing");
}

/* A fault that strikes this file's own call is not the point. */
static void make_current(CUcontext context)
{
	CUcontext popped;

	if (!vs_real.cuCtxSetCurrent(context) ||
	    !vs_real.cuCtxSetCurrent(context))
		return;
	vs_real.cuCtxPopCurrent_v2(&popped);
	if (vs_real.cuCtxPushCurrent_v2(context))
		life_fail("no current context");
}

/* The driver's own, after a failure that is not for want of memory, does not
 * sleep, and this life is not about it. */
static bool is_ours(CUdeviceptr base)
{
	bool yes;

	vs_lock_take(&vs_segment_lock);
	yes = vs_segment_find(base) != NULL;
	vs_lock_drop(&vs_segment_lock);
	return yes;
}

static CUresult get_ours(CUdeviceptr *base, size_t size)
{
	CUresult rc = vs_allocator_alloc(base, size);

	if (rc || is_ours(*base))
		return rc;
	if (vs_allocator_free(*base) && vs_allocator_free(*base))
		life_fail("native memory cannot be freed");
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void get(int context, const char *tag, size_t size)
{
	struct life_block *b = &blocks[used];
	CUresult rc;

	step = "allocation";
	make_current(contexts[context]);
	if (vs_tag_mark(tag, NULL))
		life_fail("tag %s", tag);
	rc = get_ours(&b->base, size);
	if (rc && rc != CUDA_ERROR_OUT_OF_MEMORY && rc != CUDA_ERROR_UNKNOWN &&
	    rc != CUDA_ERROR_NOT_SUPPORTED)
		life_fail("allocation gave %d", rc);
	if (rc)
		rc = get_ours(&b->base, size);
	/* A device is given up when nothing ever worked on it. */
	if (rc && (lasting || (given_up && !vs_vmm_usable(context)))) {
		look();
		return;
	}
	if (rc)
		life_fail("second try of an allocation gave %d", rc);
	b->size = size;
	b->tag = tag;
	b->context = contexts[context];
	b->seed = (uint32_t)used * 7919 + 1;
	b->zero = b->mixed = false;
	life_fill(b);
	used++;
	look();
}

static void put(int i)
{
	CUdeviceptr base;
	CUresult rc;

	if (i < 0 || i >= used)
		return;
	step = "free";
	base = blocks[i].base;
	make_current(blocks[i].context);
	rc = vs_allocator_free(base);
	if (rc)
		rc = vs_allocator_free(base);
	if (rc && lasting) {
		look();
		return;
	}
	if (rc)
		life_fail("second try of a free gave %d", rc);
	blocks[i] = blocks[--used];
	look();
}

static void drop_content(const struct vs_request *r)
{
	enum vs_policy policy;
	int i, tag;

	for (i = 0; i < used; i++) {
		tag = vs_tag_find(blocks[i].tag);
		policy = vs_tag_policy(tag);
		if ((r->all_tags || r->tags >> tag & 1) &&
		    policy != VS_POLICY_KEEP &&
		    (r->level == 2 || policy == VS_POLICY_DISCARD))
			blocks[i].zero = true;
	}
}

/* A chunk that the driver did not unmap keeps its content. */
static void mix_content(void)
{
	int i;

	for (i = 0; i < used; i++)
		blocks[i].mixed = blocks[i].zero;
}

static enum vs_status go(struct vs_request *r, struct vs_why *why)
{
	struct vs_transition t;
	enum vs_status st;

	memset(&t, 0, sizeof(t));
	r->timeout_ms = 10000;
	if (r->verb == VS_VERB_SLEEP)
		st = vs_transition_sleep(r, &t, why);
	else
		st = vs_transition_wake(r, &t, why);
	vs_transition_clean_up();
	return st;
}

static void change(const char *what, struct vs_request r)
{
	struct vs_ledger before, after;
	struct vs_why why = { .status = VS_OK };
	enum vs_status st;

	step = what;
	/* What a free could not give back is no part of the change. */
	vs_transition_clean_up();
	before = ledger();
	st = go(&r, &why);
	after = ledger();
	if (st && st != VS_PARTIAL) {
		if (after.state != before.state ||
		    after.live_bytes != before.live_bytes ||
		    after.evicted_bytes != before.evicted_bytes)
			life_fail("failed (%s) and changed something: %s, "
				  "%llu evicted before, %s, %llu after",
				  why.text, vs_ledger_state_word(before.state),
				  (unsigned long long)before.evicted_bytes,
				  vs_ledger_state_word(after.state),
				  (unsigned long long)after.evicted_bytes);
		look();
		look_at_blocks();
		st = go(&r, &why);
	}
	if (st && st != VS_PARTIAL && lasting) {
		look();
		look_at_blocks();
		return;
	}
	if (st && st != VS_PARTIAL)
		life_fail("second try: %s", why.text);
	unheld = r.hold == VS_NO && ledger().state != VS_AWAKE;
	if (r.verb == VS_VERB_SLEEP)
		drop_content(&r);
	if (st == VS_PARTIAL && r.verb == VS_VERB_SLEEP)
		mix_content();
	look();
	look_at_blocks();
}

static vs_tag_set set(const char *list)
{
	vs_tag_set tags = 0;

	if (vs_tag_parse_set(list, &tags, NULL))
		life_fail("tags %s", list);
	return tags;
}

/* Memory that is not there is said with both figures; nothing changes. */
static void wake_in_vain(void)
{
	struct vs_request r = { .verb = VS_VERB_WAKE, .all_tags = true };
	struct vs_why why = { .status = VS_OK };
	struct vs_ledger before;

	if (lasting)
		return;
	step = "wake without memory";
	vs_transition_clean_up();
	before = ledger();
	sim_limit(0, sim_used(0) + CHUNK);
	if (!go(&r, &why))
		life_fail("woke without memory");
	if (why.status == VS_NOMEM && (!strstr(why.text, "need ") ||
				       !strstr(why.text, "have ")))
		life_fail("no figures in \"%s\"", why.text);
	sim_limit(0, MEMORY);
	if (ledger().state != before.state ||
	    ledger().evicted_bytes != before.evicted_bytes)
		life_fail("a wake without memory changed something");
	look();
	look_at_blocks();
}

static void crashed(int number)
{
	(void)number;
	life_fail("touched memory that is not there");
}

void life_settings(void)
{
	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	setenv("VSLEEP_SIM_DEVICES", "2", 1);
	setenv("VSLEEP_SIM_MEMORY", "256M", 1);
	setenv("VSLEEP_THREADS", "2", 1);
}

void life_begin(void)
{
	struct vs_why why;
	CUdevice device;
	int i;

	if (!vs_driver_load() || vs_real.cuInit(0))
		life_fail("the simulated driver is not there");
	for (i = 0; i < 2; i++) {
		device = i;
		if (vs_real.cuCtxCreate_v4(&contexts[i], NULL, 0, device))
			life_fail("no context on device %d", i);
		vs_context_note(contexts[i]);
	}
	vs_config_read();
	vs_tag_init("default", "weights=offload,kv=discard,scratch=keep");
	if (vs_gate_start(&why))
		life_fail("%s", why.text);
	vs_segment_chunk = CHUNK;
	vs_arena_max = SMALL_MAX;
	signal(SIGSEGV, crashed);
}

void life_lasting(void)
{
	lasting = given_up = true;
}

bool life_lasts(void)
{
	return lasting;
}

static void sleep_of(const char *what, int level, vs_tag_set tags)
{
	change(what, (struct vs_request){ .verb = VS_VERB_SLEEP,
		.level = level, .all_tags = !tags, .tags = tags });
}

static void wake_of(const char *what, vs_tag_set tags, enum vs_choice hold)
{
	change(what, (struct vs_request){ .verb = VS_VERB_WAKE,
		.all_tags = !tags, .tags = tags, .hold = hold });
}

/* Weights wake first and the program goes on with the rest asleep. */
static void staged_cycle(void)
{
	int i;

	for (i = used - 1; i >= 0; i--)
		if (blocks[i].size == LARGE)
			put(i);
	sleep_of("sleep of all but one tag", 1, set("weights,kv"));
	sleep_of("sleep of that one, deeper", 2, set("cache"));
	get(0, "weights", 70000);
	put(used / 2);
	wake_of("staged wake", set("weights"), VS_NO);
	get(1, "weights", 5000);
	get(0, "cache", 900);
	put(used - 4);
	sleep_of("second sleep of a tag", 1, set("weights"));
	wake_of("wake after a staged one", 0, VS_DEFAULT);
}

void life_run(void)
{
	static const size_t sizes[] = { 1, 700, 4096, 65536, 100000, 300001 };
	static const char *const tags[] = { "weights", "kv", "scratch",
					    "cache" };
	int i;

	for (i = 0; i < 8; i++)
		get(i % 2, tags[i % 4], sizes[i % 6]);
	get(0, "weights", LARGE);
	sleep_of("sleep", 1, 0);
	put(4);
	put(1);
	wake_in_vain();
	wake_of("wake", 0, VS_DEFAULT);
	get(1, "kv", LARGE);
	put(0);
	sleep_of("sleep of two tags", 1, set("weights,kv"));
	sleep_of("sleep of a third, deeper", 2, set("cache,kv"));
	wake_of("wake of one tag", set("cache"), VS_YES);
	wake_of("wake of the rest", 0, VS_DEFAULT);
	staged_cycle();
	while (used && !lasting)
		put(used - 1);
}

void life_recover(void)
{
	lasting = false;
	vs_host_pool_check(0, NULL);
	wake_of("wake when the fault is over", 0, VS_DEFAULT);
	get(0, "weights", LARGE);
	get(1, "weights", 5000);
	sleep_of("sleep when the fault is over", 1, 0);
	if (ledger().state != VS_ASLEEP)
		life_fail("not asleep");
	wake_of("second wake when the fault is over", 0, VS_DEFAULT);
	if (ledger().state != VS_AWAKE)
		life_fail("not awake");
	while (used)
		put(used - 1);
}

void life_end(void)
{
	struct sim_ledger real;
	int i;

	step = "end";
	life_turns_end();
	vs_vmm_retry();
	for (i = 0; i < 2; i++) {
		make_current(contexts[i]);
		vs_quarantine_settle(i);
		vs_arena_trim(i);
		vs_spare_trim(i);
	}
	sim_ledger_get(&real);
	if (real.handles || real.mappings || real.reservations ||
	    real.allocations || real.registered || real.device_bytes)
		life_fail("left: %lu handles, %lu mappings, %lu reservations, "
			  "%lu allocations, %lu registered, %zu bytes",
			  real.handles, real.mappings, real.reservations,
			  real.allocations, real.registered, real.device_bytes);
}
