/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "message.h"

#include "vsleepctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void request_start(struct request *request, const char *verb)
{
	request->len = snprintf(request->text, sizeof(request->text),
				"vsleep 1 %s\n", verb);
}

bool request_add(struct request *request, const char *key, const char *value)
{
	/* The empty line that ends it is sent with it. */
	size_t room = sizeof(request->text) - 1 - request->len;
	size_t i;
	int len;

	for (i = 0; value[i]; i++)
		if (value[i] < ' ' || value[i] > '~') {
			usage_error("%s: only printable ASCII can be given",
				    key);
			return false;
		}
	len = snprintf(request->text + request->len, room, "%s=%s\n", key,
		       value);
	if ((size_t)len >= room) {
		usage_error("%s: too long", key);
		return false;
	}
	request->len += len;
	return true;
}

bool request_add_number(struct request *request, const char *key,
			unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return request_add(request, key, text);
}

void answer_start(struct answer *answer)
{
	answer->count = 0;
	answer->tags_count = 0;
	answer->at = 0;
	answer->len = 0;
}

void answer_add(struct answer *answer, char *line)
{
	char *equals = strchr(line, '=');

	if (!equals || answer->count == PAIRS_MAX)
		return;
	*equals = '\0';
	answer->pairs[answer->count].key = line;
	answer->pairs[answer->count].value = equals + 1;
	answer->count++;
	if (!strcmp(line, "tag"))
		answer->tags_count++;
}

const char *answer_store(struct answer *answer, const char *format, ...)
{
	char *at = answer->text + answer->len;
	size_t room = sizeof(answer->text) - answer->len;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(at, room, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= room)
		return NULL;
	answer->len += len + 1;
	return at;
}

void answer_put(struct answer *answer, const char *key, const char *value)
{
	if (!value || answer->count == PAIRS_MAX)
		return;
	answer->pairs[answer->count++] = (struct pair){ key, value };
}

static const char *find(const struct pair *pairs, int count, const char *key,
			int index)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(pairs[i].key, key) && !index--)
			return pairs[i].value;
	return NULL;
}

const char *answer_nth(const struct answer *answer, const char *key, int index)
{
	return find(answer->pairs, answer->count, key, index);
}

const char *answer_text(const struct answer *answer, const char *key)
{
	const char *value = answer_nth(answer, key, 0);

	return value ? value : "";
}

unsigned long long answer_number(const struct answer *answer,
				 const char *key)
{
	return strtoull(answer_text(answer, key), NULL, 10);
}

void answer_words(const char *key, const char *value, struct words *out)
{
	char *save = NULL;
	char *word;
	char *equals;

	snprintf(out->text, sizeof(out->text), "%s=%s", key, value);
	out->count = 0;
	for (word = strtok_r(out->text, " ", &save);
	     word && out->count < WORDS_MAX;
	     word = strtok_r(NULL, " ", &save)) {
		equals = strchr(word, '=');
		if (!equals)
			continue;
		*equals = '\0';
		out->pairs[out->count].key = word;
		out->pairs[out->count].value = equals + 1;
		out->count++;
	}
}

void answer_tag(const struct answer *answer, int index, struct words *out)
{
	const char *value = answer_nth(answer, "tag", index);

	answer_words("tag", value ? value : "", out);
}

const char *words_text(const struct words *words, const char *key)
{
	const char *value = find(words->pairs, words->count, key, 0);

	return value ? value : "";
}

unsigned long long words_number(const struct words *words, const char *key)
{
	return strtoull(words_text(words, key), NULL, 10);
}
