/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vsleepctl - what the verbs share: exit codes, common options, time.  Each
 * verb has a file and a row in the table of vsleepctl.c.
 */
#ifndef TOOLS_VSLEEPCTL_H
#define TOOLS_VSLEEPCTL_H

#include <getopt.h>
#include <stdbool.h>
#include <sys/types.h>

enum outcome {
	DONE = 0,
	FAILED = 1,	/* refused, cancelled, or the driver failed */
	USAGE = 2,
	BUSY = 3,
	NO_MEMORY = 4,	/* of the device */
	PARTIAL = 5,	/* done, but something stayed that should not have */
	NO_PROCESS = 6,	/* no vsleep answers for it */
};

enum format { AUTOMATIC, PLAIN, JSON };

/* What every verb that talks to a process is told. */
struct common {
	enum format format;	/* never AUTOMATIC once parsed */
	bool human;		/* a person reads it: sentences, not lines */
};

/* getopt values of the options that every such verb has. */
enum { OPT_HELP = 256, OPT_JSON, OPT_PLAIN, OPT_NAME, OPT_GPU, OPT_TREE,
       OPT_ALL, OPT_OWN };

#define COMMON_OPTIONS                             \
	{ "json", no_argument, NULL, OPT_JSON },   \
	{ "plain", no_argument, NULL, OPT_PLAIN }, \
	{ "help", no_argument, NULL, OPT_HELP },   \
	{ NULL, 0, NULL, 0 }

#define COMMON_HELP                                                        \
	"  --json                 one JSON object per process\n"           \
	"  --plain                key=value lines, also on a terminal\n"   \
	"  --help                 this text\n"

/*
 * Handle a value of getopt_long that is not the verb's own.  True: go on;
 * false: leave with *outcome.
 */
bool common_option(int value, const char *help, struct common *common,
		   enum outcome *outcome);

/* After the options: settle the format. */
void common_settle(struct common *common);

/* Print what is wrong with the command line and how to get help; USAGE. */
enum outcome usage_error(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* "vsleepctl: process PID: ..." on stderr. */
void complain(pid_t pid, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The PID that @text is; false for what cannot be one. */
bool parse_pid(const char *text, pid_t *out);

/* Seconds with decimals into milliseconds; false on anything else. */
bool parse_seconds(const char *text, unsigned *ms);

/* The arguments of --timeout and --wait; false after a usage error. */
bool parse_timeout(const char *text, unsigned *ms);
bool parse_wait(const char *text, unsigned *ms);

/* The worse of two outcomes: a script that gets one code needs that. */
enum outcome worse(enum outcome a, enum outcome b);

/* CLOCK_MONOTONIC in seconds; and a pause. */
double now(void);
void pause_ms(unsigned ms);

enum outcome run_main(int argc, char **argv);
enum outcome list_main(int argc, char **argv);
enum outcome status_main(int argc, char **argv);
enum outcome config_main(int argc, char **argv);
enum outcome sleep_main(int argc, char **argv);
enum outcome wake_main(int argc, char **argv);
enum outcome pause_main(int argc, char **argv);
enum outcome resume_main(int argc, char **argv);
enum outcome cancel_main(int argc, char **argv);
enum outcome trim_main(int argc, char **argv);
enum outcome prepare_main(int argc, char **argv);
enum outcome tag_main(int argc, char **argv);
enum outcome wait_main(int argc, char **argv);
enum outcome doctor_main(int argc, char **argv);

#endif
