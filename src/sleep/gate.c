/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/gate.h"
#include "base/lock.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_PER_MAP 64
#define WAKE_UP 1.0	/* seconds that a held thread gets to take its turn */

static struct vs_gate_page cold_page = { .flag = VS_GATE_COLD };

_Atomic(struct vs_gate_page *) vs_gate_page = &cold_page;
_Thread_local struct vs_gate_thread *vs_gate_self;
void (*vs_gate_on_cold)(void);

static struct vs_lock gate_lock = VS_LOCK(VS_RANK_GATE);
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;
static pthread_key_t record_key;
static pid_t owner;
static bool wiped;		/* a forked child finds the page so */

/* Shared by all threads that get no record of their own; each counts how deep
 * it is itself, and stands here once. */
static struct vs_gate_thread spare = { .tid = -1 };
static _Thread_local int spare_depth
	__attribute__((tls_model("initial-exec")));

/* under gate_lock */
static struct vs_gate_thread *records = &spare;	/* never freed */
static unsigned holds;
static bool closing, exiting, refusing;
static bool ticket;		/* one call may pass the shut gate */
static uint64_t held_total;
static unsigned held_now;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* A dying thread's record may be taken by another one. */
static void release_record(void *record)
{
	struct vs_gate_thread *r = record;

	vs_gate_self = NULL;
	atomic_store(&r->depth, 0);
	atomic_store(&r->tid, 0);
}

static void child_forgets(void)
{
	struct vs_gate_page *page = vs_gate_current();

	atomic_store(&page->mine, 0);
	atomic_store(&page->flag, 0);
}

/*
 * Without MADV_WIPEONFORK a child of a raw clone is told by its pid, and
 * without membarrier entering takes a fence: both on the slow path, which the
 * flag then makes every call take.  An emulator may take the advice and not
 * follow it, so the fork handler is there in any case.
 */
enum vs_status vs_gate_start(struct vs_why *why)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct vs_gate_page *page;
	uint32_t flag = 0;

	page = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return vs_why_set(why, VS_FAILED, "gate: no memory");
	if (pthread_key_create(&record_key, release_record)) {
		munmap(page, size);
		return vs_why_set(why, VS_FAILED, "gate: no thread key");
	}
	wiped = !madvise(page, size, MADV_WIPEONFORK);
	if (!wiped)
		flag = VS_GATE_FENCE;
	if (pthread_atfork(NULL, NULL, child_forgets) && !wiped) {
		pthread_key_delete(record_key);
		munmap(page, size);
		return vs_why_set(why, VS_FAILED, "gate: no fork handler");
	}
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		flag = VS_GATE_FENCE;
	vs_lock_cond_init(&opened);
	vs_lock_cond_init(&stepped);
	owner = getpid();
	atomic_store(&page->flag, flag);
	atomic_store(&page->mine, 1);
	atomic_store(&vs_gate_page, page);
	return VS_OK;
}

void vs_gate_pass_through(void)
{
	atomic_store(&cold_page.flag, 0);
}

static struct vs_gate_thread *take_free_record(void)
{
	struct vs_gate_thread *r;
	size_t i;

	for (r = records; r; r = r->next)
		if (!atomic_load(&r->tid))
			return r;
	r = mmap(NULL, RECORDS_PER_MAP * sizeof(*r), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		return NULL;
	for (i = 0; i < RECORDS_PER_MAP; i++) {
		r[i].next = records;
		records = &r[i];
	}
	return records;
}

static struct vs_gate_thread *own_record(void)
{
	struct vs_gate_thread *r = vs_gate_self;

