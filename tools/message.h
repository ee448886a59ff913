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

#define PAIRS_MAX 512
#define WORDS_MAX 32

/* An answer, cut into lines; the strings point into text. */
struct answer {
	int count;
	struct pair pairs[PAIRS_MAX];	/* in their order; keys may repeat */
	int tags_count;
	size_t at;			/* where the next line begins */
	size_t len;
	char text[65536];
};

/* Of the first line with this key; "" when the answer has none. */
const char *answer_text(const struct answer *answer, const char *key);
unsigned long long answer_number(const struct answer *answer,
				 const char *key);
/* Of line @index with this key, from 0; NULL when it has not so many. */
const char *answer_nth(const struct answer *answer, const char *key,
		       int index);

/* The words KEY=VALUE of a line about one tag, device or the like. */
struct words {
	int count;
	struct pair pairs[WORDS_MAX];
	char text[1024];
};
void answer_words(const char *key, const char *value, struct words *out);
void answer_tag(const struct answer *answer, int index, struct words *out);
const char *words_text(const struct words *words, const char *key);
unsigned long long words_number(const struct words *words, const char *key);

/* A request as it is sent; the server takes no longer one. */
struct request {
	size_t len;
	char text[8192];
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
/* A text that lasts as long as the answer; NULL when there is no room. */
const char *answer_store(struct answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Add a line of our own, the strings of which last; none for NULL. */
void answer_put(struct answer *answer, const char *key, const char *value);

#endif
