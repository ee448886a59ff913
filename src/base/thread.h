/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread - threads of ours in somebody else's process.
 *
 * All signals are blocked in them from their first instruction on, so no
 * handler of the program's ever runs there.  Where the thread that starts one
 * is bound to a core, the new one may use all that the program began with.
 */
#ifndef VS_BASE_THREAD_H
#define VS_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* 0, or an errno.  @name (at most 15 characters) is what ps and top show.
 * @thread NULL: detached. */
int vs_thread_start(pthread_t *thread, const char *name,
		    void *(*body)(void *), void *arg);

/* CPUs that this thread may run on. */
size_t vs_thread_cpus(void);

/* How many threads shall work on something at once: VSLEEP_THREADS, else one
 * less than those processors, at least one; @most at most. */
size_t vs_thread_count(size_t most);

#endif
