/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor - whether vsleep is active in a process, and why not.
 *
 * A diagnosis is a verdict and findings: each has a word for scripts, a
 * sentence, and where there is one a remedy.  Looking changes nothing.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "message.h"
#include "proc.h"

/* From bad to good: of several processes the best one counts. */
enum verdict {
	NO_SUCH_PROCESS,
	UNREADABLE,
	NOT_LOADED,
	SWITCHED_OFF,
	NO_CUDA,
	NO_CONTEXT,
	NO_SOCKET,
	NO_ANSWER,
	ACTIVE,
};

enum weight {
	NOTE,		/* worth knowing */
	OBSTACLE,	/* a sleep will not do all that is wanted */
	CAUSE,		/* why vsleep is not active */
};

struct finding {
	const char *word;	/* a literal */
	enum weight weight;
	char text[600];
	char remedy[400];	/* "": there is none */
};

#define FINDINGS_MAX 32

struct diagnosis {
	pid_t pid;
	char name[64];
	enum verdict verdict;
	int count;
	struct finding findings[FINDINGS_MAX];
};

/* Add a finding; one with the same word is replaced. */
struct finding *doctor_find(struct diagnosis *diagnosis, enum weight weight,
			    const char *word, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void doctor_remedy(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The findings of @from, in place of those with the same word. */
void doctor_merge(const struct diagnosis *from, struct diagnosis *to);

/* doctor_process.c: look at a process. */
void doctor_process(pid_t pid, struct diagnosis *diagnosis);

/* doctor_socket.c: the directory of the socket that process @pid listens at,
 * as seen from here; false when it has none that can be seen. */
bool doctor_socket_dir(pid_t pid, char *dir, size_t size);
/* Why a process in which vsleep is active has no socket. */
void doctor_socket_trouble(const struct proc *proc,
			   struct diagnosis *diagnosis);

/* doctor_answer.c: what the answer to a status request tells. */
void doctor_answer(const struct answer *answer, struct diagnosis *diagnosis);

/*
 * doctor_program.c: what can be said of the file of a program.  False when
 * it cannot be preloaded into.  @root is put before the paths in it: "", or
 * /proc/PID/root.
 */
bool doctor_program(const char *path, const char *root,
		    struct diagnosis *diagnosis);
/* The program that @command names, what interprets it, and so on. */
void doctor_command(char **command, struct diagnosis *diagnosis);
/* The C library @libc, or that beside the loader of @program, and what
 * @library needs; false when that is newer. */
bool doctor_library(const char *library, const char *libc,
		    struct diagnosis *diagnosis);

/* doctor_run.c: run a command under vsleep and watch it; false when it could
 * not be started. */
bool doctor_run(char **command, unsigned timeout_ms,
		struct diagnosis *diagnosis);

#endif
