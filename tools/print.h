/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print - answers as key=value lines, as JSON, or as sentences.
 */
#ifndef TOOLS_PRINT_H
#define TOOLS_PRINT_H

#include <jansson.h>

#include "client.h"
#include "vsleepctl.h"

/* The lines as they came, an empty line before any but the first answer. */
void print_plain(const struct answer *answer);

json_t *print_object(const struct answer *answer);
/* On one line; takes the reference. */
void print_json(json_t *value);

/* "12.3 GiB", in a buffer of the caller's. */
#define SIZE_TEXT 32
const char *print_size(unsigned long long bytes, char buf[SIZE_TEXT]);

/* The answer in the common format; @sentence writes the one for people. */
void print_answer(const struct answer *answer, const struct common *common,
		  void (*sentence)(const struct answer *answer));

/* What could not be done: on stderr, and as an object for --json. */
enum outcome print_failure(pid_t pid, const struct common *common,
			   enum outcome outcome, const char *why);

/*
 * The outcome that the answer's status means.  When it is not DONE or PARTIAL
 * the failure is printed; else the answer is, and PARTIAL's message too.
 */
enum outcome print_result(pid_t pid, const struct answer *answer,
			  const struct common *common,
			  void (*sentence)(const struct answer *answer));

/* Show a progress line, where a person watches; erase it. */
void print_progress(pid_t pid, const char *line);
void print_progress_end(void);

#endif