	if (r)
		return r;
	vs_lock_take(&gate_lock);
	r = take_free_record();
	if (r)
		atomic_store(&r->tid, (pid_t)syscall(SYS_gettid));
	vs_lock_drop(&gate_lock);
	if (r && pthread_setspecific(record_key, r)) {
		atomic_store(&r->tid, 0);
		r = NULL;
	}
	vs_gate_self = r;
	return r ? r : &spare;
}

/* False, and outside again, while the gate is shut; @allowed: all the same. */
static bool step_in(struct vs_gate_thread *r, const struct vs_gate_page *page,
		    const char *call, bool allowed)
{
	bool shared = r == &spare;
	int depth = atomic_fetch_add(&r->depth, 1);

	if (!allowed && (shared || !depth) &&
	    atomic_load(&page->flag) & VS_GATE_SHUT) {
		atomic_fetch_sub(&r->depth, 1);
		return false;
	}
	if (shared) {
		spare_depth = 1;
		atomic_store(&r->tid, (pid_t)syscall(SYS_gettid));
	}
	if (shared || !depth)
		atomic_store(&r->call, call);
	return true;
}

enum pass { AGAIN, INSIDE, REFUSED };

/* Wait until nothing holds the gate, or this call may pass all the same.  A
 * call counts once, however often the gate opens and shuts meanwhile. */
static enum pass wait_open(struct vs_gate_thread *r, const char *call,
			   bool *counted)
{
	enum pass pass = AGAIN;

	vs_lock_take(&gate_lock);
	if (holds && !exiting) {
		held_total += !*counted;
		*counted = true;
		held_now++;
		while (holds && !exiting &&
		       !(ticket && holds == VS_HOLD_OPERATION))
			vs_lock_wait(&gate_lock, &opened, 0);
		held_now--;
	}
	if (ticket && holds == VS_HOLD_OPERATION && !exiting) {
		ticket = false;
		step_in(r, vs_gate_current(), call, true);
		pthread_cond_broadcast(&stepped);
		pass = INSIDE;
	}
	if (refusing)
		pass = REFUSED;
	vs_lock_drop(&gate_lock);
	return pass;
}

/* It may be one that shares our memory, as that of vfork: then nothing of the
 * parent's changes, and what vs_gate_leave takes off is put on. */
static void enter_child(void)
{
	if (!wiped)
		child_forgets();
	if (vs_gate_self)
		atomic_fetch_add(&vs_gate_self->depth, 1);
}

static bool enter(const char *call)
{
	struct vs_gate_page *page = vs_gate_current();
	struct vs_gate_thread *self;
	bool counted = false;
	enum pass pass;

	if (!atomic_load(&page->mine))
		return true;
	if (spare_depth) {
		spare_depth++;
		return true;
	}
	if (getpid() != owner) {
		enter_child();
		return true;
	}
	self = own_record();
	while (!step_in(self, page, call, false)) {
		pass = wait_open(self, call, &counted);
		if (pass != AGAIN)
			return pass == INSIDE;
	}
	return true;
}

void vs_gate_leave_slow(void)
{
	if (spare_depth && !--spare_depth)
		atomic_fetch_sub(&spare.depth, 1);
}

bool vs_gate_enter_slow(const char *call)
{
	int saved = errno;
	bool go;

	if (vs_gate_cold() && vs_gate_on_cold)
		vs_gate_on_cold();
	go = enter(call);
	errno = saved;
	return go;
}

static const struct vs_gate_thread *somebody_inside(void)
{
	const struct vs_gate_thread *r, *found = NULL;

	vs_lock_take(&gate_lock);
	for (r = records; r && !found; r = r->next)
		if (atomic_load(&r->depth))
			found = r;
	vs_lock_drop(&gate_lock);
	return found;
}

bool vs_gate_inside(char *text, size_t size)
{
	const struct vs_gate_thread *r = somebody_inside();
	const char *call;

	if (!r)
		return false;
	call = atomic_load(&r->call);
	snprintf(text, size, "thread %d is inside %s",
		 (int)atomic_load(&r->tid), call ? call : "a driver call");
	return true;
}

static enum vs_status wait_empty(double deadline, const atomic_bool *cancel,
				 struct vs_why *why)
{
	struct timespec nap = { .tv_nsec = 20000 };
	char text[128];

