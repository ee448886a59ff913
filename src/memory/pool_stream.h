/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_stream - how far the streams are in which pool memory was freed.
 *
 * Every such free has a number; a stream's frees up to number `done` have
 * surely been reached by the device, and the memory is anybody's.  That is
 * found out cheaply.  To record an event takes as long as the launch queue of
 * the stream is full, so who frees does it, in his own stream, and only while
 * no other event of it is open: a stream about which nobody asks has one, once
 * for all.  Who asks looks at that, and records another where the stream is
 * idle.  Only who may wait, as the thread that looks after unused pools, does
 * so in busy streams; of those that only their own thread can name, and of the
 * legacy one, in which a record would order others, the whole context's.
 *
 * A stream is known by its handle and its id, which is never used twice; the
 * default ones by their context too, and that of a thread by the thread.
 *
 * All data under SEGMENT.  Events belong to who has claimed the stream, who
 * calls the driver without the lock.
 */
#ifndef VS_MEMORY_POOL_STREAM_H
#define VS_MEMORY_POOL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cuda.h"

struct vs_pool_bin;
struct vs_pool_mark;

/* The default streams by their special handles. */
struct vs_pool_key {
	CUstream handle;
	unsigned long long id;
	CUcontext context;	/* of a default stream, else NULL */
	uint64_t thread;	/* of a per-thread one, else 0 */
};

struct vs_pool_stream {
	struct vs_pool_key key;
	CUcontext context;
	CUdevice device;
	uint64_t freed;		/* number of the last free in it */
	uint64_t done;
	size_t blocks;		/* allocations that refer to it, and users */
	size_t cached;		/* of these, free ones */
	struct vs_pool_mark *marks;	/* recorded events, oldest first */
	bool claimed;
	bool leaving;		/* its context is being destroyed */
	bool gone;		/* destroyed: the handle means nothing */
	struct vs_pool_bin *bins;	/* pool_cache: what was freed in it */
	struct vs_pool_stream *next;	/* with the same hash */
	struct vs_pool_stream *all_next;
};

/* Of a program's call, without locks; the driver's error. */
CUresult vs_pool_key(CUstream stream, bool per_thread,
		     struct vs_pool_key *out);
/* It is being captured, or cannot be asked; to be known before vs_pool_key, for
 * the driver ends a capture whose stream is asked for its id. */
bool vs_pool_captured(CUstream stream, bool per_thread);

/* With the lock held: the stream, or NULL when it is not known yet. */
struct vs_pool_stream *vs_pool_stream_find(const struct vs_pool_key *key);
/* Without: make it known.  False: the driver does not say its context, or for
 * lack of host memory. */
bool vs_pool_stream_learn(const struct vs_pool_key *key);

/* With the lock held: number of a free that happens now; of the last one. */
uint64_t vs_pool_stream_free(struct vs_pool_stream *stream);
uint64_t vs_pool_stream_now(void);

/* With the lock held: from here on this thread alone may ask.  False when
 * another does, or nothing can be learned. */
bool vs_pool_stream_claim(struct vs_pool_stream *stream);

/* How much trouble an answer is worth. */
enum vs_pool_effort {
	VS_POOL_LOOK,	/* record an event at most where that cannot last */
	VS_POOL_MARK,	/* record one, for the next time */
	VS_POOL_STAY,	/* and wait a moment for it */
};
/* Without the lock, claimed: find out, and end the claim. */
void vs_pool_stream_ask(struct vs_pool_stream *stream,
			enum vs_pool_effort effort);
/* Let @key's stream wait for all up to free @number in the claimed one, and end
 * the claim. */
bool vs_pool_stream_follow(struct vs_pool_stream *stream, uint64_t number,
			   const struct vs_pool_key *key);

/* With the lock held, after a free of this thread's own: 0, or it is claimed
 * and to be marked up to that number. */
uint64_t vs_pool_stream_due(struct vs_pool_stream *stream);
/* Without, claimed, in a call of the program's about this stream, which is not
 * being captured: record an event behind all frees up to @number. */
void vs_pool_stream_mark(struct vs_pool_stream *stream, uint64_t number);
/* Without: frees up to @done are done, and others may claim it. */
void vs_pool_stream_unclaim(struct vs_pool_stream *stream, uint64_t done);

/* Without locks: wait for all frees of memory of @device, as far as captures
 * and the driver let us. */
void vs_pool_stream_wait(CUdevice device);

/* With the lock held, at rest: everything is done. */
void vs_pool_stream_rest(void);

/* Around the real cuStreamDestroy*; @result: what it gave. */
struct vs_pool_stream *vs_pool_stream_leave(CUstream stream);
void vs_pool_stream_left(struct vs_pool_stream *stream, CUresult result);

/* Around the end of a context: its streams are left alone, then they are done,
 * or asked as before. */
void vs_pool_context_leave(CUcontext context);
void vs_pool_context_left(CUcontext context, bool gone);

/* With the lock held: visit all. */
extern struct vs_pool_stream *vs_pool_streams;
/* Forget streams to which nothing refers. */
void vs_pool_stream_collect(void);

#endif
