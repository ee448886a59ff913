/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/thread.h"

#include <signal.h>

int vs_thread_start(pthread_t *thread, const char *name,
		    void *(*body)(void *), void *arg)
{
	sigset_t all, before;
	pthread_t fresh;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&fresh, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rc;
	pthread_setname_np(fresh, name);
	if (thread)
		*thread = fresh;
	else
		pthread_detach(fresh);
	return 0;
}
