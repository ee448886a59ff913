/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "gate_guest.h"

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *visit(void *arg)
{
	struct guest *g = arg;

	g->tid = (pid_t)syscall(SYS_gettid);
	g->refused = !vs_gate_enter(g->call);
	if (vs_gate_self)
		g->depth = atomic_load(&vs_gate_self->depth);
	if (g->refused)
		return NULL;
	atomic_store(&g->inside, true);
	sem_wait(&g->leave);
	vs_gate_leave();
	return NULL;
}

void guest_send_in(struct guest *g, const char *call)
{
	memset(g, 0, sizeof(*g));
	g->call = call;
	sem_init(&g->leave, 0, 0);
	ck_assert_int_eq(pthread_create(&g->thread, NULL, visit, g), 0);
}

void guest_wait_inside(struct guest *g)
{
	while (!atomic_load(&g->inside))
		sched_yield();
}

void guest_wait_held(unsigned count)
{
	while (vs_gate_held_now() != count)
		sched_yield();
}

void guest_send_out(struct guest *g)
{
	sem_post(&g->leave);
	ck_assert_int_eq(pthread_join(g->thread, NULL), 0);
}

void guest_start_gate(void)
{
	struct vs_why why;

	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
}

enum vs_status guest_shut(enum vs_gate_hold hold)
{
	struct vs_why why;

	return vs_gate_shut(hold, vs_lock_now() + GUEST_LONG, NULL, &why);
}
