/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "message.h"

#include "vsleepctl.h"

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
	size_t room = sizeof(request->text) - request->len;
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
	answer->len = 0;
}

void answer_add(struct answer *answer, char *line)
{
	char *equals = strchr(line, '=');

	if (!equals)
		return;
	if (!strncmp(line, "tag=", 4)) {
		if (answer->tags_count < TAGS_MAX)
			answer->tags[answer->tags_count++] = line + 4;
		return;
	}
	if (answer->count == PAIRS_MAX)
		return;
	*equals = '\0';
	answer->pairs[answer->count].key = line;
	answer->pairs[answer->count].value = equals + 1;
	answer->count++;
}

static const char *find(const struct pair *pairs, int count, const char *key)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(pairs[i].key, key))
			return pairs[i].value;
	return "";
}

const char *answer_text(const struct answer *answer, const char *key)
{
	return find(answer->pairs, answer->count, key);
}

unsigned long long answer_number(const struct answer *answer,
				 const char *key)
{
	return strtoull(answer_text(answer, key), NULL, 10);
}

void answer_tag(const struct answer *answer, int index, struct tag *out)
{
	char *save = NULL;
	char *word;
	char *equals;

	snprintf(out->text, sizeof(out->text), "tag=%s", answer->tags[index]);
	out->count = 0;
	for (word = strtok_r(out->text, " ", &save);
	     word && out->count < PAIRS_MAX;
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

const char *tag_text(const struct tag *tag, const char *key)
{
	return find(tag->pairs, tag->count, key);
}

unsigned long long tag_number(const struct tag *tag, const char *key)
{
	return strtoull(tag_text(tag, key), NULL, 10);
}
