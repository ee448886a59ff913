/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "vsleepctl.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct verb {
	const char *name;
	enum outcome (*main)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{ "run", run_main, "start a program under vsleep" },
	{ "list", list_main, "the processes that can be put to sleep" },
	{ "status", status_main, "what a process holds and what sleeps" },
	{ "sleep", sleep_main, "give the GPU memory of processes back" },
	{ "wake", wake_main, "bring it back" },
	{ "tag", tag_main, "name the allocations that a process makes next" },
	{ "wait", wait_main, "until a process is awake, asleep or settled" },
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(FILE *out)
{
	size_t i;

	fprintf(out, "usage: vsleepctl [--help] [--version] [VERB [ARG...]]\n"
		"\nPut CUDA programs to sleep and wake them.\n\n");
	for (i = 0; i < VERBS; i++)
		fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].help);
	fprintf(out, "\nWithout a verb: list.  vsleepctl VERB --help tells "
		"more, vsleepctl(1) everything.\n");
}

enum outcome usage_error(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "vsleepctl: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "; see vsleepctl --help\n");
	return USAGE;
}

void complain(pid_t pid, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "vsleepctl: process %d: ", (int)pid);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

bool common_option(int value, const char *help, struct common *common,
		   enum outcome *outcome)
{
	switch (value) {
	case OPT_JSON:
		common->format = JSON;
		return true;
	case OPT_PLAIN:
		common->format = PLAIN;
		return true;
	case OPT_HELP:
		fputs(help, stdout);
		*outcome = DONE;
		return false;
	default:
		/* getopt_long has said what is wrong. */
		*outcome = USAGE;
		return false;
	}
}

void common_settle(struct common *common)
{
	common->human = common->format == AUTOMATIC && isatty(STDOUT_FILENO);
	if (common->format == AUTOMATIC)
		common->format = PLAIN;
}

bool parse_seconds(const char *text, unsigned *ms)
{
	char *end;
	double seconds;

	if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.')
		return false;
	seconds = strtod(text, &end);
	if (*end || end == text || !(seconds >= 0 && seconds <= 86400))
		return false;
	*ms = (unsigned)(seconds * 1000 + 0.5);
	return true;
}

bool parse_pid(const char *text, pid_t *out)
{
	char *end;
	long value;

	if (!(text[0] >= '1' && text[0] <= '9'))
		return false;
	errno = 0;
	value = strtol(text, &end, 10);
	if (*end || errno || value > INT_MAX)
		return false;
	*out = (pid_t)value;
	return true;
}

/* A script that gets one code for several processes needs the worst. */
static int badness(enum outcome outcome)
{
	static const int order[] = {
		[DONE] = 0,
		[PARTIAL] = 1,
		[BUSY] = 2,
		[NO_MEMORY] = 3,
		[NO_PROCESS] = 4,
		[FAILED] = 5,
		[USAGE] = 6,
	};

	return order[outcome];
}

enum outcome for_each_process(char **args,
			      enum outcome (*act)(pid_t pid, void *arg),
			      void *arg)
{
	enum outcome worst = DONE;
	enum outcome outcome;
	pid_t pid;
	int i;

	if (!args[0])
		return usage_error("no process is named: give its PID");
	for (i = 0; args[i]; i++)
		if (!parse_pid(args[i], &pid))
			return usage_error("\"%s\" is not the PID of a process",
					   args[i]);
	for (i = 0; args[i]; i++) {
		parse_pid(args[i], &pid);
		outcome = act(pid, arg);
		if (badness(outcome) > badness(worst))
			worst = outcome;
	}
	return worst;
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void pause_ms(unsigned ms)
{
	struct timespec ts = {
		.tv_sec = ms / 1000,
		.tv_nsec = (long)(ms % 1000) * 1000000,
	};

	nanosleep(&ts, NULL);
}

int main(int argc, char **argv)
{
	static char self[] = "vsleepctl";
	const char *name = argc > 1 ? argv[1] : "list";
	enum outcome outcome;
	size_t i;

	if (!strcmp(name, "--help")) {
		print_help(stdout);
		return DONE;
	}
	if (!strcmp(name, "--version")) {
		printf("vsleepctl %s\n", PACKAGE_VERSION);
		return DONE;
	}
	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i].name, name))
			break;
	if (i == VERBS) {
		fprintf(stderr, "vsleepctl: there is no verb \"%s\"\n", name);
		print_help(stderr);
		return USAGE;
	}
	if (argc > 1) {
		argc--;
		argv++;
	}
	argv[0] = self;		/* getopt_long begins its messages with it */
	outcome = verbs[i].main(argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "vsleepctl: standard output: %s\n",
			strerror(errno));
		return outcome ? outcome : FAILED;
	}
	return outcome;
}
