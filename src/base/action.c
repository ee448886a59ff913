/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/action.h"

#include "base/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define SIGNALS 64
#define KERNEL_MASK 8	/* bytes of sa_mask that the C library fills */

static const char *const names[VS_ACTION_COUNT] = {
#define X(name, type) #name,
	VS_ACTION_CALLS(X)
#undef X
};

static _Atomic(void *) real[VS_ACTION_COUNT];
static _Atomic(vs_action_handler) own;
static _Atomic(vs_action_handler) on_given;
static _Atomic pid_t owner;
static _Atomic uint64_t held;	/* bit n - 1: signal n has our handler */

/* What ours took the place of: a default may have flags and a mask, too.
 * Written before our handler is there. */
static struct sigaction plain[SIGNALS];

void *vs_action_real(enum vs_action_call call)
{
	void *found = atomic_load_explicit(&real[call], memory_order_acquire);

	if (found)
		return found;
	found = vs_driver_dlsym(RTLD_NEXT, names[call]);
	if (found)
		atomic_store_explicit(&real[call], found,
				      memory_order_release);
	return found;
}

void vs_action_load(void)
{
	bool missing = false;
	int call;

	for (call = 0; call < VS_ACTION_COUNT; call++)
		if (!vs_action_real((enum vs_action_call)call))
			missing = true;
	/* The program has asked for nothing yet. */
	if (missing)
		dlerror();
}

int vs_action(int number, const struct sigaction *action,
	      struct sigaction *old)
{
	vs_action_set *function =
		(vs_action_set *)vs_action_real(VS_ACTION_sigaction);

	if (function)
		return function(number, action, old);
	errno = ENOSYS;
	return -1;
}

/* Both kinds of handlers lie at the same place of struct sigaction. */
void vs_action_ours(void (*handler)(int, siginfo_t *, void *),
		    void (*given)(int number))
{
	struct sigaction action = { .sa_sigaction = handler };

	atomic_store(&held, 0);
	atomic_store(&on_given, given);
	atomic_store(&owner, getpid());
	atomic_store(&own, action.sa_handler);
}

void vs_action_held(int number, const struct sigaction *before)
{
	plain[number - 1] = *before;
	atomic_fetch_or(&held, (uint64_t)1 << (number - 1));
}

void vs_action_plain(int number, struct sigaction *out)
{
	const struct sigaction *p = &plain[number - 1];

	out->sa_handler = p->sa_handler;
	out->sa_flags = p->sa_flags;
	out->sa_restorer = p->sa_restorer;
	memcpy(&out->sa_mask, &p->sa_mask, KERNEL_MASK);
}

bool vs_action_is_ours(vs_action_handler handler)
{
	return handler && handler == atomic_load(&own);
}

bool vs_action_now_ours(int number)
{
	struct sigaction now;
	int saved = errno;
	bool ours;

	if (!atomic_load(&own))
		return false;
	ours = !vs_action(number, NULL, &now) &&
	       vs_action_is_ours(now.sa_handler);
	errno = saved;
	return ours;
}

void vs_action_changed(int number)
{
	uint64_t bit;

	if (!atomic_load(&held) || number < 1 || number > SIGNALS)
		return;
	bit = (uint64_t)1 << (number - 1);
	if (!(atomic_load(&held) & bit) || getpid() != atomic_load(&owner) ||
	    vs_action_now_ours(number))
		return;
	if (atomic_fetch_and(&held, ~bit) & bit)
		atomic_load(&on_given)(number);
}
