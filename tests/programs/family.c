/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family - a CUDA program with children, told what to do by stdin.
 *
 *   fork        a child that does nothing but wait for a signal; its number
 *   exec        the same, but the child starts this program anew, with CUDA
 *   default     a forked child: what SIGUSR1 and SIGUSR2 do there, 0: default
 *   spawn       a shell by system(), its status
 *   reap PID    wait for its end: its exit status, the signal that ended it
 *   check       how many words of the own block are wrong
 *
 * As "family leaf" it is the child: it fills a block, puts its number into
 * $LEAF and waits for a signal.
 */
#include "drv.h"

#include <signal.h>
#include <sys/wait.h>

#define WORDS ((size_t)1 << 20)

static CUdeviceptr block;

static int leaf(void)
{
	const char *path = getenv("LEAF");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return 3;
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
	for (;;)
		pause();
}

static void bear(int anew)
{
	static char name[] = "family", word[] = "leaf";
	char *args[] = { name, word, NULL };
	pid_t child = fork();

	if (child) {
		printf("ok pid=%d\n", (int)child);
		return;
	}
	if (anew) {
		execv("/proc/self/exe", args);
		_exit(3);
	}
	for (;;)
		pause();
}

static int is_default(int number)
{
	struct sigaction action;

	return !sigaction(number, NULL, &action) &&
	       !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL;
}

static void ask_default(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(!is_default(SIGUSR1) + 2 * !is_default(SIGUSR2));
	if (child > 0)
		waitpid(child, &status, 0);
	printf("ok changed=%d\n", WEXITSTATUS(status));
}

static void reap(pid_t child)
{
	int status = 0;

	waitpid(child, &status, 0);
	printf("ok exit=%d signal=%d\n",
	       WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void obey(const char *verb, const char *word)
{
	if (!strcmp(verb, "fork") || !strcmp(verb, "exec")) {
		bear(verb[0] == 'e');
	} else if (!strcmp(verb, "default")) {
		ask_default();
	} else if (!strcmp(verb, "spawn")) {
		printf("ok exit=%d\n", WEXITSTATUS(system("exit 9")));
	} else if (!strcmp(verb, "reap")) {
		reap((pid_t)atoi(word));
	} else if (!strcmp(verb, "check")) {
		drv_compare(NULL, block, WORDS, 7);
		printf("ok bad=%lu\n", (unsigned long)drv_bad());
	} else {
		printf("error: no command %s\n", verb);
	}
}

int main(int argc, char **argv)
{
	static char line[128];
	char *verb, *word;

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	CK(cuMemAlloc(&block, WORDS * 4));
	drv_pattern(NULL, block, WORDS, 7);
	CK(cuCtxSynchronize());
	if (argc > 1 && !strcmp(argv[1], "leaf"))
		return leaf();
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		verb = strtok(line, " \n");
		word = strtok(NULL, " \n");
		if (!verb || !strcmp(verb, "leave"))
			break;
		obey(verb, word ? word : "");
	}
	CK(cuMemFree(block));
	CK(cuMemFree(drv.bad));
	return 0;
}
