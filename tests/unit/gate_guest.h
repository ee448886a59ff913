/* SPDX-License-Identifier: Apache-2.0 */
/* gate_guest - threads that go through the gate for a test. */
#ifndef TESTS_GATE_GUEST_H
#define TESTS_GATE_GUEST_H

#include <check.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/lock.h"
#include "sleep/gate.h"

#define GUEST_LONG 30.0	/* seconds; nothing takes so long */

/* A thread that enters, and leaves when it is told to. */
struct guest {
	pthread_t thread;
	const char *call;
	sem_t leave;
	atomic_bool inside;
	bool refused;
	int depth;
	pid_t tid;
};

void guest_send_in(struct guest *g, const char *call);
void guest_wait_inside(struct guest *g);
void guest_send_out(struct guest *g);

/* So many calls wait at the gate. */
void guest_wait_held(unsigned count);

void guest_start_gate(void);
enum vs_status guest_shut(enum vs_gate_hold hold);

#endif
