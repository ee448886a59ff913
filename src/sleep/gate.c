/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/gate.h"
#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_PER_MAP 64

static struct vs_gate_page cold_page = { .flag = VS_GATE_COLD };

_Atomic(struct vs_gate_page *) vs_gate_page = &cold_page;
_Thread_local struct vs_gate_thread *vs_gate_self;
void (*vs_gate_on_cold)(void);

static struct vs_lock gate_lock = VS_LOCK(VS_RANK_GATE);
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static pthread_key_t record_key;
static pid_t owner;

/* under gate_lock */
static struct vs_gate_thread *records;	/* mapped, never freed */
static unsigned holds;
static bool closing, exiting, refusing;
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
 * flag then makes every call take.
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
	if (madvise(page, size, MADV_WIPEONFORK)) {
		flag = VS_GATE_FENCE;
		pthread_atfork(NULL, NULL, child_forgets);
	}
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		flag = VS_GATE_FENCE;
	vs_lock_cond_init(&opened);
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
	return r;
}

/* Wait until nothing holds the gate; false when calls are to be refused. */
static bool wait_open(void)
{
	bool go;

	vs_lock_take(&gate_lock);
	if (holds && !exiting) {
		held_total++;
		held_now++;
		while (holds && !exiting)
			vs_lock_wait(&gate_lock, &opened, 0);
		held_now--;
	}
	go = !refusing;
	vs_lock_drop(&gate_lock);
	return go;
}

static bool enter(const char *call)
{
	struct vs_gate_page *page = vs_gate_current();
	struct vs_gate_thread *self;
	int depth;

	if (!atomic_load(&page->mine))
		return true;
	if (getpid() != owner) {
		child_forgets();
		return true;
	}
	self = own_record();
	if (!self) {
		vs_log_error("no memory for a thread's record: %s is not held",
			     call);
		return true;
	}
	for (;;) {
		depth = atomic_load(&self->depth);
		atomic_store(&self->depth, depth + 1);
		atomic_thread_fence(memory_order_seq_cst);
		if (depth || !(atomic_load(&page->flag) & VS_GATE_SHUT)) {
			if (!depth)
				atomic_store(&self->call, call);
			return true;
		}
		atomic_store(&self->depth, 0);
		if (!wait_open())
			return false;
	}
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

static enum vs_status wait_empty(double deadline, struct vs_why *why)
{
	struct timespec nap = { .tv_nsec = 20000 };
	const struct vs_gate_thread *r;
	const char *call;

	while ((r = somebody_inside())) {
		if (vs_lock_now() >= deadline) {
			call = atomic_load(&r->call);
			return vs_why_set(why, VS_BUSY,
					  "thread %d is inside %s",
					  (int)atomic_load(&r->tid),
					  call ? call : "a driver call");
		}
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 500000)
			nap.tv_nsec *= 2;
	}
	return VS_OK;
}

enum vs_status vs_gate_shut(enum vs_gate_hold hold, double deadline,
			    struct vs_why *why)
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
	if (!(atomic_load(&page->flag) & VS_GATE_FENCE))
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	st = wait_empty(deadline, why);
	if (st)
		vs_gate_open(hold);
	return st;
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
	if (!holds) {
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

void vs_gate_close(void)
{
	vs_lock_take(&gate_lock);
	closing = true;
	vs_lock_drop(&gate_lock);
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
