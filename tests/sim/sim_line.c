/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams.  Each has a queue and, from its first work on, a worker thread.
 *
 * Every piece of work of the process has a ticket.  What the legacy stream
 * has to wait for, and what waits for it, follows from tickets alone: it may
 * start when no blocking stream has older work left, and the other way round.
 */
#include "sim_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static unsigned waiters;
static bool holding;
static uint64_t last_ticket;

void sim_wait(void)
{
	waiters++;
	pthread_cond_wait(&done, &sim_lock);
	waiters--;
}

/* The same, for something that nobody announces. */
static void wait_poll(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 50000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	waiters++;
	pthread_cond_timedwait(&done, &sim_lock, &ts);
	waiters--;
}

void sim_wake(void)
{
	if (waiters)
		pthread_cond_broadcast(&done);
}

SIM_EXPORT void sim_hold(int on)
{
	pthread_mutex_lock(&sim_lock);
	holding = on;
	sim_wake();
	pthread_mutex_unlock(&sim_lock);
}

void *sim_op_new(size_t size, CUgraphNodeType type)
{
	struct sim_op *op = calloc(1, size);

	if (!op)
		return NULL;
	op->refs = 1;
	op->type = type;
	return op;
}

void sim_op_put(struct sim_op *op)
{
	if (--op->refs)
		return;
	if (op->drop)
		op->drop(op);
	free(op);
}

static uint64_t oldest(const struct sim_line *line)
{
	return line->head ? line->head->ticket : SIM_NEVER;
}

/* No work up to this ticket is left that the line has to wait for. */
static bool turn(struct sim_line *line, uint64_t ticket)
{
	struct sim_ctx *ctx = line->ctx;
	struct sim_line *l;

	if (line != ctx->legacy)
		return !line->blocking || !ctx->legacy ||
		       oldest(ctx->legacy) > ticket;
	for (l = ctx->lines; l; l = l->next)
		if (l->blocking && l != line && oldest(l) <= ticket)
			return false;
	return true;
}

/* Under the lock, which it drops while the operation runs. */
void sim_op_exec(struct sim_op *op, struct sim_line *line)
{
	while (op->ready && !line->ctx->sticky && !op->ready(op)) {
		if (op->polls)
			wait_poll();
		else
			sim_wait();
	}
	if (op->run && (!line->ctx->sticky || op->host)) {
		pthread_mutex_unlock(&sim_lock);
		op->run(op, line);
		pthread_mutex_lock(&sim_lock);
	}
	if (op->done)
		op->done(op, line);
}

static void unlink_line(struct sim_line *line)
{
	struct sim_line **p = &line->ctx->lines;

	while (*p != line)
		p = &(*p)->next;
	*p = line->next;
	if (line->ctx->legacy == line)
		line->ctx->legacy = NULL;
}

static void free_line(struct sim_line *line)
{
	while (line->pins)
		sim_wait();
	pthread_cond_destroy(&line->work);
	free(line->ends);
	free(line);
	sim_wake();
}

static void *worker(void *arg)
{
	struct sim_line *line = arg;
	struct sim_item *item;

	pthread_mutex_lock(&sim_lock);
	for (;;) {
		while (!line->head && !line->quit)
			pthread_cond_wait(&line->work, &sim_lock);
		item = line->head;
		if (!item)
			break;
		while (holding || !turn(line, item->ticket))
			sim_wait();
		sim_op_exec(item->op, line);
		line->head = item->next;
		line->length--;
		if (!line->head)
			line->tail = NULL;
		sim_op_put(item->op);
		free(item);
		sim_wake();
	}
	if (line->destroyed) {
		unlink_line(line);
		free_line(line);
	}
	pthread_mutex_unlock(&sim_lock);
	return NULL;
}

static bool start_worker(struct sim_line *line)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&line->thread, NULL, worker, line);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	line->worker = rc == 0;
	return rc == 0;
}

void sim_queue(struct sim_line *line, struct sim_op *op)
{
	struct sim_item *item = malloc(sizeof(*item));

	if (!item || (!line->worker && !start_worker(line)))
		abort();
	item->next = NULL;
	item->op = op;
	item->ticket = ++last_ticket;
	if (line->tail)
		line->tail->next = item;
	else
		line->head = item;
	line->tail = item;
	line->length++;
	if (line->head == item)
		pthread_cond_signal(&line->work);
}

/* Drops the lock while the queue is full; false when the stream went away
 * meanwhile. */
bool sim_line_room(struct sim_line *line)
{
	struct sim_ctx *ctx = line->ctx;
	bool there;

	if (!sim_config.queue || line->length < sim_config.queue)
		return true;
	line->pins++;
	ctx->pins++;
	ctx->crowded++;
	while (line->length >= sim_config.queue)
		sim_wait();
	there = !line->quit;
	ctx->crowded--;
	ctx->pins--;
	line->pins--;
	sim_wake();
	return there;
}

/* Mark the streams that have work; then one after the other. */
unsigned long long sim_line_mark_busy(struct sim_ctx *ctx)
{
	unsigned long long round = sim_next_id();
	struct sim_line *l;

	for (l = ctx->lines; l; l = l->next)
		if (l->head)
			l->round = round;
	return round;
}

