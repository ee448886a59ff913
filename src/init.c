/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "init.h"
#include "base/config.h"
#include "base/context.h"
#include "base/driver.h"
#include "base/log.h"
#include "base/tag.h"
#include "control/server.h"
#include "control/signal.h"
#include "memory/peer.h"
#include "sleep/exit.h"
#include "sleep/gate.h"
#include "sleep/operation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool warmed;		/* under init_mutex */
static atomic_bool started;

static enum vs_log_level log_level(const char *word)
{
	static const char *const words[] = {
		"error", "warning", "info", "debug", "trace",
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i]))
			return (enum vs_log_level)i;
	vs_log_warn("VSLEEP_LOG_LEVEL=%s is none of error, warning, info, "
		    "debug, trace; using info", word);
	return VS_LOG_INFO;
}

static void warm_up(void)
{
	struct vs_why why;

	if (!vs_config_read()) {
		vs_gate_pass_through();
		return;
	}
	vs_log_open(*vs_config.log ? vs_config.log : NULL,
		    log_level(vs_config.log_level));
	vs_tag_init(vs_config.tag, vs_config.tags);
	if (vs_gate_start(&why)) {
		vs_log_error("%s; every call is passed through", why.text);
		vs_gate_pass_through();
	}
}

/* The first wrapped call; again as long as no libcuda is loaded. */
static void on_cold(void)
{
	if (!vs_driver_load())
		return;
	pthread_mutex_lock(&init_mutex);
	if (!warmed)
		warm_up();
	warmed = true;
	pthread_mutex_unlock(&init_mutex);
}

__attribute__((constructor)) static void set_hooks(void)
{
	vs_gate_on_cold = on_cold;
}

static void on_exit_stop(void)
{
	if (!vs_gate_mine())
		return;		/* a forked child inherits the handler */
	vs_exit_now();
	vs_server_stop();
}

/* The parent's socket must not live on in a child, nor its signals. */
static void child_forgets(void)
{
	vs_signal_stop();
	vs_server_stop();
}

static void start(void)
{
	struct vs_why why;

	if (vs_operation_start(&why)) {
		vs_log_error("%s; nothing can sleep", why.text);
		return;
	}
	if (vs_server_start(&why))
		vs_log_error("%s; vsleepctl cannot reach this process",
			     why.text);
	vs_signal_start();
	pthread_atfork(NULL, NULL, child_forgets);
	if (atexit(on_exit_stop))
		vs_log_warn("no exit handler; exit while asleep may hang");
}

void vs_init_context(CUcontext context)
{
	if (vs_gate_cold())
		on_cold();
	if (!vs_gate_mine())
		return;
	if (vs_context_note(context))
		vs_peer_context(context);
	if (atomic_load_explicit(&started, memory_order_acquire))
		return;
	pthread_mutex_lock(&init_mutex);
	if (!atomic_load(&started)) {
		start();
		atomic_store(&started, true);
	}
	pthread_mutex_unlock(&init_mutex);
}
