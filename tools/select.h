/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select - which processes a verb acts on.
 *
 * Several of one kind: either will do.  Several kinds: each has to fit.
 */
#ifndef TOOLS_SELECT_H
#define TOOLS_SELECT_H

#include "group.h"

#define CHOICES_MAX 64	/* of one kind */

struct choices {
	int count;		/* more than CHOICES_MAX are an error later */
	const char *items[CHOICES_MAX];
};

struct selection {
	struct common common;
	char **pids;		/* up to NULL, as the command line has them */
	struct choices names, gpus, trees;
	bool all;
};

/* What a verb on processes can be told. */
struct syntax {
	const char *help;
	const struct option *options;	/* with those of all such verbs */
	/* Takes one of the verb's own; false after a usage error. */
	bool (*own)(int value, void *arg);
};

#define SELECT_OPTIONS                                \
	{ "name", required_argument, NULL, OPT_NAME }, \
	{ "gpu", required_argument, NULL, OPT_GPU },   \
	{ "tree", required_argument, NULL, OPT_TREE }, \
	{ "all", no_argument, NULL, OPT_ALL }

#define SELECT_HELP                                                         \
	"\n"                                                                \
	"Processes are named by PID or chosen:\n"                           \
	"  --name NAME            those whose program has this name\n"      \
	"  --gpu INDEX|UUID       those that use this GPU\n"                 \
	"  --tree PID             this one and all that descend from it\n"  \
	"  --all                  every one\n"                              \
	"\n"

/* Read a command line; false: leave with *outcome. */
bool select_options(int argc, char **argv, const struct syntax *syntax,
		    void *arg, struct selection *out, enum outcome *outcome);

/*
 * Find the processes.  DONE: the group has them, with connections; those
 * named by number that have no vsleep are failed members, those of a tree are
 * absent ones.  Else what is wrong has been said.  Nothing that fits is
 * NO_PROCESS, or when that is @allowed DONE.
 */
enum outcome select_find(const struct selection *selection, bool allowed,
			 struct group *group);

#endif
