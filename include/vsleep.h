/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vsleep.h - a program that knows that it can be put to sleep.
 *
 * Nothing has to be linked: the functions below find those of libvsleep.so
 * when the program runs under it (vsleepctl run, LD_PRELOAD).  Where it does
 * not they return VSLEEP_NOT_PRESENT and do nothing, so that a program needs
 * no second build.  C99 or later and C++; with a C library older than glibc
 * 2.34 link with -ldl.
 *
 * Sizes are in bytes, times in seconds.  All functions may be called from any
 * thread, none of them from a signal handler.  None changes errno.
 *
 * vsleep(3) tells more, vsleep(7) what sleeping means.
 */
#ifndef VSLEEP_H
#define VSLEEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return.  The numbers never change. */
enum vsleep_result {
	VSLEEP_OK = 0,
	VSLEEP_PARTIAL = 1,	/* done, but something stayed that should not */
	VSLEEP_BUSY = 2,	/* not at rest in time; nothing changed */
	VSLEEP_NO_MEMORY = 3,	/* device memory is short; nothing changed */
	VSLEEP_NO_HOST = 4,	/* host memory is short; nothing changed */
	VSLEEP_REFUSED = 5,	/* conflicts with the state; nothing changed */
	VSLEEP_CANCELLED = 6,	/* another request took it back */
	VSLEEP_CUDA = 7,	/* the driver failed a call */
	VSLEEP_FAILED = 8,	/* a context of the program is lost */
	VSLEEP_INVALID = 9,	/* an argument is wrong; nothing changed */
	VSLEEP_NOT_PRESENT = -1	/* no vsleep in this process, or no CUDA
				   context yet where one is needed */
};

enum vsleep_state {
	VSLEEP_AWAKE = 0,
	VSLEEP_DRAINING = 1,
	VSLEEP_SLEEPING = 2,
	VSLEEP_ASLEEP = 3,
	VSLEEP_WAKING = 4,
	VSLEEP_PARTLY = 5,	/* some tags sleep, others do not */
	VSLEEP_LOST = 6		/* a context is lost; status says how */
};

/* What a sleep of level 1 does with the memory of a tag. */
enum vsleep_policy {
	VSLEEP_OFFLOAD = 0,	/* copy to the host, release */
	VSLEEP_DISCARD = 1,	/* release; zero after the wake */
	VSLEEP_KEEP = 2		/* leave on the device */
};

enum vsleep_flag {
	VSLEEP_HOLD = 1,	/* sleep: hold the program until all is awake */
	VSLEEP_DISCARD_ALL = 2,	/* sleep: level 2 may drop everything */
	VSLEEP_FORCE = 4,	/* sleep: despite calls that cannot be held */
	VSLEEP_NO_HOLD = 8	/* wake: let the program run, though it is held
				   and something still sleeps */
};

/* What the ledger says after a call; set size to sizeof before it.  It is
 * filled whatever the call returns, but for one with another size, and where
 * there is no library. */
struct vsleep_reply {
	size_t size;
	int state;		/* enum vsleep_state */
	int held;		/* 1: calls that submit work wait */
	uint64_t sequence;	/* grows with each completed change */
	uint64_t released;	/* by the last completed sleep */
	uint64_t restored;	/* by the last completed wake */
	uint64_t copied;	/* out or back, by it */
	uint64_t kept;		/* selected, but stayed on the device */
	uint64_t lost;		/* content dropped */
	uint64_t unmanaged;	/* device memory that does not sleep */
	uint64_t resident;	/* managed, on the device now */
	uint64_t evicted;	/* managed, asleep now */
	uint64_t backed_up;	/* of it with a copy on the host */
	double seconds;		/* the last completed change */
	char message[256];	/* why not VSLEEP_OK, or empty */
};