	while (vs_gate_inside(text, sizeof(text))) {
		if (vs_lock_now() >= deadline)
			return vs_why_set(why, VS_BUSY, "%s", text);
		if (cancel && atomic_load(cancel))
			return vs_why_set(why, VS_CANCELLED, "cancelled");
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 500000)
			nap.tv_nsec *= 2;
	}
	return VS_OK;
}

enum vs_status vs_gate_shut(enum vs_gate_hold hold, double deadline,
			    const atomic_bool *cancel, struct vs_why *why)
{
	struct vs_gate_page *page = vs_gate_current();
	enum vs_status st;

	vs_lock_take(&gate_lock);
	if (closing) {
		vs_lock_drop(&gate_lock);
		return vs_why_set(why, VS_REFUSED, "the process exits");
	}
	holds |= hold;
	atomic_fetch_or(&page->flag, VS_GATE_SHUT);
	vs_lock_drop(&gate_lock);
	if (!(atomic_load(&page->flag) & VS_GATE_FENCE) &&
	    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		st = vs_why_set(why, VS_REFUSED, "the kernel does not take "
				"membarrier any more: %s", strerror(errno));
	else
		st = wait_empty(deadline, cancel, why);
	if (st)
		vs_gate_open(hold);
	return st;
}

void vs_gate_step(double seconds)
{
	double until = vs_lock_now();

	vs_lock_take(&gate_lock);
	until += held_now && seconds < WAKE_UP ? WAKE_UP : seconds;
	ticket = true;
	pthread_cond_broadcast(&opened);
	while (ticket && holds == VS_HOLD_OPERATION && !exiting &&
	       vs_lock_wait(&gate_lock, &stepped, until))
		;
	ticket = false;
	vs_lock_drop(&gate_lock);
}

void vs_gate_keep(enum vs_gate_hold hold)
{
	vs_lock_take(&gate_lock);
	holds |= hold;
	vs_lock_drop(&gate_lock);
}

void vs_gate_open(enum vs_gate_hold hold)
{
	vs_lock_take(&gate_lock);
	holds &= ~(unsigned)hold;
	if (!holds && !refusing) {
		atomic_fetch_and(&vs_gate_current()->flag,
				 ~(uint32_t)VS_GATE_SHUT);
		pthread_cond_broadcast(&opened);
	}
	vs_lock_drop(&gate_lock);
}

unsigned vs_gate_holds(void)
{
	unsigned now;

	vs_lock_take(&gate_lock);
	now = holds;
	vs_lock_drop(&gate_lock);
	return now;
}

bool vs_gate_own_process(void)
{
	return vs_gate_mine() && getpid() == owner;
}

void vs_gate_close(void)
{
	vs_lock_take(&gate_lock);
	closing = true;
	vs_lock_drop(&gate_lock);
}

bool vs_gate_closing(void)
{
	bool yes;

	vs_lock_take(&gate_lock);
	yes = closing;
	vs_lock_drop(&gate_lock);
	return yes;
}

void vs_gate_exit(bool refuse)
{
	struct vs_gate_page *page = vs_gate_current();

	vs_lock_take(&gate_lock);
	closing = exiting = true;
	refusing = refuse;
	if (refuse)
		atomic_fetch_or(&page->flag, VS_GATE_SHUT);
	else
		atomic_fetch_and(&page->flag, ~(uint32_t)VS_GATE_SHUT);
	pthread_cond_broadcast(&opened);
	vs_lock_drop(&gate_lock);
}

uint64_t vs_gate_held_total(void)
{
	uint64_t total;

	vs_lock_take(&gate_lock);
	total = held_total;
	vs_lock_drop(&gate_lock);
	return total;
}

unsigned vs_gate_held_now(void)
{
	unsigned now;

	vs_lock_take(&gate_lock);
	now = held_now;
	vs_lock_drop(&gate_lock);
	return now;
}
