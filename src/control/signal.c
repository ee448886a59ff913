/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/signal.h"

#include "base/config.h"
#include "base/log.h"
#include "control/server.h"
#include "sleep/gate.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The signal of each verb; 0: none.  Written before a handler is there. */
static volatile sig_atomic_t numbers[] = {
	[VS_VERB_SLEEP] = 0,
	[VS_VERB_WAKE] = 0,
};
static volatile pid_t installer;

static void handle(int number)
{
	int saved = errno;

	if (vs_gate_mine() && getpid() == installer)
		vs_server_poke(number == numbers[VS_VERB_SLEEP] ?
			       VS_VERB_SLEEP : VS_VERB_WAKE);
	errno = saved;
}

/* The signal that @len characters of @name mean, or 0. */
static int parse_one(const char *name, size_t len)
{
	int number = 0;
	size_t i;

	if (len > 3 && !strncmp(name, "SIG", 3)) {
		name += 3;
		len -= 3;
	}
	if (len == 4 && !strncmp(name, "USR1", 4))
		return SIGUSR1;
	if (len == 4 && !strncmp(name, "USR2", 4))
		return SIGUSR2;
	if (len < 7 || len > 8 || strncmp(name, "RTMIN+", 6))
		return 0;
	for (i = 6; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return 0;
		number = number * 10 + (name[i] - '0');
	}
	return SIGRTMIN + number <= SIGRTMAX ? SIGRTMIN + number : 0;
}

static bool parse(const char *setting, int *sleep_number, int *wake_number)
{
	const char *comma = strchr(setting, ',');

	if (!comma)
		return false;
	*sleep_number = parse_one(setting, comma - setting);
	*wake_number = parse_one(comma + 1, strlen(comma + 1));
	return *sleep_number && *wake_number && *sleep_number != *wake_number;
}

static void install(enum vs_verb verb, int number, int other)
{
	struct sigaction action = {
		.sa_handler = handle,
		/* Go and others give their threads small stacks. */
		.sa_flags = SA_RESTART | SA_ONSTACK,
	};
	struct sigaction old;

	if (sigaction(number, NULL, &old))
		return;
	if ((old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL) {
		vs_log_info("signal %d is the program's own: it does not %s",
			    number, verb == VS_VERB_SLEEP ? "sleep" : "wake");
		return;
	}
	numbers[verb] = number;
	/* Of two that are pending the second would run first, nested. */
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, other);
	if (sigaction(number, &action, NULL))
		numbers[verb] = 0;
}

void vs_signal_start(void)
{
	const char *setting = vs_config.signals;
	int sleep_number, wake_number;

	if (!setting || !strcmp(setting, "none"))
		return;
	if (!parse(setting, &sleep_number, &wake_number)) {
		vs_log_error("VSLEEP_SIGNALS=%.60s: must be none or two of "
			     "USR1, USR2 and RTMIN+0 to RTMIN+%d, as in "
			     "USR1,USR2; no signal sleeps or wakes", setting,
			     SIGRTMAX - SIGRTMIN);
		return;
	}
	installer = getpid();
	install(VS_VERB_SLEEP, sleep_number, wake_number);
	install(VS_VERB_WAKE, wake_number, sleep_number);
}

void vs_signal_stop(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	struct sigaction old;
	size_t i;

	sigemptyset(&action.sa_mask);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i] && !sigaction(numbers[i], NULL, &old) &&
		    old.sa_handler == handle)
			sigaction(numbers[i], &action, NULL);
		numbers[i] = 0;
	}
}
