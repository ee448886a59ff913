/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask - the verbs that put one question to each process and print what it
 * says.
 */
#ifndef TOOLS_ASK_H
#define TOOLS_ASK_H

#include "print.h"
#include "select.h"

/* A verb without keys and without options of its own. */
struct question {
	const char *verb;
	const char *help;
	struct style style;
	/* Completes an answer by what vsleepctl knows; may be NULL. */
	void (*add)(struct answer *answer, pid_t pid);
};

enum outcome ask_main(int argc, char **argv, const struct question *question);

/*
 * What a verb does once its options are read: find the processes of
 * @selection, put @request to all at the same time, print the answers.
 */
enum outcome ask_each(const struct selection *selection,
		      const struct request *request,
		      const struct style *style);

#endif
