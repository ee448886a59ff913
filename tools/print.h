/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print - answers as key=value lines, as JSON, or as sentences.
 */
#ifndef TOOLS_PRINT_H
#define TOOLS_PRINT_H

#include <jansson.h>

#include "group.h"
#include "vsleepctl.h"

/* On one line; takes the reference. */
void print_json(json_t *value);

/* @text, where it is not UTF-8 with "?" for what is not printable ASCII. */
json_t *print_string(const char *text);

/* "12.3 GiB", "8 bytes" or "0", in a buffer of the caller's. */
#define SIZE_TEXT 32
const char *print_size(unsigned long long bytes, char buf[SIZE_TEXT]);

/* " (12.3 GiB copied at 20.1 GiB/s)" and ", 0.972 s" with a newline. */
void print_copied(const struct answer *answer);
void print_seconds(const struct answer *answer);

/* A key whose values are added up for people, and what they are called. */
struct sum {
	const char *key;
	const char *word;
};

/* How a verb's answers are told to people. */
struct style {
	void (*sentence)(const struct answer *answer);
	const struct sum *sums;	/* up to a NULL key; NULL: no last line */
};

/* An answer or a failure of each, in their order; the worst outcome. */
enum outcome print_group(const struct group *group,
			 const struct common *common,
			 const struct style *style);

/* How far they are, on one line, where a person watches; erase it. */
void print_progress(const struct group *group);
void print_progress_end(void);

#endif
