/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/thread.h"
#include "base/config.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#define FEW 4	/* CPUs: a thread that has less is bound to a place */

static cpu_set_t at_start;	/* both are written before there are threads */
static bool at_start_known;

__attribute__((constructor)) static void note_cpus(void)
{
	at_start_known = !sched_getaffinity(0, sizeof(at_start), &at_start);
}

/*
 * OpenMP and others bind the threads of the program to a core each.  What is
 * started from there would share that one core.
 */
static void unbind(pthread_t thread)
{
	cpu_set_t now;

	if (at_start_known &&
	    !pthread_getaffinity_np(thread, sizeof(now), &now) &&
	    CPU_COUNT(&now) < FEW && CPU_COUNT(&now) < CPU_COUNT(&at_start))
		pthread_setaffinity_np(thread, sizeof(at_start), &at_start);
}

size_t vs_thread_cpus(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t now;

	if (!sched_getaffinity(0, sizeof(now), &now))
		return (size_t)CPU_COUNT(&now);
	return cores > 0 ? (size_t)cores : 1;
}

size_t vs_thread_count(size_t most)
{
	size_t count = vs_config.threads, cpus = vs_thread_cpus();

	if (!count)
		count = cpus > 2 ? cpus - 1 : 1;
	return count < most ? count : most;
}

int vs_thread_start(pthread_t *thread, const char *name,
		    void *(*body)(void *), void *arg)
{
	sigset_t all, before;
	pthread_t fresh;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&fresh, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rc;
	unbind(fresh);
	pthread_setname_np(fresh, name);
	if (thread)
		*thread = fresh;
	else
		pthread_detach(fresh);
	return 0;
}
