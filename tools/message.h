/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message - the text of requests and answers.
 */
#ifndef TOOLS_MESSAGE_H
#define TOOLS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

struct pair {
	const char *key;
	const char *value;
};

#define PAIRS_MAX 64
#define TAGS_MAX 64

/* An answer, cut into lines; the strings point into text. */
struct answer {
	int count;
	struct pair pairs[PAIRS_MAX];
	int tags_count;
	const char *tags[TAGS_MAX];	/* "NAME policy=.. state=.." */
	size_t len;
	char text[65536];
};

/* "" when the answer has no such line. */
const char *answer_text(const struct answer *answer, const char *key);
unsigned long long answer_number(const struct answer *answer,
				 const char *key);

/* The pairs of one tag, cut out of its line. */
struct tag {
	int count;
	struct pair pairs[PAIRS_MAX];
	char text[1024];
};
void answer_tag(const struct answer *answer, int index, struct tag *out);
const char *tag_text(const struct tag *tag, const char *key);
unsigned long long tag_number(const struct tag *tag, const char *key);

/* A request as it is sent. */
struct request {
	size_t len;
	char text[4096];
};

void request_start(struct request *request, const char *verb);
/* False after a usage error: @value does not fit on a line of the protocol. */
bool request_add(struct request *request, const char *key, const char *value);
bool request_add_number(struct request *request, const char *key,
			unsigned value);

/* Forget the last answer. */
void answer_start(struct answer *answer);
/* Keep a line; cuts it at its first '='. */
void answer_add(struct answer *answer, char *line);

#endif
