/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "rest_fixture.h"

#include "memory/capture.h"
#include "sleep/gate.h"

#include <sched.h>
#include <string.h>

const struct vs_request rest_sleep_all = {
	.verb = VS_VERB_SLEEP, .level = 1, .all_tags = true,
	.timeout_ms = 60000,
};
const struct vs_request rest_wake_all = {
	.verb = VS_VERB_WAKE, .all_tags = true,
};
const struct vs_request rest_pause_it = {
	.verb = VS_VERB_PAUSE, .timeout_ms = 60000,
};

#define PATIENCE 30.0		/* seconds that anything may take */

CUdeviceptr rest_base;
static CUstream stream;

void rest_start(void)
{
	struct vs_why why;

	fixture_start("w", "");
	rest_base = fixture_alloc("w", LARGE);
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_assert_int_eq(vs_operation_start(&why), VS_OK);
}

/* Called again and again with what is being waited for. */
static void still(double since, const char *what)
{
	ck_assert_msg(vs_lock_now() < since + PATIENCE, "no %s within %.0f s",
		      what, PATIENCE);
	sched_yield();
}

struct vs_job *rest_submit(const struct vs_request *request)
{
	struct vs_job *job = vs_operation_submit(request, -1, NULL);

	ck_assert_ptr_nonnull(job);
	return job;
}

struct vs_reply rest_wait_for(struct vs_job *job, enum vs_status status)
{
	double since = vs_lock_now();
	struct vs_reply reply;

	while (!vs_operation_done(job, &reply))
		still(since, "end of a request");
	ck_assert_msg(reply.status == status, "%s instead of %s: %s",
		      vs_why_word(reply.status), vs_why_word(status),
		      reply.why.text);
	return reply;
}

struct vs_reply rest_end(struct vs_job *job, enum vs_status status)
{
	struct vs_reply reply = rest_wait_for(job, status);

	vs_operation_forget(job);
	return reply;
}

struct vs_reply rest_ask(const struct vs_request *request,
			   enum vs_status status)
{
	return rest_end(rest_submit(request), status);
}

void rest_wait_holds(unsigned holds)
{
	double since = vs_lock_now();

	while (vs_gate_holds() != holds)
		still(since, "change of the holds");
}

void rest_wait_phase(struct vs_job *job, const char *phase)
{
	struct vs_progress progress = { .phase = "" };
	double since = vs_lock_now();

	while (strcmp(progress.phase, phase)) {
		still(since, phase);
		vs_operation_progress(job, &progress);
	}
}

void rest_wait_draining(struct vs_job *job)
{
	double since = vs_lock_now();

	rest_wait_phase(job, "draining");
	while (fixture_ledger().state != VS_DRAINING)
		still(since, "drain");
}

/* A capture keeps a program from its rest. */
void rest_hold_drain(void)
{
	vs_capture_begin_on(stream);
	vs_capture_began(stream, false,
			 vs_real.cuStreamBeginCapture(stream));
}

void rest_let_drain(void)
{
	CUgraph graph;

	ck_ok(vs_real.cuStreamEndCapture(stream, &graph));
	vs_capture_ended(stream, false);
}

void rest_assert_awake(unsigned holds)
{
	struct vs_ledger now = fixture_ledger();

	ck_assert_int_eq(now.state, VS_AWAKE);
	ck_assert_uint_eq(now.holds, holds);
	ck_assert_uint_eq(now.evicted_bytes, 0);
	fixture_assert_sound();
	fixture_assert_filled(rest_base, LARGE);
}
