/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "pool_fixture.h"

#include "memory/arena.h"
#include "memory/pool.h"
#include "sleep/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In the place of the thread that does: tests look after pools themselves. */
void vs_watch_begin(void)
{
}

const size_t pool_sizes[POOL_SIZES] = { 1000, MIB + 5, 20 * MIB };
const size_t pool_large = 150 * MIB;
CUstream one, two;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool go, go_more, began_more;	/* under mutex */

void pool_start(void)
{
	fixture_start("default", "");
	ck_ok(vs_real.cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	ck_ok(vs_real.cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
}

void pool_end(void)
{
	ck_ok(vs_real.cuCtxSynchronize());
	vs_pool_settle();
	ck_assert_uint_eq(vs_pool_spare(0), 0);
	fixture_assert_empty();
}

CUmemoryPool pool_default(void)
{
	CUmemoryPool pool;

	ck_ok(vs_real.cuDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

CUdeviceptr pool_alloc(size_t size, CUstream stream)
{
	CUdeviceptr base = 0;

	ck_ok(cuMemAllocAsync(&base, size, stream));
	ck_assert_ptr_nonnull(fixture_segment(base));
	return base;
}

void pool_free(CUdeviceptr base, CUstream stream)
{
	ck_ok(cuMemFreeAsync(base, stream));
	ck_assert_ptr_null(fixture_segment(base));
}

unsigned long pool_questions(void)
{
	return sim_calls("cuStreamQuery") + sim_calls("cuEventRecord") +
	       sim_calls("cuEventQuery") + sim_calls("cuCtxRecordEvent") +
	       sim_calls("cuStreamWaitEvent") + sim_calls("cuMemCreate");
}

static void set(bool *flag)
{
	pthread_mutex_lock(&mutex);
	*flag = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_for(const bool *flag)
{
	pthread_mutex_lock(&mutex);
	while (!*flag)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

void pool_wait_fn(void *unused)
{
	(void)unused;
	wait_for(&go);
}

void pool_nothing_fn(void *unused)
{
	(void)unused;
}

static void wait_more(void *unused)
{
	(void)unused;
	set(&began_more);
	wait_for(&go_more);
}

void pool_busy(CUstream stream)
{
	ck_ok(vs_real.cuLaunchHostFunc(stream, pool_wait_fn, NULL));
}

void pool_let_go(void)
{
	set(&go);
}

void pool_busy_more(CUstream stream)
{
	ck_ok(vs_real.cuLaunchHostFunc(stream, wait_more, NULL));
}

void pool_wait_for_second(void)
{
	wait_for(&began_more);
}

void pool_let_go_more(void)
{
	set(&go_more);
}

/* Blocked in a wait of the driver it makes calls no more. */
static void *let_go(void *unused)
{
	unsigned long calls = 0, before = 1;

	while (!calls || calls != before) {
		before = calls;
		usleep(20000);
		calls = sim_calls("cuCtxSynchronize");
	}
	pool_let_go();
	return unused;
}

void pool_let_go_later(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
	pthread_detach(thread);
}

bool pool_was_let_go(void)
{
	bool yes;

	pthread_mutex_lock(&mutex);
	yes = go;
	pthread_mutex_unlock(&mutex);
	return yes;
}

void pool_full(void)
{
	sim_limit(0, sim_used(0) + MIB);
}
