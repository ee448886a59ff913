/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"

#include "proc.h"
#include "vsleepctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 5
#define GRACE_SECONDS 5		/* from SIGTERM to SIGKILL */
#define TREE_MAX 512

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

/* What was written to the log of the command. */
struct log {
	char path[PATH_MAX];
	long start;		/* where it began */
	bool ours;
};

static bool log_open(struct log *log)
{
	const char *named = getenv("VSLEEP_LOG");
	const char *dir = getenv("TMPDIR");
	FILE *file;
	int fd;

	log->start = 0;
	log->ours = !(named && named[0]);
	if (!log->ours) {
		snprintf(log->path, sizeof(log->path), "%s", named);
		file = fopen(named, "re");
		if (file && !fseek(file, 0, SEEK_END))
			log->start = ftell(file);
		if (file)
			fclose(file);
		return true;
	}
	snprintf(log->path, sizeof(log->path), "%s/vsleep-doctor-XXXXXX",
		 dir && dir[0] ? dir : "/tmp");
	fd = mkstemp(log->path);
	if (fd < 0) {
		fprintf(stderr, "vsleepctl: %s: %s\n", log->path,
			strerror(errno));
		return false;
	}
	close(fd);
	return !setenv("VSLEEP_LOG", log->path, 1);
}

/* The last line of each weight; the status tells the rest. */
static void log_close(const struct log *log, struct diagnosis *diagnosis)
{
	FILE *file = fopen(log->path, "re");
	char line[600];
	const char *text;

	if (file && log->start)
		fseek(file, log->start, SEEK_SET);
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		text = strchr(line, ' ');
		if (text && !strncmp(text, " error: ", 8))
			doctor_find(diagnosis, OBSTACLE, "log-error",
				    "Its log says: %.500s", text + 8);
		else if (text && !strncmp(text, " warning: ", 10))
			doctor_find(diagnosis, NOTE, "log-warning",
				    "Its log says: %.500s", text + 10);
	}
	if (file)
		fclose(file);
	if (log->ours)
		unlink(log->path);
}

/* Runs in the child: it becomes the command, or says by @fd why not. */
static void become(char **command, int fd)
{
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(command[0], command);
	dprintf(fd, "%s", strerror(errno));
	_exit(127);
}

/* The command as a process; -1, after a line on stderr. */
static pid_t start(char **command)
{
	char why[128];
	int ends[2];
	ssize_t len;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC)) {
		fprintf(stderr, "vsleepctl: pipe: %s\n", strerror(errno));
		return -1;
	}
	fflush(stdout);
	child = fork();
	if (!child)
		become(command, ends[1]);
	close(ends[1]);
	if (child < 0)
		fprintf(stderr, "vsleepctl: fork: %s\n", strerror(errno));
	len = child > 0 ? read(ends[0], why, sizeof(why)) : 0;
	close(ends[0]);
	if (len <= 0)
		return child;
	fprintf(stderr, "vsleepctl: %s: %.*s\n", command[0], (int)len, why);
	waitpid(child, NULL, 0);
	return -1;
}

/* As one that has just begun, or is about to be gone. */
static bool lacks_library(const struct diagnosis *seen)
{
	return seen->count && !strcmp(seen->findings[0].word, "not-loaded");
}

/*
 * The best process counts, in its latest state.  Of the others one is told of
 * in which vsleep cannot be; a process that has just started may only seem so.
 */
static void weigh(const struct diagnosis *seen, struct diagnosis *best,
		  struct diagnosis *others)
{
	const struct finding *first = &seen->findings[0];

	if (seen->count && !strcmp(first->word, "no-program"))
		return;
	if (seen->verdict > best->verdict)
		*best = *seen;
	else if (seen->verdict == best->verdict && seen->pid == best->pid)
		doctor_merge(seen, best);
	if (seen->verdict != NOT_LOADED || !seen->count || lacks_library(seen))
		return;
	doctor_remedy(doctor_find(others, NOTE, "other-process",
				  "Process %d, %s: %s", (int)seen->pid,
				  seen->name, first->text),
		      "%s", first->remedy);
}

/* We are the root of the tree, and not a part of what is looked at. */
static void look(struct diagnosis *best, struct diagnosis *others)
{
	static struct diagnosis seen;
	pid_t pids[TREE_MAX];
	int count = proc_tree(getpid(), pids, TREE_MAX);
	int i;

	for (i = 1; i < count; i++) {
		doctor_process(pids[i], &seen);
		if (lacks_library(&seen)) {
			pause_ms(POLL_MS);
			doctor_process(pids[i], &seen);
		}
		weigh(&seen, best, others);
	}
}

static void signal_all(int number)
{
	pid_t pids[TREE_MAX];
	int count = proc_tree(getpid(), pids, TREE_MAX);

	while (--count > 0)
		kill(pids[count], number);
}

/* Take what ended; false when nothing is left.  *status is that of @child. */
static bool reap(pid_t child, bool *ended, int *status)
{
	pid_t pid;
	int value;

	while ((pid = waitpid(-1, &value, WNOHANG)) > 0)
		if (pid == child) {
			*ended = true;
			*status = value;
		}
	return pid == 0;
}

/* What the command has left behind was started for this, too. */
static void end_all(pid_t child, bool *ended, int *status)
{
	double kill_at = now() + GRACE_SECONDS;

	signal_all(SIGTERM);
	while (reap(child, ended, status)) {
		if (now() >= kill_at)
			signal_all(SIGKILL);
		pause_ms(POLL_MS);
	}
}

static void find_end(bool in_time, int status, struct diagnosis *diagnosis)
{
	if (!in_time)
		doctor_find(diagnosis, NOTE, "ended-by-us", "The command was "
			    "still running and has been ended.");
	else if (WIFSIGNALED(status))
		doctor_find(diagnosis, NOTE, "command-killed", "The command "
			    "was ended by signal %d.", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		doctor_find(diagnosis, NOTE, "command-failed", "The command "
			    "ended with status %d.", WEXITSTATUS(status));
}

/* Milliseconds until the next look, which takes a fifth of the time at most. */
static unsigned pause_after(double seconds)
{
	unsigned ms = (unsigned)(seconds * 4000);

	return ms > POLL_MS ? ms : POLL_MS;
}

static void watch(pid_t child, unsigned timeout_ms,
		  struct diagnosis *diagnosis)
{
	static struct diagnosis others;
	double deadline = now() + timeout_ms / 1000.0;
	bool ended = false, in_time = true;
	double looked_at;
	int status = 0;

	memset(diagnosis, 0, sizeof(*diagnosis));
	diagnosis->pid = child;
	do {
		looked_at = now();
		look(diagnosis, &others);
		in_time = now() < deadline && !interrupted;
		reap(child, &ended, &status);
		if (!ended && in_time)
			pause_ms(pause_after(now() - looked_at));
	} while (!ended && in_time);
	in_time = ended;
	end_all(child, &ended, &status);
	find_end(in_time, status, diagnosis);
	if (diagnosis->verdict != NOT_LOADED)
		doctor_merge(&others, diagnosis);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool doctor_run(char **command, unsigned timeout_ms,
		struct diagnosis *diagnosis)
{
	struct log log;
	pid_t child;

	if (!log_open(&log))
		return false;
	/* Orphans of the command become children of ours. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	child = start(command);
	if (child > 0) {
		catch_signals();
		watch(child, timeout_ms, diagnosis);
	}
	log_close(&log, diagnosis);
	return child > 0;
}
