/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of ours in a program that has its own ideas of where threads run. */
#include <config.h>

#include "memory_fixture.h"

#include "base/thread.h"

#include <sched.h>
#include <signal.h>

struct seen {
	cpu_set_t cpus;
	size_t count;
	sigset_t blocked;
};

static void *look(void *arg)
{
	struct seen *seen = arg;

	while (sched_getaffinity(0, sizeof(seen->cpus), &seen->cpus) ||
	       CPU_COUNT(&seen->cpus) < 2)
		sched_yield();
	seen->count = vs_thread_cpus();
	pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
	return NULL;
}

/* As OpenMP binds it; the new thread sees it until it is let go. */
START_TEST(a_bound_thread_does_not_bind_those_that_it_starts)
{
	cpu_set_t all, one;
	struct seen seen;
	pthread_t thread;
	int cpu = 0;

	ck_assert(!sched_getaffinity(0, sizeof(all), &all));
	if (CPU_COUNT(&all) < 2)
		return;
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert(!sched_setaffinity(0, sizeof(one), &one));
	ck_assert_uint_eq(vs_thread_cpus(), 1);
	ck_assert(!vs_thread_start(&thread, "test", look, &seen));
	ck_assert(!pthread_join(thread, NULL));
	ck_assert(CPU_EQUAL(&seen.cpus, &all));
	ck_assert_uint_eq(seen.count, (size_t)CPU_COUNT(&all));
	ck_assert(sigismember(&seen.blocked, SIGUSR1));
	ck_assert_uint_eq(vs_thread_cpus(), 1);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, a_bound_thread_does_not_bind_those_that_it_starts);
}

int main(void)
{
	return fixture_main("thread", fill);
}
