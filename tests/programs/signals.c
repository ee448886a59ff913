/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals - a CUDA program that uses SIGUSR1 and SIGUSR2 for itself, in the way
 * that the first argument says, before or after its first CUDA call as the
 * second says.  It prints all that it can see: plain and preloaded runs say
 * the same.
 */
#include "drv.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

typedef void (*handler)(int number);

handler bsd_signal(int number, handler h);
int __sigaction(int number, const struct sigaction *action,
		struct sigaction *old);

static volatile sig_atomic_t seen, value;

static void count(int number)
{
	(void)number;
	seen++;
}

static void count_value(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	seen++;
	value = info->si_value.sival_int;
}

static void again(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

static const char *name(handler h)
{
	if (h == SIG_DFL)
		return "default";
	if (h == SIG_IGN)
		return "ignore";
	if (h == SIG_ERR)
		return "error";
	if (h == SIG_HOLD)
		return "hold";
	return h == count ? "count" : h == again ? "again" : "unknown";
}

/* The flag that the C library adds is left out. */
static void show(const char *what, const struct sigaction *a)
{
	int n, blocked = 0;

	for (n = 1; n < 65; n++)
		blocked += sigismember(&a->sa_mask, n) == 1;
	printf("%s: %s flags %x blocked %d\n", what,
	       a->sa_flags & SA_SIGINFO ? "siginfo" : name(a->sa_handler),
	       (unsigned)a->sa_flags & ~0x04000000u, blocked);
}

static void query(int number)
{
	struct sigaction now;

	memset(&now, 0x55, sizeof(now));
	if (sigaction(number, NULL, &now))
		perror("sigaction");
	show("now", &now);
}

static void send(int number)
{
	kill(getpid(), number);
	printf("seen %d\n", (int)seen);
}

/* ---- the ways ----------------------------------------------------------- */

static void way_sigaction(void)
{
	struct sigaction old, action = { .sa_handler = count,
					 .sa_flags = SA_RESTART | SA_NODEFER };

	query(SIGUSR1);
	memset(&old, 0x55, sizeof(old));
	sigaddset(&action.sa_mask, SIGUSR2);
	printf("rc %d\n", sigaction(SIGUSR1, &action, &old));
	show("old", &old);
	send(SIGUSR1);
	query(SIGUSR1);
	printf("rc %d\n", __sigaction(SIGUSR2, NULL, &old));
	show("old", &old);
	printf("rc %d\n", __sigaction(SIGUSR2, &action, NULL));
	send(SIGUSR2);
	query(SIGUSR2);
}

static void way_value(void)
{
	struct sigaction action = { .sa_sigaction = count_value,
				    .sa_flags = SA_SIGINFO };

	sigaction(SIGUSR2, &action, NULL);
	sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = 77 });
	printf("value %d\n", (int)value);
	query(SIGUSR1);
}

static void way_signal(void)
{
	static handler (*const functions[])(int, handler) = {
		signal, ssignal, bsd_signal, sysv_signal, sigset,
	};
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		printf("old %s\n", name(functions[i](SIGUSR1, count)));
		send(SIGUSR1);
		query(SIGUSR1);
		printf("old %s\n", name(functions[i](SIGUSR2, SIG_IGN)));
		printf("old %s\n", name(functions[i](SIGUSR2, count)));
		printf("old %s\n", name(functions[i](SIGUSR2, SIG_DFL)));
	}
	send(SIGUSR2);
}

static void way_sysv(void)
{
	printf("old %s\n", name(sysv_signal(SIGUSR1, count)));
	send(SIGUSR1);
	send(SIGUSR1);
}

static void way_sigset(void)
{
	printf("old %s\n", name(sigset(SIGUSR1, SIG_HOLD)));
	query(SIGUSR1);
	printf("old %s\n", name(sigset(SIGUSR1, count)));
	send(SIGUSR1);
	printf("rc %d\n", sigignore(SIGUSR2));
	send(SIGUSR2);
	query(SIGUSR2);
}

static void way_interrupt(void)
{
	printf("rc %d\n", siginterrupt(SIGUSR1, 1));
	query(SIGUSR1);
	printf("old %s\n", name(signal(SIGUSR1, count)));
	query(SIGUSR1);
	send(SIGUSR1);
}

static void way_default_only(void)
{
	struct sigaction now, action = { .sa_handler = count };

	if (!sigaction(SIGUSR1, NULL, &now) && now.sa_handler == SIG_DFL)
		sigaction(SIGUSR1, &action, NULL);
	send(SIGUSR1);
}

static void way_restore(void)
{
	struct sigaction saved, action = { .sa_handler = count };

	sigaction(SIGUSR1, &action, &saved);
	send(SIGUSR1);
	sigaction(SIGUSR1, &saved, NULL);
	query(SIGUSR1);
	fflush(stdout);
	send(SIGUSR1);
}

