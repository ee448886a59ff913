/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "init.h"
#include "base/config.h"
#include "base/context.h"
#include "base/device.h"
#include "base/driver.h"
#include "base/log.h"
#include "base/tag.h"
#include "control/api.h"
#include "control/borrow.h"
#include "control/server.h"
#include "control/signal.h"
#include "memory/ipc_owner.h"
#include "memory/peer.h"
#include "sleep/exit.h"
#include "sleep/gate.h"
#include "sleep/operation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool warmed, read_once, active;	/* under init_mutex */
static atomic_bool started;

/* False: it is none, and @level stays as it is. */
static bool log_level(const char *word, enum vs_log_level *level)
{
	static const char *const words[] = {
		"error", "warning", "info", "debug", "trace",
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i])) {
			*level = (enum vs_log_level)i;
			return true;
		}
	return false;
}

/* What is wrong with the settings is for the log that they name. */
static void open_log(void)
{
	enum vs_log_level level = VS_LOG_INFO;
	bool known = log_level(vs_config.log_level, &level);

	vs_log_open(*vs_config.log ? vs_config.log : NULL, level);
	vs_config_say_rejected();
	if (known)
		return;
	vs_log_warn("VSLEEP_LOG_LEVEL=%s is none of error, warning, info, "
		    "debug, trace; using info", vs_config.log_level);
	vs_config_reject("VSLEEP_LOG_LEVEL", "info");
}

/* False: switched off for this program. */
static bool read_settings(void)
{
	if (read_once)
		return active;
	read_once = true;
	active = vs_config_read();
	if (!active)
		return false;
	open_log();
	vs_tag_init(vs_config.tag, vs_config.tags);
	vs_ipc_configure(vs_config.ipc);
	return true;
}

static void warm_up(void)
{
	struct vs_why why;

	if (!read_settings()) {
		vs_gate_pass_through();
		return;
	}
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

/* The program may set its tags before it has loaded libcuda. */
static bool prepare(void)
{
	bool present;

	pthread_mutex_lock(&init_mutex);
	present = read_settings();
	pthread_mutex_unlock(&init_mutex);
	return present;
}

__attribute__((constructor)) static void set_hooks(void)
{
	vs_gate_on_cold = on_cold;
	vs_ipc_way = &vs_borrow_way;
	vs_api_prepare = prepare;
}

static void on_exit_stop(void)
{
	if (!vs_gate_own_process())
		return;		/* a child inherits the handler */
	vs_exit_now();
	vs_server_stop();
}

/* The parent's socket must not live on in a child, nor its signals. */
static void child_forgets(void)
{
	vs_signal_stop();
	vs_server_stop();
	vs_ipc_owner_forget();
	vs_ipc_forget_fds();
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
	if (atexit(on_exit_stop) || at_quick_exit(on_exit_stop))
		vs_log_warn("no exit handler; exit while asleep may hang");
}

static void note_device(CUcontext context)
{
	struct vs_context *known = vs_context_pin(context);

	if (!known)
		return;
	vs_device_note(known->device);
	vs_context_unpin(known);
}

void vs_init_context(CUcontext context)
{
	if (vs_gate_cold())
		on_cold();
	if (!vs_gate_mine())
		return;
	if (vs_context_note(context)) {
		note_device(context);
		vs_peer_context(context);
	}
	if (atomic_load_explicit(&started, memory_order_acquire))
		return;
	pthread_mutex_lock(&init_mutex);
	if (!atomic_load(&started)) {
		start();
		atomic_store(&started, true);
	}
	pthread_mutex_unlock(&init_mutex);
}
