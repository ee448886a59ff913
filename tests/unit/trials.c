/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE_MAX 16
#define SECONDS 60	/* that a trial may take */

static long running;
static int bad;

static void reap(void)
{
	int status;

	if (wait(&status) < 0)
		exit(99);
	running--;
	if (WIFSIGNALED(status))
		fprintf(stderr, "a run died of signal %d\n", WTERMSIG(status));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		bad++;
}

static long at_once(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (cores < 2)
		return 2;
	return cores < AT_ONCE_MAX ? cores : AT_ONCE_MAX;
}

static bool left_out(void)
{
	static unsigned long count;
	unsigned long every = trials_every();

	return every > 1 && count++ % every;
}

int trials_begin(const struct trial *trial,
		 void (*body)(const struct trial *trial))
{
	if (left_out())
		return 0;
	while (running >= at_once())
		reap();
	fflush(NULL);
	switch (fork()) {
	case -1:
		perror("fork");
		exit(99);
	case 0:
		alarm(SECONDS);
		body(trial);
		_exit(98);
	}
	running++;
	return 1;
}

int trials_end(void)
{
	int count;

	while (running)
		reap();
	count = bad;
	bad = 0;
	return count;
}

bool trials_once(void (*body)(void))
{
	int status = -1;

	fflush(NULL);
	if (!fork()) {
		alarm(SECONDS);
		body();
		_exit(0);
	}
	wait(&status);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

void *trials_shared(unsigned long size)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		exit(99);
	return shared;
}

bool trials_missed(const char *name, unsigned long missed,
		   unsigned long calls)
{
	if (missed <= 2 + calls / 4)
		return false;
	fprintf(stderr, "%lu of %lu calls of %s were never reached\n", missed,
		calls, name);
	return true;
}
