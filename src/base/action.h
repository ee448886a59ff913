/* SPDX-License-Identifier: Apache-2.0 */
/*
 * action - what signals do: the C library's real functions, and which handler
 * is ours and shown to nobody.
 *
 * The library exports these functions itself, so that our own code calls them
 * through the table here.  All is async-signal-safe once vs_action_load was
 * called, and works before.  A child that shares our memory, as that of
 * vfork, changes nothing here: the owner is told by its number.
 */
#ifndef VS_BASE_ACTION_H
#define VS_BASE_ACTION_H

#include <signal.h>
#include <stdbool.h>

typedef void (*vs_action_handler)(int number);
typedef int vs_action_set(int number, const struct sigaction *action,
			  struct sigaction *old);
typedef vs_action_handler vs_action_signal(int number,
					   vs_action_handler handler);
typedef int vs_action_ignore(int number);
typedef int vs_action_interrupt(int number, int flag);

/* X(name, type): all that install or tell what a signal does. */
#define VS_ACTION_CALLS(X)						\
	X(sigaction, vs_action_set)					\
	X(__sigaction, vs_action_set)					\
	X(signal, vs_action_signal)					\
	X(bsd_signal, vs_action_signal)					\
	X(ssignal, vs_action_signal)					\
	X(sysv_signal, vs_action_signal)				\
	X(__sysv_signal, vs_action_signal)				\
	X(sigset, vs_action_signal)					\
	X(sigignore, vs_action_ignore)					\
	X(siginterrupt, vs_action_interrupt)

enum vs_action_call {
#define X(name, type) VS_ACTION_##name,
	VS_ACTION_CALLS(X)
#undef X
	VS_ACTION_COUNT
};

/* The next one in the loader's order; NULL where there is none. */
void *vs_action_real(enum vs_action_call call);

/* Look all of them up. */
void vs_action_load(void);

/* The real sigaction. */
int vs_action(int number, const struct sigaction *action,
	      struct sigaction *old);

/* From here on this is our handler, of this process; @given is told when the
 * program has taken over a signal that vs_action_held named. */
void vs_action_ours(void (*handler)(int, siginfo_t *, void *),
		    void (*given)(int number));

/* Our handler is about to take the place of @plain, or has; vs_action_plain
 * gives back what a program without us would find. */
void vs_action_held(int number, const struct sigaction *plain);
void vs_action_plain(int number, struct sigaction *out);

/* What was installed is our handler; is it there now? */
bool vs_action_is_ours(vs_action_handler handler);
bool vs_action_now_ours(int number);

/* The program may have set what the signal does. */
void vs_action_changed(int number);

#endif
