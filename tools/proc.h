/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc - what /proc tells of a process.
 */
#ifndef TOOLS_PROC_H
#define TOOLS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A library by the images of it that are mapped. */
struct images {
	int count;		/* a copy loaded twice counts twice */
	char path[512];		/* of the first */
	char other[512];	/* of another one, or "" */
	bool deleted;		/* the file of one was removed or replaced */
};

struct proc {
	pid_t pid;		/* of the process, also if a thread was given */
	pid_t inner;		/* its number in its own namespace */
	pid_t parent;
	uid_t uid;		/* the effective one */
	char state;		/* R S D T t Z X ... */
	char name[64];		/* what the program was called by */
	/* The rest is left out by proc_look. */
	bool bare;		/* it runs no program: the kernel's own, or
				 * just ending */
	bool readable;		/* the rest is known */
	bool secure;		/* it gained rights (AT_SECURE) */
	char exe[512];
	struct images vsleep, cuda, libc;
	bool server;		/* a thread of vsleep's is there */
	char *environment;	/* as it was started, strings up to size */
	size_t environment_size;
};

/* What everybody may see, at little cost; false: there is no such process. */
bool proc_look(pid_t pid, struct proc *out);
/* All of it, to be freed by proc_free. */
bool proc_read(pid_t pid, struct proc *out);
void proc_free(struct proc *proc);

/* A variable that the process was started with; NULL: it was not set. */
const char *proc_variable(const struct proc *proc, const char *name);

/* Every process that descends from @root, itself first; how many. */
int proc_tree(pid_t root, pid_t *out, int max);

#endif
