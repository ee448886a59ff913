/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_internal - what the files of the simulated driver share.
 *
 * One lock (sim_lock) guards everything here; SIM_ENTER takes it for the whole
 * call.  It is dropped only while a thread waits (sim_wait) and while a
 * stream's worker runs an operation, so neither may keep a pointer to an
 * object across that without a pin.
 */
#ifndef VS_TESTS_SIM_INTERNAL_H
#define VS_TESTS_SIM_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cuda.h"
#include "sim.h"
#include "sim_share.h"

#define SIM_STACK	64		/* contexts that a thread can push */
#define SIM_BLOCK	((size_t)2 << 20)
#define SIM_NEVER	UINT64_MAX

#define SIM_EXPORT	__attribute__((visibility("default")))
#define SIM_API(sym, params) SIM_EXPORT CUresult CUDAAPI sym params

/*
 * Every implemented entry point begins with one of these: it counts the call,
 * injects failures, refuses calls before cuInit, in a forked child or from a
 * host callback, and takes the lock.  SIM_ENTER_ANY refuses nothing.
 */
#define SIM_ENTER(sym)		SIM_ENTER_(sym, true)
#define SIM_ENTER_ANY(sym)	SIM_ENTER_(sym, false)
#define SIM_ENTER_(sym, strict)						\
	static struct sim_entry sim_this = { .name = #sym };		\
	CUresult sim_rc = sim_enter(&sim_this, strict);			\
	if (sim_rc != CUDA_SUCCESS)					\
		return sim_rc;						\
	__attribute__((cleanup(sim_guard_end), unused))			\
	int sim_guard = sim_guard_begin()

/* An entry point that is another's body. */
#define SIM_SAME(sym, params, call)					\
SIM_API(sym, params)							\
{									\
	SIM_ENTER(sym);							\
	return call;							\
}

/* An entry point and its per-thread-stream twin; call uses pt for which. */
#define SIM_TWINS(sym, twin, params, call)				\
SIM_API(sym, params)							\
{									\
	const bool pt = false;						\
	SIM_ENTER(sym);							\
	return call;							\
}									\
SIM_API(twin, params)							\
{									\
	const bool pt = true;						\
	SIM_ENTER(twin);						\
	return call;							\
}

#define SIM_UNUSED __attribute__((unused))

#define SIM_TRY(expr)							\
	do {								\
		CUresult sim_try = (expr);				\
		if (sim_try != CUDA_SUCCESS)				\
			return sim_try;					\
	} while (0)

struct sim_entry {
	const char *name;
	atomic_ulong calls;
	atomic_bool listed;
	struct sim_entry *next;
};

enum sim_state { SIM_FRESH, SIM_READY, SIM_FORKED, SIM_OVER };

enum sim_type {
	SIM_CONTEXT = 1, SIM_STREAM, SIM_EVENT, SIM_MODULE, SIM_FUNCTION,
	SIM_LIBRARY, SIM_KERNEL, SIM_GRAPH, SIM_NODE, SIM_EXEC, SIM_POOL,
	SIM_ARRAY, SIM_PHYS, SIM_GREEN, SIM_TYPES
};

struct sim_config {
	int devices;
	size_t memory;
	size_t granularity;
	bool dirty;
	size_t copy_mibps;
	size_t no_vmm;			/* device; SIM_DEVICES: none */
	size_t still;			/* likewise: moves no managed memory */
	size_t direct;			/* likewise: the host reaches it */
	size_t context;		/* device memory that each one takes */
	size_t queue;		/* entries of a stream's queue, 0 no limit */
	const char *share;
};

/* Where native memory of a context or a pool comes from. */
struct sim_heap {
	int dev;
	bool paid;		/* small blocks are part of the context */
	struct sim_block *blocks;
};

struct sim_ctx {
	struct sim_ctx *next;
	unsigned long long id;
	uint64_t gen;		/* 0 for a primary context: it comes back */
	int dev;
	bool primary;
	bool live;
	unsigned pins;		/* threads waiting in it */
	unsigned crowded;	/* those that wait for room in a queue */
	unsigned flags;
	unsigned api;
	unsigned peers;		/* bit per device */
	CUresult sticky;
	CUfunc_cache cache;
	CUsharedconfig shared;
	size_t limits[16];
	struct sim_line *lines;
	struct sim_line *legacy;
	struct sim_heap heap;
	struct sim_heap globals;	/* small ones of modules */
};

struct sim_device {
	size_t limit;
	size_t used;
	size_t reserve;		/* of it: kept for managed memory elsewhere */
	unsigned primary_refs;
	unsigned primary_flags;
	struct sim_ctx *primary;
	struct sim_pool *pool_default;
	struct sim_pool *pool_current;
};

/* A point in a context's work; ready when pending is 0. */
struct sim_stamp {
	unsigned refs;
	unsigned pending;
	uint64_t ns;
};

/*
 * One operation.  ready and done run under the lock, run without it.  An
 * operation may be queued many times (graphs), so run does not change it.
 */
struct sim_op {
	unsigned refs;
	CUgraphNodeType type;
	bool polls;		/* ready depends on memory, not on work */
	bool host;		/* host function, after a sticky error too */
	bool (*ready)(struct sim_op *op);
	void (*run)(struct sim_op *op, struct sim_line *line);
	void (*done)(struct sim_op *op, struct sim_line *line);
	void (*drop)(struct sim_op *op);
};

struct sim_item {
	struct sim_item *next;
	struct sim_op *op;
	uint64_t ticket;
};

/* A stream. */
struct sim_line {
	struct sim_line *next;
	struct sim_ctx *ctx;
	unsigned long long id;
	unsigned flags;
	int priority;
	bool blocking;		/* synchronises with the legacy stream */
	bool per_thread;
	struct sim_green *green;	/* that it was made in */
	uint64_t owner;		/* thread of a per-thread stream, 0 none */
	bool destroyed;
	bool quit;
	bool worker;
	unsigned pins;
	pthread_t thread;
	pthread_cond_t work;
	struct sim_item *head;
	struct sim_item *tail;
	size_t length;
	unsigned long long round;	/* of sim_line_busy */
	struct sim_capture *capture;
	struct sim_node **ends;	/* capture: what the next node depends on */
	size_t n_ends;
};

enum sim_kind {
	SIM_NATIVE = 1, SIM_MANAGED, SIM_POOLED, SIM_GLOBAL, SIM_HOST,
	SIM_REGISTERED, SIM_MAPPED, SIM_IPC, SIM_GRAPHED
};

struct sim_span {
	uintptr_t base;
	size_t len;
};

/* Memory that the driver knows; ranges never overlap. */
struct sim_range {
	struct sim_span span;
	enum sim_kind kind;
	struct sim_range *next, **link;
	int dev;			/* -1 host */
	struct sim_ctx *ctx;		/* NULL: no context owns it */
	unsigned long long id;
	off_t off;			/* in the memory file */
	size_t physical;		/* own pages, 0 part of a block */
	struct sim_block *block;
	struct sim_phys *phys;
	struct sim_pool *pool;
	unsigned flags;
	bool sync_memops;
	bool freeing;
	struct sim_moving *moving;	/* managed: where its pages are */
	unsigned char access[SIM_DEVICES + 1];	/* last one: host */
	unsigned char *pieces;	/* the same for each granule, or NULL */
};

struct sim_reserve {
	struct sim_span span;
	unsigned maps;
};

struct sim_phys {
	uint64_t handle;
	int dev;			/* -1 host */
	size_t size;
	off_t off;
	int fd;				/* -1 our own memory file */
	unsigned refs;
	unsigned maps;
	struct sim_shared *shared;	/* once exported or imported */
	bool imported;
	CUmemAllocationProp prop;
};

struct sim_tls {
	struct {
		struct sim_ctx *ctx;
		uint64_t gen;
		struct sim_green *green;	/* that stands for ctx */
	} stack[SIM_STACK];
	unsigned depth;
	CUstreamCaptureMode mode;
	bool in_callback;
	uint64_t tid;
};

/* sim_version.c */
extern const int sim_version __attribute__((visibility("hidden")));

/* sim_main.c */
extern pthread_mutex_t sim_lock;
extern struct sim_config sim_config;
extern struct sim_device sim_device[SIM_DEVICES];
extern atomic_int sim_state;
extern __thread struct sim_tls sim_tls;
CUresult sim_enter(struct sim_entry *entry, bool strict);
int sim_guard_begin(void);
void sim_guard_end(int *guard);
uint64_t sim_tid(void);
uint64_t sim_now(void);			/* ns */
unsigned long long sim_next_id(void);
bool sim_dev_ok(CUdevice dev);

/* sim_fail.c */
void sim_fail_parse(const char *text);
CUresult sim_fail_check(const char *name);
extern atomic_bool sim_fail_armed;
void sim_entry_list(struct sim_entry *entry);
void sim_fail_reset(void);

/* sim_ledger.c */
void sim_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_ledger_write(const char *path);
void sim_ledger_reset(void);

/* sim_table.c: handles by value, memory by address */
void sim_handle_add(uint64_t key, enum sim_type type, void *obj);
void *sim_handle_get(uint64_t key, enum sim_type type);
void sim_handle_drop(uint64_t key);
unsigned long sim_handle_count(enum sim_type type);
void sim_handle_each(enum sim_type type, void (*fn)(void *obj, void *arg),
		     void *arg);
struct sim_range *sim_range_at(uintptr_t addr);
struct sim_range *sim_range_over(uintptr_t base, size_t len);
struct sim_range *sim_range_new(uintptr_t base, size_t len,
				enum sim_kind kind);
void sim_range_drop(struct sim_range *r);
extern struct sim_range *sim_ranges;
struct sim_reserve *sim_reserve_at(uintptr_t base, size_t len);
void sim_reserve_add(struct sim_reserve *r);
void sim_reserve_drop(struct sim_reserve *r);
void sim_reserve_reset(void);
extern unsigned long sim_reserves;

#define SIM_KEY(handle) ((uint64_t)(uintptr_t)(handle))

/* sim_share.c: how much memory a device has left */
void sim_share_open(const char *path);
void sim_share_close(void);
CUresult sim_take(int dev, size_t bytes);
void sim_give(int dev, size_t bytes);
size_t sim_used_by_all(int dev);
void sim_reserve_put(int dev, size_t bytes);
bool sim_reserve_take(int dev, size_t bytes);

/* sim_phys.c: the memory file */
void sim_phys_open(void);
void sim_phys_close(void);
int sim_phys_fd(void);
off_t sim_phys_new(size_t size);
void sim_phys_dirty(off_t off, size_t size);
void sim_phys_punch(off_t off, size_t size);
uintptr_t sim_space_new(size_t size, size_t align, uintptr_t hint);
bool sim_space_map(uintptr_t at, size_t size, int fd, off_t off, int prot);
void sim_space_clear(uintptr_t at, size_t size);
void sim_space_free(uintptr_t at, size_t size);
void sim_fill_dirty(void *p, size_t len);

/* sim_context.c */
CUresult sim_ctx_current(struct sim_ctx **out);
CUresult sim_ctx_get(CUcontext handle, struct sim_ctx **out);
CUresult sim_ctx_alive(struct sim_ctx *ctx);
struct sim_ctx *sim_ctx_list(void);
struct sim_ctx *sim_ctx_peek(void);	/* current one or NULL, no error */
void sim_ctx_reset(void);
CUresult sim_primary_retain(CUdevice dev, struct sim_ctx **out);
CUresult sim_primary_release(CUdevice dev);

/* sim_green.c */
struct sim_green *sim_green_of(CUcontext handle);
struct sim_ctx *sim_green_owner(const struct sim_green *green);
void sim_green_enter(struct sim_green *green);
void sim_green_leave(struct sim_green *green);
void sim_green_forget(const struct sim_ctx *owner);
CUresult sim_green_stream(const struct sim_line *line, CUgreenCtx *out);

/* sim_line.c: streams and their workers */
CUresult sim_line_get(CUstream handle, bool pt, struct sim_line **out);
struct sim_line *sim_line_legacy(struct sim_ctx *ctx);
struct sim_line *sim_line_new(struct sim_ctx *ctx, unsigned flags, int prio);
CUresult sim_submit(struct sim_line *line, struct sim_op *op);
void sim_queue(struct sim_line *line, struct sim_op *op);
bool sim_line_room(struct sim_line *line);
unsigned long long sim_line_mark_busy(struct sim_ctx *ctx);
struct sim_line *sim_line_busy(struct sim_ctx *ctx, unsigned long long round);
void sim_line_destroy(struct sim_line *line);
bool sim_line_idle(struct sim_line *line);
CUresult sim_line_wait(struct sim_line *line);
void sim_ctx_wait(struct sim_ctx *ctx);
void sim_ctx_stop(struct sim_ctx *ctx);
void sim_wait(void);			/* for something to be done */
void sim_wake(void);			/* those who wait */
void *sim_op_new(size_t size, CUgraphNodeType type);
void sim_op_put(struct sim_op *op);
void sim_op_exec(struct sim_op *op, struct sim_line *line);
void sim_line_thread_gone(uint64_t tid);

/* sim_stream.c */
struct sim_op *sim_op_host(CUhostFn fn, void *data);

/* sim_event.c */
void sim_stamp_put(struct sim_stamp *s);
void sim_event_forget(struct sim_ctx *ctx);
void sim_capture_event_drop(struct sim_capture *cap);

/* sim_check.c: is this memory what a copy may touch */
CUresult sim_check_device(struct sim_ctx *ctx, uintptr_t p, size_t n,
			  bool write);
CUresult sim_check_any(struct sim_ctx *ctx, uintptr_t p, size_t n, bool write,
		       bool *pageable);
bool sim_is_device(uintptr_t p);

/* sim_mem.c */
CUresult sim_native_alloc(struct sim_ctx *ctx, size_t size, enum sim_kind kind,
			  struct sim_range **out);
/* Small ones take no memory but the context's. */
CUresult sim_global_alloc(struct sim_ctx *ctx, size_t size,
			  struct sim_range **out);
CUresult sim_heap_alloc(struct sim_heap *heap, size_t size, enum sim_kind kind,
			struct sim_range **out);
void sim_native_free(struct sim_range *r);
void sim_mem_forget(struct sim_ctx *ctx);
void sim_mem_reset(void);

/* sim_managed.c */
bool sim_managed_still(int dev);
void sim_managed_drop(struct sim_range *r);
void sim_managed_used(uintptr_t at, size_t n);
void sim_managed_used_any(void);

/* sim_host.c */
void sim_host_drop(struct sim_range *r);

/* sim_vmm.c */
void sim_vmm_reset(void);
unsigned sim_vmm_access(const struct sim_range *r, size_t slot, uintptr_t at);
struct sim_phys *sim_phys_create(int dev, size_t size,
				 const CUmemAllocationProp *prop);
void sim_phys_settle(struct sim_phys *p);

/* sim_export.c */
void sim_export_settle(void);
void sim_shared_drop(struct sim_phys *p);
bool sim_shared_busy(struct sim_phys *p);

/* sim_ipc.c */
void sim_ipc_drop(struct sim_range *r);

/* sim_module.c, sim_copy3d.c, sim_kernel.c */
void sim_module_forget(struct sim_ctx *ctx);
void sim_array_forget(struct sim_ctx *ctx);
void sim_kernel_reset(void);

/* sim_pool.c */
void sim_pool_return(struct sim_range *r);
unsigned sim_pool_access(const struct sim_pool *p, int dev);
void sim_pool_reset(void);

/* sim_capture.c */
CUresult sim_unsafe(void);		/* a call that captures forbid */
CUresult sim_capture_ctx(struct sim_ctx *ctx);
CUresult sim_capture_line(struct sim_line *line);
CUresult sim_capture_implicit(struct sim_line *line);
CUresult sim_capture_add(struct sim_line *line, struct sim_op *op);
void sim_capture_forget(struct sim_ctx *ctx);
void sim_capture_leave(struct sim_line *line);

#endif