#ifdef VSLEEP_LIBRARY		/* libvsleep.so itself */
#define VSLEEP_FUNCTION(type, name, params, args, absent)		\
__attribute__((visibility("default"))) type name params;
#else
#include <dlfcn.h>
#define VSLEEP_FUNCTION(type, name, params, args, absent)		\
static inline type name params						\
{									\
	type (*vsleep_found) params;					\
									\
	*(void **)(&vsleep_found) = dlsym(NULL, #name);			\
	return vsleep_found ? vsleep_found args : absent;		\
}
#endif

/* 1 when vsleep is in this process and not switched off, else 0. */
VSLEEP_FUNCTION(int, vsleep_present, (void), (), 0)

/* The version of the library, as "0.1.0"; "" when none is present. */
VSLEEP_FUNCTION(const char *, vsleep_version, (void), (), "")

/*
 * Tags.  A name is 1 to 64 of A-Z a-z 0-9 . _ -, a process has at most 64.
 *
 * push: what this thread allocates from now on has this tag; "" leaves it to
 * the driver (it never sleeps).  pop takes the last one off.  A stack holds 32.
 * set: the tag of what all threads allocate that have pushed none; NULL takes
 * it off, which leaves VSLEEP_TAG.
 * VSLEEP_INVALID: not a name; VSLEEP_REFUSED: no room, or nothing to pop.
 */
VSLEEP_FUNCTION(int, vsleep_tag_push, (const char *name), (name),
		VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_tag_pop, (void), (), VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_tag_set, (const char *name), (name),
		VSLEEP_NOT_PRESENT)

/* The tag of the allocation that a device address lies in; NULL when vsleep
 * does not manage that memory.  Valid for the life of the process. */
VSLEEP_FUNCTION(const char *, vsleep_tag_of, (uint64_t address), (address),
		NULL)

/*
 * The policy of a tag.  get: enum vsleep_policy, or an error as a negative
 * number: -VSLEEP_REFUSED when the tag is not known, -VSLEEP_INVALID when it
 * is no name.  set makes the tag known; it holds from the next sleep on.
 */
VSLEEP_FUNCTION(int, vsleep_policy_get, (const char *tag), (tag),
		VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_policy_set, (const char *tag, int policy),
		(tag, policy), VSLEEP_NOT_PRESENT)

/*
 * Sleep and wake.  tags: "a,b", or NULL for all.  level 1: as the policies
 * say; 2: drop the content.  timeout: how long running work may take to end,
 * at most a day, negative for VSLEEP_TIMEOUT.  wait: how long to try again
 * while device memory lacks, 0 to a day.  reply may be NULL.
 *
 * The call returns when the memory is free, or there.  Unlike a sleep from
 * outside it does not hold the program, unless flags has VSLEEP_HOLD: the
 * program must not use what it has put to sleep before it has woken it.
 *
 * VSLEEP_BUSY at once, and for pause and resume too: from a callback of
 * vsleep, from a function that the driver calls in a stream's order
 * (cuLaunchHostFunc, cuStreamAddCallback, host nodes of graphs), or on a
 * thread that has begun a capture of a stream which is not over.
 */
VSLEEP_FUNCTION(int, vsleep_sleep, (int level, const char *tags,
		unsigned flags, double timeout, struct vsleep_reply *reply),
		(level, tags, flags, timeout, reply), VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_wake, (const char *tags, unsigned flags,
		double wait, struct vsleep_reply *reply),
		(tags, flags, wait, reply), VSLEEP_NOT_PRESENT)

/* Let running work end and hold every call that submits more, until resume.
 * Memory stays.  The caller is not held before it submits work itself. */
VSLEEP_FUNCTION(int, vsleep_pause, (double timeout,
		struct vsleep_reply *reply), (timeout, reply),
		VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_resume, (struct vsleep_reply *reply), (reply),
		VSLEEP_NOT_PRESENT)

/* The ledger now; never waits. */
VSLEEP_FUNCTION(int, vsleep_status, (struct vsleep_reply *reply), (reply),
		VSLEEP_NOT_PRESENT)

/*
 * Be told: before is called when the program is about to be put to sleep and
 * nothing of it sleeps yet, after once it is awake and runs again, also when
 * the sleep came to nothing.  Both run on a thread of vsleep, without a
 * current context; they may call CUDA, but not sleep, wake, pause or resume.
 * The sleep waits for them.  Either may be NULL; at most 16 pairs.  remove
 * takes off one pair that was added so, and returns when none of vsleep's
 * callbacks runs; it may be called from one.
 * VSLEEP_INVALID: both are NULL; VSLEEP_REFUSED: no room, or not added.
 */
VSLEEP_FUNCTION(int, vsleep_callback_add, (void (*before)(void *),
		void (*after)(void *), void *arg), (before, after, arg),
		VSLEEP_NOT_PRESENT)
VSLEEP_FUNCTION(int, vsleep_callback_remove, (void (*before)(void *),
		void (*after)(void *), void *arg), (before, after, arg),
		VSLEEP_NOT_PRESENT)

#undef VSLEEP_FUNCTION

#ifdef __cplusplus
}
#endif

#endif
