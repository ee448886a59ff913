/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/form.h"

#include <string.h>

#define bad(answer, ...) vs_reply_error(answer, "bad-request", __VA_ARGS__)

static bool word_in(const char *words, const char *word)
{
	size_t len = strlen(word);
	const char *at = words;

	while (len && (at = strstr(at, word))) {
		if ((at == words || at[-1] == ' ') &&
		    (at[len] == ' ' || !at[len]))
			return true;
		at += len;
	}
	return false;
}

const char *vs_form_value(const struct vs_form *form, const char *key)
{
	int i;

	for (i = 0; i < form->count; i++)
		if (!strcmp(form->pairs[i].key, key))
			return form->pairs[i].value;
	return NULL;
}

bool vs_form_add(struct vs_form *form, char *line, struct vs_text *answer)
{
	char *equals = strchr(line, '=');

	if (!equals) {
		bad(answer, "line \"%.60s\": must be key=value", line);
		return false;
	}
	*equals = '\0';
	if (!word_in(form->keys, line) || strchr(line, ' ')) {
		bad(answer, "%s has no key \"%.40s\"; it takes: %s",
		    form->verb, line,
		    form->keys[0] ? form->keys : "none");
		return false;
	}
	if (vs_form_value(form, line)) {
		bad(answer, "%s is given twice", line);
		return false;
	}
	form->pairs[form->count].key = line;
	form->pairs[form->count].value = equals + 1;
	form->count++;
	return true;
}

bool vs_form_number(const struct vs_form *form, const char *key, unsigned min,
		    unsigned max, unsigned *out, struct vs_text *answer)
{
	const char *value = vs_form_value(form, key);
	unsigned long long number = 0;
	size_t i;

	if (!value)
		return true;
	for (i = 0; value[i] >= '0' && value[i] <= '9' && i < 12; i++)
		number = number * 10 + (value[i] - '0');
	if (!i || value[i] || number < min || number > max) {
		bad(answer, "%s=%.40s: must be a whole number from %u to %u",
		    key, value, min, max);
		return false;
	}
	*out = (unsigned)number;
	return true;
}

bool vs_form_choice(const struct vs_form *form, const char *key,
		    enum vs_choice *out, struct vs_text *answer)
{
	const char *value = vs_form_value(form, key);

	if (!value)
		return true;
	if (strcmp(value, "yes") && strcmp(value, "no")) {
		bad(answer, "%s=%.40s: must be yes or no", key, value);
		return false;
	}
	*out = value[0] == 'y' ? VS_YES : VS_NO;
	return true;
}

bool vs_form_flag(const struct vs_form *form, const char *key, bool *out,
		  struct vs_text *answer)
{
	enum vs_choice choice = *out ? VS_YES : VS_NO;

	if (!vs_form_choice(form, key, &choice, answer))
		return false;
	*out = choice == VS_YES;
	return true;
}
