/* SPDX-License-Identifier: Apache-2.0 */
/* rest_fixture - requests that are on their way, and a program that is busy. */
#ifndef TESTS_REST_FIXTURE_H
#define TESTS_REST_FIXTURE_H

#include "memory_fixture.h"

#define LARGE (17 * MIB)

extern const struct vs_request rest_sleep_all, rest_wake_all, rest_pause_it;

/* LARGE bytes of the tag "w", filled. */
extern CUdeviceptr rest_base;

void rest_start(void);

struct vs_job *rest_submit(const struct vs_request *request);
/* Wait until it is done; and forget it; submit it before.  This and the waits
 * below fail the test when it takes too long. */
struct vs_reply rest_wait_for(struct vs_job *job, enum vs_status status);
struct vs_reply rest_end(struct vs_job *job, enum vs_status status);
struct vs_reply rest_ask(const struct vs_request *request,
			 enum vs_status status);

void rest_wait_holds(unsigned holds);
void rest_wait_phase(struct vs_job *job, const char *phase);
void rest_wait_draining(struct vs_job *job);

/* A capture keeps the program from its rest; it ends. */
void rest_hold_drain(void);
void rest_let_drain(void);

/* Awake under these holds, with all its bytes. */
void rest_assert_awake(unsigned holds);

#endif
