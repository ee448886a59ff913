/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/signal.h"

#include "base/action.h"
#include "base/config.h"
#include "base/log.h"
#include "control/server.h"
#include "sleep/gate.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000	/* the kernel's */
#endif

enum { SLEEP, WAKE, MARK, SIGNALS };

static const char *const words[SIGNALS] = {
	[SLEEP] = "sleep", [WAKE] = "wake", [MARK] = "set the marker",
};

/* 0: none.  Written once it is certain whose the signal is. */
static volatile sig_atomic_t numbers[SIGNALS];
static volatile pid_t installer;

/* To this thread, once it leaves the handler. */
static void send_again(int number, siginfo_t *info)
{
	pid_t pid = getpid();
	pid_t tid = (pid_t)syscall(SYS_gettid);

	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, number, info))
		syscall(SYS_tgkill, pid, tid, number);
}

static bool is_here(void)
{
	return vs_gate_mine() && getpid() == installer;
}

static void handle(int number, siginfo_t *info, void *context)
{
	struct sigaction action;
	int saved = errno;

	(void)context;
	if (!is_here()) {
		sigemptyset(&action.sa_mask);
		vs_action_plain(number, &action);
		vs_action(number, &action, NULL);
		send_again(number, info);
	} else if (number == numbers[SLEEP]) {
		vs_server_poke(VS_VERB_SLEEP);
	} else if (number == numbers[WAKE]) {
		vs_server_poke(VS_VERB_WAKE);
	} else if (number == numbers[MARK]) {
		vs_server_poke_mark(info->si_code == SI_QUEUE ?
				    info->si_value.sival_int : 0);
	} else {
		/* It may be the program's: see install. */
		send_again(number, info);
		sched_yield();
	}
	errno = saved;
}

static void give(int number)
{
	if (is_here())
		vs_server_poke_given(number);
}

void vs_signal_tell_given(int number)
{
	int i;

	for (i = 0; i < SIGNALS; i++)
		if (numbers[i] == number)
			vs_log_info("signal %d is the program's own now: it "
				    "does not %s any more", number, words[i]);
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

static bool parse(const char *setting, int chosen[SIGNALS])
{
	const char *comma = strchr(setting, ',');

	if (!strcmp(setting, "none"))
		return true;
	if (!comma)
		return false;
	chosen[SLEEP] = parse_one(setting, comma - setting);
	chosen[WAKE] = parse_one(comma + 1, strlen(comma + 1));
	return chosen[SLEEP] && chosen[WAKE] && chosen[SLEEP] != chosen[WAKE];
}

static bool parse_mark(const char *setting, int chosen[SIGNALS])
{
	if (!strcmp(setting, "none"))
		return true;
	chosen[MARK] = parse_one(setting, strlen(setting));
	return chosen[MARK] && chosen[MARK] != chosen[SLEEP] &&
	       chosen[MARK] != chosen[WAKE];
}

static void choose(int chosen[SIGNALS])
{
	const char *setting = vs_config.signals;

	if (!parse(setting, chosen)) {
		vs_log_error("VSLEEP_SIGNALS=%.60s: must be none or two of "
			     "USR1, USR2 and RTMIN+0 to RTMIN+%d, as in "
			     "USR1,USR2; no signal sleeps or wakes", setting,
			     SIGRTMAX - SIGRTMIN);
		vs_config_reject("VSLEEP_SIGNALS", "none");
		chosen[SLEEP] = chosen[WAKE] = 0;
	}
	setting = vs_config.mark_signal;
	if (!parse_mark(setting, chosen)) {
		vs_log_error("VSLEEP_MARK_SIGNAL=%.60s: must be none or one of "
			     "USR1, USR2 and RTMIN+0 to RTMIN+%d that "
			     "VSLEEP_SIGNALS does not name, as RTMIN+5; no "
			     "signal sets the marker", setting,
			     SIGRTMAX - SIGRTMIN);
		vs_config_reject("VSLEEP_MARK_SIGNAL", "none");
		chosen[MARK] = 0;
	}
}

/* The C library adds a flag of its own to what it installs. */
static bool same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_handler == b->sa_handler &&
	       !((a->sa_flags ^ b->sa_flags) & ~SA_RESTORER);
}

/*
 * Another thread may install a handler at the same time.  What came out when
 * ours went in, or was put back, is not lost: it goes in again until nothing
 * else came between.  Meanwhile our handler sends what comes once more.
 */
static bool take(int number, const struct sigaction *ours)
{
	struct sigaction last = *ours, out, in;

	if (vs_action(number, NULL, &out) || out.sa_handler != SIG_DFL)
		return false;
	vs_action_held(number, &out);
	if (vs_action(number, ours, &out))
		return false;
	if (out.sa_handler == SIG_DFL)
		return true;
	for (;;) {
		in = out;
		if (vs_action(number, &in, &out))
			return false;
		if (same(&out, &last))
			return false;
		last = in;
	}
}

static void install(const int chosen[SIGNALS], int which)
{
	struct sigaction action = {
		.sa_sigaction = handle,
		/* Go and others give their threads small stacks. */
		.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO,
	};
	int i;

	/* Of several that are pending the last would run first, nested. */
	sigemptyset(&action.sa_mask);
	for (i = 0; i < SIGNALS; i++)
		if (chosen[i])
			sigaddset(&action.sa_mask, chosen[i]);
	if (take(chosen[which], &action))
		numbers[which] = chosen[which];
	else
		vs_log_info("signal %d is the program's own: it does not %s",
			    chosen[which], words[which]);
}

void vs_signal_start(void)
{
	int chosen[SIGNALS] = { 0 };
	sigset_t all, before;
	int i;

	choose(chosen);
	if (!chosen[SLEEP] && !chosen[MARK])
		return;
	installer = getpid();
	vs_action_ours(handle, give);
	/* The handler waits for this thread until it is certain. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < SIGNALS; i++)
		if (chosen[i])
			install(chosen, i);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void vs_signal_stop(void)
{
	struct sigaction action;
	int i;

	sigemptyset(&action.sa_mask);
	for (i = 0; i < SIGNALS; i++) {
		if (numbers[i] && vs_action_now_ours(numbers[i])) {
			vs_action_plain(numbers[i], &action);
			vs_action(numbers[i], &action, NULL);
		}
		numbers[i] = 0;
	}
}