static void way_again(void)
{
	signal(SIGUSR2, again);
	fflush(stdout);
	send(SIGUSR2);
}

static void way_default(void)
{
	printf("old %s\n", name(signal(SIGUSR2, SIG_DFL)));
	fflush(stdout);
	send(SIGUSR2);
}

static void block(void)
{
	sigset_t both;

	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
}

static void way_wait(void)
{
	siginfo_t info;
	sigset_t both;
	int number = 0, fd;

	block();
	sigprocmask(SIG_BLOCK, NULL, &both);
	kill(getpid(), SIGUSR1);
	printf("rc %d\n", sigwait(&both, &number));
	printf("number %d\n", number);
	sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = 5 });
	number = sigwaitinfo(&both, &info);
	printf("number %d value %d\n", number, info.si_value.sival_int);
	fd = signalfd(-1, &both, SFD_NONBLOCK | SFD_CLOEXEC);
	for (int n = 0; n < 3; n++) {
		struct signalfd_siginfo one = { 0 };
		ssize_t size;

		if (n != 1)
			kill(getpid(), SIGUSR1);
		size = read(fd, &one, sizeof(one));
		printf("size %zd number %u\n", size, one.ssi_signo);
	}
	query(SIGUSR1);
}

static void say_error(const char *what, int rc)
{
	printf("%s: %d %s\n", what, rc, rc < 0 ? strerror(errno) : "-");
	errno = 0;
}

static void way_errors(void)
{
	static const int wrong[] = { 0, -1, 32, 33, 65, 1000, SIGKILL, SIGSTOP,
				     -2147483647 - 1 };
	struct sigaction action = { .sa_handler = count };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int n = wrong[i];

		printf("signal %d\n", n);
		say_error("set", sigaction(n, &action, NULL));
		say_error("ask", sigaction(n, NULL, &action));
		say_error("neither", sigaction(n, NULL, NULL));
		say_error("signal", signal(n, SIG_IGN) == SIG_ERR ? -1 : 0);
		say_error("sysv", sysv_signal(n, count) == SIG_ERR ? -1 : 0);
		say_error("sigset", sigset(n, count) == SIG_ERR ? -1 : 0);
		say_error("sigignore", sigignore(n));
		say_error("siginterrupt", siginterrupt(n, 1));
		action = (struct sigaction){ .sa_handler = count };
	}
	say_error("neither", sigaction(SIGUSR1, NULL, NULL));
	say_error("error", signal(SIGUSR1, SIG_ERR) == SIG_ERR ? -1 : 0);
	query(SIGUSR1);
}

/* A child that shares the memory asks and sets; nothing of it stays here. */
static void way_vfork(void)
{
	struct sigaction old, action = { .sa_handler = count };
	volatile int wrong = 0;
	int status = 0;
	pid_t child = vfork();

	if (!child) {
		wrong |= sigaction(SIGUSR1, NULL, &old) ||
			 old.sa_handler != SIG_DFL;
		wrong |= sigaction(SIGUSR1, &action, &old) ||
			 old.sa_handler != SIG_DFL;
		wrong |= signal(SIGUSR2, SIG_IGN) != SIG_DFL;
		wrong |= signal(SIGUSR1, SIG_DFL) != count;
		execl("/bin/sh", "sh", "-c", "kill -USR2 $$; kill -USR1 $$",
		      (char *)NULL);
		_exit(9);
	}
	waitpid(child, &status, 0);
	printf("wrong %d signal %d\n", wrong,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	query(SIGUSR1);
	query(SIGUSR2);
}

static const struct {
	const char *name;
	void (*go)(void);
} ways[] = {
	{ "sigaction", way_sigaction }, { "value", way_value },
	{ "signal", way_signal }, { "sysv", way_sysv },
	{ "sigset", way_sigset }, { "interrupt", way_interrupt },
	{ "default-only", way_default_only }, { "restore", way_restore },
	{ "again", way_again }, { "default", way_default },
	{ "wait", way_wait }, { "errors", way_errors },
	{ "vfork", way_vfork },
};

/* Before the constructors of all libraries. */
static handler earliest;
static struct sigaction earliest_action;

static void early(void)
{
	earliest = signal(SIGUSR1, SIG_DFL);
	sigaction(SIGUSR2, NULL, &earliest_action);
}
__attribute__((section(".preinit_array"), used))
static void (*const earliest_call)(void) = early;

int main(int argc, char **argv)
{
	struct sigaction now;
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 1) {	/* the names of the ways */
		for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
			puts(ways[i].name);
		return 0;
	}
	printf("earliest %s\n", name(earliest));
	show("earliest", &earliest_action);
	if (strcmp(argv[2], "before"))
		drv_open();
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			ways[i].go();
	if (!strcmp(argv[2], "before")) {
		drv_open();
		if (!sigaction(SIGUSR1, NULL, &now) &&
		    now.sa_handler != SIG_DFL)
			send(SIGUSR1);
	}
	return 6;
}
