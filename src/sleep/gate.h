/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate - the one place where application threads wait.
 *
 * Wrapped calls that submit work or touch device memory run between
 * vs_gate_enter and vs_gate_leave.  While the gate is open they write only
 * their thread's own record.  Shutting sets one flag, issues a membarrier and
 * waits until every thread's depth is 0.  A thread that can get no record is
 * counted in one that all such share.
 *
 * The flag and the owner lie in a page that a forked child finds wiped: it
 * reads "open, not ours".  Before the library has started the flag is set, so
 * that the first wrapped call takes the slow path and starts it.
 *
 * Rank GATE.  A thread that waits here holds nothing.  Our own threads never
 * enter.  No CUDA call is made here.
 */
#ifndef VS_SLEEP_GATE_H
#define VS_SLEEP_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/why.h"

struct vs_gate_thread {
	_Atomic int depth;
	_Atomic(const char *) call;	/* name of the call inside */
	_Atomic pid_t tid;		/* 0: free for reuse */
	struct vs_gate_thread *next;
} __attribute__((aligned(64)));

struct vs_gate_page {
	_Atomic uint32_t flag;		/* VS_GATE_* bits; 0: open */
	_Atomic uint32_t mine;		/* this process started the library */
};

enum {
	VS_GATE_COLD = 1,	/* not started yet */
	VS_GATE_SHUT = 2,
	VS_GATE_FENCE = 4,	/* no membarrier: the slow path fences */
};

extern _Atomic(struct vs_gate_page *) vs_gate_page;
extern _Thread_local struct vs_gate_thread *vs_gate_self
	__attribute__((tls_model("initial-exec")));

/* The slow half; false only for a call that must fail with
 * CUDA_ERROR_DEINITIALIZED (the process exits and could not be woken). */
bool vs_gate_enter_slow(const char *call);
/* For a thread without a record of its own. */
void vs_gate_leave_slow(void);

static inline struct vs_gate_page *vs_gate_current(void)
{
	return atomic_load_explicit(&vs_gate_page, memory_order_acquire);
}

/*
 * The open gate alone: false, with nothing done, where the slow half is
 * needed.  A wrapper that makes no call before the real one keeps its
 * arguments in their registers.
 */
static inline __attribute__((always_inline))
bool vs_gate_try(const char *call)
{
	struct vs_gate_thread *self = vs_gate_self;
	int depth;

	if (__builtin_expect(!self, 0))
		return false;
	depth = atomic_load_explicit(&self->depth, memory_order_relaxed);
	atomic_store_explicit(&self->depth, depth + 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&vs_gate_current()->flag,
						  memory_order_acquire), 0)) {
		atomic_store_explicit(&self->depth, depth,
				      memory_order_release);
		return false;
	}
	if (!depth)
		atomic_store_explicit(&self->call, call, memory_order_relaxed);
	return true;
}

static inline bool vs_gate_enter(const char *call)
{
	return vs_gate_try(call) || vs_gate_enter_slow(call);
}

static inline void vs_gate_leave(void)
{
	struct vs_gate_thread *self = vs_gate_self;
	int depth;

	if (__builtin_expect(!self, 0)) {
		vs_gate_leave_slow();
		return;
	}
	depth = atomic_load_explicit(&self->depth, memory_order_relaxed);
	atomic_store_explicit(&self->depth, depth - 1, memory_order_release);
}

/* True when the library runs in this process (not in a forked child). */
static inline bool vs_gate_mine(void)
{
	return atomic_load_explicit(&vs_gate_current()->mine,
				    memory_order_acquire);
}

/* True until the library has started, or has decided to pass through. */
static inline bool vs_gate_cold(void)
{
	return atomic_load_explicit(&vs_gate_current()->flag,
				    memory_order_acquire) & VS_GATE_COLD;
}

/* Make the page, register for membarrier, open the gate.  Once. */
enum vs_status vs_gate_start(struct vs_why *why);
/* Leave the cold state without starting: everything passes through. */
void vs_gate_pass_through(void);
/* Called by the first wrapped call of a cold process; set by init. */
extern void (*vs_gate_on_cold)(void);

/* Why application threads are held; the gate is open when the set is empty. */
enum vs_gate_hold {
	VS_HOLD_OPERATION = 1,	/* a transition drains or moves memory */
	VS_HOLD_ASLEEP = 2,	/* something sleeps */
	VS_HOLD_OPERATOR = 4,	/* paused */
};

/* Add a hold and wait until nobody is inside.  On VS_BUSY the hold is taken
 * off again and @why names the thread and its call; likewise on VS_CANCELLED,
 * soon after *cancel (NULL: never) is set, and on VS_REFUSED.  @deadline:
 * seconds of CLOCK_MONOTONIC. */
enum vs_status vs_gate_shut(enum vs_gate_hold hold, double deadline,
			    const atomic_bool *cancel, struct vs_why *why);
/* Some thread is inside now: @text names it and its call. */
bool vs_gate_inside(char *text, size_t size);
/* While VS_HOLD_OPERATION alone keeps the gate shut let one call through; waits
 * so long for one to come, up to a second for one that is held to wake up, and
 * not for its end. */
void vs_gate_step(double seconds);
/* Add a hold while another one already keeps the gate shut. */
void vs_gate_keep(enum vs_gate_hold hold);
/* Take a hold off; opens the gate when it was the last. */
void vs_gate_open(enum vs_gate_hold hold);
unsigned vs_gate_holds(void);

/* The same, but not in a child that shares our memory, as that of vfork. */
bool vs_gate_own_process(void);

/* The process exits: no hold can be added any more; it has come to that. */
void vs_gate_close(void);
bool vs_gate_closing(void);

/* Open for good; @refuse: calls then fail with CUDA_ERROR_DEINITIALIZED. */
void vs_gate_exit(bool refuse);

/* How many calls have waited here so far, and how many wait now. */
uint64_t vs_gate_held_total(void);
unsigned vs_gate_held_now(void);

#endif
