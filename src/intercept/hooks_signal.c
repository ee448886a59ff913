/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's functions that install and tell what a signal does: they do
 * what they do, and show our own handler as the default that it stands for.
 */
#include <config.h>

#include "intercept/hooks.h"
#include "base/action.h"

#include <errno.h>

#define REAL(call, type) ((type *)vs_action_real(VS_ACTION_##call))

/* Not in every header that has the definition. */
int __sigaction(int number, const struct sigaction *action,
		struct sigaction *old);
vs_action_handler bsd_signal(int number, vs_action_handler handler);

/* Before the program can be inside a signal handler. */
__attribute__((constructor)) static void load(void)
{
	vs_action_load();
}

static int set(vs_action_set *function, int number,
	       const struct sigaction *action, struct sigaction *old)
{
	int rc;

	if (!function) {
		errno = ENOSYS;
		return -1;
	}
	rc = function(number, action, old);
	if (rc)
		return rc;
	if (old && vs_action_is_ours(old->sa_handler))
		vs_action_plain(number, old);
	if (action)
		vs_action_changed(number);
	return rc;
}

static vs_action_handler set_handler(vs_action_signal *function, int number,
				     vs_action_handler handler)
{
	vs_action_handler old;

	if (!function) {
		errno = ENOSYS;
		return SIG_ERR;
	}
	old = function(number, handler);
	if (old != SIG_ERR)
		vs_action_changed(number);
	return vs_action_is_ours(old) ? SIG_DFL : old;
}

#define SET(name)							\
VS_EXPORT int name(int number, const struct sigaction *action,		\
		   struct sigaction *old)				\
{									\
	return set(REAL(name, vs_action_set), number, action, old);	\
}

#define SET_HANDLER(name)						\
VS_EXPORT vs_action_handler name(int number, vs_action_handler handler)	\
{									\
	return set_handler(REAL(name, vs_action_signal), number,	\
			   handler);					\
}

SET(sigaction)
SET(__sigaction)
SET_HANDLER(signal)
SET_HANDLER(bsd_signal)
SET_HANDLER(ssignal)
SET_HANDLER(sysv_signal)
SET_HANDLER(__sysv_signal)
SET_HANDLER(sigset)

VS_EXPORT int sigignore(int number)
{
	vs_action_ignore *function = REAL(sigignore, vs_action_ignore);
	int rc;

	if (!function) {
		errno = ENOSYS;
		return -1;
	}
	rc = function(number);
	if (!rc)
		vs_action_changed(number);
	return rc;
}

/* It puts what it finds back with other flags: that must not be ours. */
VS_EXPORT int siginterrupt(int number, int flag)
{
	vs_action_interrupt *function = REAL(siginterrupt,
					     vs_action_interrupt);
	struct sigaction action;
	int rc;

	if (!function) {
		errno = ENOSYS;
		return -1;
	}
	if (vs_action_now_ours(number)) {
		sigemptyset(&action.sa_mask);
		vs_action_plain(number, &action);
		vs_action(number, &action, NULL);
	}
	rc = function(number, flag);
	if (!rc)
		vs_action_changed(number);
	return rc;
}
