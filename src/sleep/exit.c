/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/exit.h"
#include "sleep/gate.h"
#include "sleep/operation.h"
#include "sleep/pass.h"
#include "memory/ipc_import.h"
#include "base/log.h"

#define EXIT_WAKE 30	/* seconds */
#define EXIT_IMPORTS 1	/* seconds, for what is others': it may be asleep */

/* The C++ ABI's, in every C library; stdlib.h does not declare them. */
int __cxa_atexit(void (*handler)(void *), void *arg, void *object);
void __cxa_finalize(void *object);

static char token;		/* stands for the object of our handler */
static bool armed;		/* of the operation thread */
static atomic_bool disarming;

/* Who needs no more than its own for its exit does not wait for others. */
static void wake_imports(void)
{
	static const struct vs_request wake = {
		.verb = VS_VERB_WAKE, .level = 1, .all_tags = true,
		.hold = VS_NO, .verify = VS_NO,
	};
	struct vs_reply reply;

	if (!vs_ipc_sleeps(~(vs_tag_set)0))
		return;
	vs_operation_run(&wake, EXIT_IMPORTS, &reply);
	if (reply.status)
		vs_log_warn("exit: %s", reply.why.text);
}

void vs_exit_now(void)
{
	static const struct vs_request wake = {
		.verb = VS_VERB_WAKE, .level = 1, .all_tags = true,
		.hold = VS_NO, .own_only = true, .wait_ms = EXIT_WAKE * 1000,
		.verify = VS_NO,	/* better a wrong page than none */
	};
	static atomic_bool done;	/* with the gate closed none sleeps */
	struct vs_reply reply;
	bool failed = false;

	if (!vs_gate_own_process() || atomic_load(&done))
		return;
	/* From here on a sleep that has not shut the gate yet cannot; one that
	 * has shows in the state. */
	vs_gate_close();
	vs_pass_stop();
	vs_operation_status(&reply);
	if (reply.ledger.state != VS_AWAKE) {
		/* No wake ends a pause that drains. */
		vs_operation_cancel();
		do {
			vs_operation_run(&wake, EXIT_WAKE, &reply);
		} while (reply.status == VS_CANCELLED);
		/* A lost context is the program's own trouble. */
		failed = reply.status && reply.status != VS_FAILED;
		if (failed)
			vs_log_error("exit while asleep: %s", reply.why.text);
		else if (!reply.status)
			wake_imports();
	}
	atomic_store(&done, !failed);
	vs_gate_exit(failed);
}

/* Taking the handler back runs it: there is no other way to take it back. */
static void handle(void *unused)
{
	(void)unused;
	if (!atomic_load(&disarming))
		vs_exit_now();
}

void vs_exit_arm(void)
{
	if (armed)
		return;
	if (__cxa_atexit(handle, NULL, &token))
		vs_log_warn("no exit handler: an exit while asleep may hang");
	else
		armed = true;
}

void vs_exit_disarm(void)
{
	if (!armed)
		return;
	atomic_store(&disarming, true);
	__cxa_finalize(&token);
	atomic_store(&disarming, false);
	armed = false;
}
