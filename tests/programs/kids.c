/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kids - a CUDA program whose threads allocate without end and which bears
 * children in every way meanwhile, as stdin says.  An answer has the exit
 * status of the child, or the sum over all, and the signal that ended it.
 *
 *   fork, exit, raw, raw-signal, vfork, spawn, system, popen
 *   many N        so many at once; how many came back as they should
 *   thread N      the same, one after the other, from a thread of their own
 *   check, stop   how many words are wrong; end the threads that allocate
 */
#include "drv.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define WORDS ((size_t)3 << 20)
#define CHURNERS 3

extern char **environ;

static CUdeviceptr block;
static atomic_int stop;
static atomic_ulong churned;
static pthread_t churners[CHURNERS];

static void *churn(void *unused)
{
	CUdeviceptr p;

	CK(cuCtxSetCurrent(drv.context));
	while (!atomic_load(&stop)) {
		CK(cuMemAlloc(&p, 5000));
		free(malloc(5000));
		CK(cuMemFree(p));
		atomic_fetch_add(&churned, 1);
	}
	return unused;
}

/* It uses what locks could be held for: memory, streams, the driver. */
static int live(int code)
{
	char *copy = strdup("child");
	CUdeviceptr p = 0;
	int wrong = !copy || !cuMemAlloc(&p, 5000);

	free(copy);
	return wrong ? 99 : code;
}

static int reap(pid_t child, int *number)
{
	int status = 0;

	*number = 0;
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	if (WIFSIGNALED(status))
		*number = WTERMSIG(status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void tell(pid_t child)
{
	int number, code = reap(child, &number);

	printf("ok exit=%d signal=%d\n", code, number);
}

static pid_t raw_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t bear(const char *how)
{
	static char sh[] = "sh", c[] = "-c", text[] = "kill -USR2 $$; exit 8";
	static char *const args[] = { sh, c, text, NULL };
	pid_t child = -1;

	if (!strcmp(how, "fork") && !(child = fork()))
		_exit(live(11));
	if (!strcmp(how, "exit") && !(child = fork()))
		exit(live(12));
	if (!strcmp(how, "raw") && !(child = raw_clone()))
		_exit(13);	/* the C library knows nothing of it */
	if (!strcmp(how, "raw-signal") && !(child = raw_clone())) {
		syscall(SYS_kill, syscall(SYS_getpid), SIGUSR1);
		_exit(1);
	}
	if (!strcmp(how, "vfork") && !(child = vfork())) {
		execv("/bin/sh", args);
		_exit(1);
	}
	if (!strcmp(how, "spawn") &&
	    posix_spawn(&child, "/bin/sh", NULL, NULL, args, environ))
		child = -1;
	return child;
}

static void do_popen(void)
{
	char line[64] = "";
	FILE *f = popen("echo hello; exit 5", "r");
	int status = -1;

	if (f && fgets(line, sizeof(line), f))
		status = pclose(f);
	printf("ok exit=%d signal=0 %s\n", WEXITSTATUS(status),
	       strtok(line, "\n"));
}

static void do_many(int n)
{
	pid_t *children = calloc((size_t)n, sizeof(*children));
	int i, number, good = 0, ends[2];
	char c;

	if (!children || pipe(ends))
		exit(3);
	for (i = 0; i < n; i++) {
		children[i] = fork();
		if (children[i])
			continue;
		close(ends[1]);
		_exit(read(ends[0], &c, 1) ? 98 : live(i % 90));
	}
	close(ends[1]);		/* now all of them go on at once */
	for (i = 0; i < n; i++)
		good += reap(children[i], &number) == i % 90;
	close(ends[0]);
	free(children);
	printf("ok good=%d\n", good);
}

static void *fork_here(void *count)
{
	int i, number, good = 0;

	for (i = 0; i < *(int *)count; i++)
		good += reap(bear(i % 2 ? "exit" : "fork"), &number) ==
			11 + i % 2;
	printf("ok good=%d\n", good);
	return NULL;
}

static void obey(const char *verb, int n)
{
	pthread_t thread;
	int i;

	if (!strcmp(verb, "many")) {
		do_many(n);
	} else if (!strcmp(verb, "thread")) {
		if (!pthread_create(&thread, NULL, fork_here, &n))
			pthread_join(thread, NULL);
	} else if (!strcmp(verb, "popen")) {
		do_popen();
	} else if (!strcmp(verb, "system")) {
		printf("ok exit=%d signal=0\n", WEXITSTATUS(system("exit 9")));
	} else if (!strcmp(verb, "check")) {
		drv_compare(NULL, block, WORDS, 7);
		printf("ok bad=%lu\n", (unsigned long)drv_bad());
	} else if (!strcmp(verb, "stop")) {
		atomic_store(&stop, 1);
		for (i = 0; i < CHURNERS; i++)
			pthread_join(churners[i], NULL);
		printf("ok churned=%lu\n", atomic_load(&churned));
	} else {
		tell(bear(verb));
	}
}

int main(void)
{
	static char line[128];
	char *verb, *number;
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	CK(cuMemAlloc(&block, WORDS * 4));
	drv_pattern(NULL, block, WORDS, 7);
	CK(cuCtxSynchronize());
	for (i = 0; i < CHURNERS; i++)
		if (pthread_create(&churners[i], NULL, churn, NULL))
			return 3;
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		verb = strtok(line, " \n");
		number = strtok(NULL, " \n");
		if (!verb || !strcmp(verb, "leave"))
			break;
		obey(verb, number ? atoi(number) : 0);
	}
	CK(cuMemFree(block));
	CK(cuMemFree(drv.bad));
	return 0;
}