struct sim_line *sim_line_busy(struct sim_ctx *ctx, unsigned long long round)
{
	struct sim_line *l;

	for (l = ctx->lines; l; l = l->next) {
		if (l->round != round)
			continue;
		l->round = 0;
		return l;
	}
	return NULL;
}

/* Takes the caller's reference to op, also when it fails. */
CUresult sim_submit(struct sim_line *line, struct sim_op *op)
{
	CUresult rc = CUDA_ERROR_INVALID_HANDLE;

	if (!line->capture && !sim_line_room(line))
		goto drop;

	if (line->capture)
		rc = sim_capture_add(line, op);
	else
		rc = sim_capture_implicit(line);
	if (rc != CUDA_SUCCESS)
		goto drop;
	if (!line->capture)
		sim_queue(line, op);
	return rc;

drop:
	sim_op_put(op);
	return rc;
}

struct sim_line *sim_line_new(struct sim_ctx *ctx, unsigned flags, int prio)
{
	struct sim_line *line = calloc(1, sizeof(*line));

	if (!line)
		return NULL;
	line->ctx = ctx;
	line->flags = flags;
	line->priority = prio;
	line->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	line->id = sim_next_id();
	pthread_cond_init(&line->work, NULL);
	line->next = ctx->lines;
	ctx->lines = line;
	return line;
}

struct sim_line *sim_line_legacy(struct sim_ctx *ctx)
{
	if (!ctx->legacy)
		ctx->legacy = sim_line_new(ctx, 0, 0);
	return ctx->legacy;
}

static struct sim_line *per_thread(struct sim_ctx *ctx)
{
	uint64_t tid = sim_tid();
	struct sim_line *l, *orphan = NULL;

	for (l = ctx->lines; l; l = l->next) {
		if (l->per_thread && l->owner == tid)
			return l;
		if (l->per_thread && !l->owner && !l->head && !l->capture)
			orphan = l;
	}
	if (!orphan)
		orphan = sim_line_new(ctx, 0, 0);
	if (orphan) {
		orphan->per_thread = true;
		orphan->owner = tid;
	}
	return orphan;
}

/* A thread ends: its per-thread streams wait for a new owner. */
void sim_line_thread_gone(uint64_t tid)
{
	struct sim_ctx *ctx;
	struct sim_line *l;

	for (ctx = sim_ctx_list(); ctx; ctx = ctx->next)
		for (l = ctx->lines; l; l = l->next)
			if (l->owner == tid)
				l->owner = 0;
}

CUresult sim_line_get(CUstream handle, bool pt, struct sim_line **out)
{
	struct sim_ctx *ctx;

	if (handle == NULL || handle == CU_STREAM_LEGACY ||
	    handle == CU_STREAM_PER_THREAD) {
		SIM_TRY(sim_ctx_current(&ctx));
		if (handle == CU_STREAM_PER_THREAD || (!handle && pt))
			*out = per_thread(ctx);
		else
			*out = sim_line_legacy(ctx);
		return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = sim_handle_get(SIM_KEY(handle), SIM_STREAM);
	if (!*out) {
		sim_bad("use of stream %p that is not alive", (void *)handle);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return sim_ctx_alive((*out)->ctx);
}

/* Its handle is gone already.  Drops the lock while an idle worker ends. */
void sim_line_destroy(struct sim_line *line)
{
	line->quit = true;
	sim_capture_leave(line);
	if (line->head) {
		line->destroyed = true;
		pthread_detach(line->thread);
		return;
	}
	unlink_line(line);
	if (line->worker) {
		pthread_cond_signal(&line->work);
		pthread_mutex_unlock(&sim_lock);
		pthread_join(line->thread, NULL);
		pthread_mutex_lock(&sim_lock);
	}
	free_line(line);
}

bool sim_line_idle(struct sim_line *line)
{
	return !line->head && turn(line, last_ticket);
}

CUresult sim_line_wait(struct sim_line *line)
{
	struct sim_ctx *ctx = line->ctx;
	uint64_t until = last_ticket;
	CUresult rc;

	line->pins++;
	ctx->pins++;
	while (oldest(line) <= until ||
	       (line == ctx->legacy && !turn(line, until)))
		sim_wait();
	rc = ctx->sticky;
	line->pins--;
	ctx->pins--;
	sim_wake();
	return rc;
}

/* All work up to now of all streams; the caller has pinned the context. */
void sim_ctx_wait(struct sim_ctx *ctx)
{
	uint64_t until = last_ticket;
	struct sim_line *l;

	for (l = ctx->lines; l; )
		if (oldest(l) <= until) {
			sim_wait();
			l = ctx->lines;
		} else {
			l = l->next;
		}
}

/* No work comes in any more: let the rest end, then the workers. */
void sim_ctx_stop(struct sim_ctx *ctx)
{
	struct sim_line *l;

	while (ctx->lines) {
		for (l = ctx->lines; l; l = l->next)
			if (l->head)
				break;
		if (l) {
			sim_wait();
			continue;
		}
		for (l = ctx->lines; l && l->destroyed; l = l->next)
			;
		if (!l) {
			sim_wait();
			continue;
		}
		sim_handle_drop(SIM_KEY(l));
		sim_line_destroy(l);
	}
}
