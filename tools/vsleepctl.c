/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "vsleepctl.h"

#include <errno.h>
#include <fcntl.h>
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
	{ "config", config_main, "the settings of a process" },
	{ "sleep", sleep_main, "give the GPU memory of processes back" },
	{ "wake", wake_main, "bring it back" },
	{ "pause", pause_main, "hold processes, their memory stays" },
	{ "resume", resume_main, "let paused processes run on" },
	{ "trim", trim_main, "give back what is kept for the next sleep" },
	{ "prepare", prepare_main, "copy memory to the host ahead of a sleep" },
	{ "cancel", cancel_main, "take back what was asked for and waits" },
	{ "tag", tag_main, "name the allocations that a process makes next" },
	{ "wait", wait_main, "until a process is awake, asleep or settled" },
	{ "doctor", doctor_main, "whether vsleep is active, or why not" },
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

bool parse_timeout(const char *text, unsigned *ms)
{
	if (parse_seconds(text, ms) && *ms)
		return true;
	usage_error("--timeout %s: must be seconds, from 0.001 to 86400",
		    text);
	return false;
}

bool parse_wait(const char *text, unsigned *ms)
{
	if (parse_seconds(text, ms))
		return true;
	usage_error("--wait %s: must be seconds, from 0 to 86400", text);
	return false;
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

enum outcome worse(enum outcome a, enum outcome b)
{
	return badness(a) > badness(b) ? a : b;
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

/*
 * What is closed must not become the number of a socket that is then written
 * to.  Writing still fails, and a program that is started finds it closed.
 */
static void occupy_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Output that is lost is a failure. */
static enum outcome finish(enum outcome outcome)
{
	if (!fflush(stdout) && !ferror(stdout))
		return outcome;
	fprintf(stderr, "vsleepctl: standard output: %s\n", strerror(errno));
	return outcome ? outcome : FAILED;
}

int main(int argc, char **argv)
{
	static char self[] = "vsleepctl";
	bool named = argc > 1 && argv[1][0] != '-';
	const char *name = named ? argv[1] : "list";
	size_t i;

	occupy_standard();
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		print_help(stdout);
		return finish(DONE);
	}
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		printf("vsleepctl %s\n", PACKAGE_VERSION);
		return finish(DONE);
	}
	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i].name, name))
			break;
	if (i == VERBS) {
		fprintf(stderr, "vsleepctl: there is no verb \"%s\"\n", name);
		print_help(stderr);
		return USAGE;
	}
	argc -= named;
	argv += named;
	argv[0] = self;		/* getopt_long begins its messages with it */
	return finish(verbs[i].main(argc, argv));
}
