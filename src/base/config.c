/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/config.h"
#include "base/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { BOOL, TEXT, TAG, MILLISECONDS, BYTES, COUNT, CHOICE };

static const char *const type_words[] = {
	[BOOL] = "0|1", [TEXT] = "text", [TAG] = "tag",
	[MILLISECONDS] = "seconds", [BYTES] = "bytes", [COUNT] = "number",
	[CHOICE] = "auto|yes|no",
};

static const char *const choices[] = {
	[VS_CONFIG_AUTO] = "auto", [VS_CONFIG_YES] = "yes",
	[VS_CONFIG_NO] = "no",
};

struct row {
	const char *env;
	const char *preset;
	const char *help;
	enum type type;
	size_t offset;
};

struct vs_config vs_config;

static const struct row rows[] = {
#define X(field, type, env, preset, help) \
	{ env, preset, help, type, offsetof(struct vs_config, field) },
#include "base/config.def"
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *sources[ROWS];
static char *copies[ROWS];	/* of what the environment says */

bool vs_config_bytes(const char *text, size_t *out)
{
	static const char units[] = "KMGT";
	unsigned long long number;
	const char *unit;
	int shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return false;
		shift = 10 * (int)(unit - units + 1);
	}
	if (number > SIZE_MAX >> shift)
		return false;
	*out = (size_t)number << shift;
	return true;
}

/* Not strtod: it takes hexadecimal, and a decimal comma in some locales. */
static bool parse_seconds(const char *text, size_t *out)
{
	size_t ms = 0, digits;
	size_t scale = 1000;

	for (digits = 0; *text >= '0' && *text <= '9'; text++, digits++)
		ms = ms * 10 + (size_t)(*text - '0') * 1000;
	if (!digits || digits > 6)
		return false;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			scale /= 10;
			ms += (size_t)(*text - '0') * scale;
		}
	if (*text || ms < 1 || ms > 86400 * (size_t)1000)
		return false;
	*out = ms;
	return true;
}

static bool parse_count(const char *text, size_t *out)
{
	return vs_config_bytes(text, out) && *out <= 64;
}

static bool parse_choice(const char *text, enum vs_config_choice *out)
{
	size_t i;

	for (i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		if (strcmp(text, choices[i]))
			continue;
		*out = (enum vs_config_choice)i;
		return true;
	}
	return false;
}

static bool parse(const struct row *row, const char *text)
{
	char *field = (char *)&vs_config + row->offset;

	switch (row->type) {
	case BOOL:
		if (strcmp(text, "0") && strcmp(text, "1"))
			return false;
		*(bool *)field = *text == '1';
		return true;
	case TEXT:
	case TAG:
		*(const char **)field = text;
		return true;
	case MILLISECONDS:
		return parse_seconds(text, (size_t *)field);
	case BYTES:
		return vs_config_bytes(text, (size_t *)field);
	case COUNT:
		return parse_count(text, (size_t *)field);
	case CHOICE:
		return parse_choice(text, (enum vs_config_choice *)field);
	}
	return false;
}

/* A title that a program gives itself is written over the environment that it
 * was started with. */
static const char *own_copy(const struct row *row, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	copies[row - rows] = copy;
	return copy ? copy : text;
}

/* An empty value counts as unset, except for the tag, where it says native. */
static void read_row(const struct row *row)
{
	const char *text = own_copy(row, getenv(row->env));

	sources[row - rows] = "environment";
	if (text && (*text || row->type == TAG) && parse(row, text))
		return;
	sources[row - rows] = text && *text ? "rejected" : "default";
	parse(row, row->preset);
}

static bool listed(const char *list, const char *name)
{
	size_t size = strlen(name);
	const char *item;

	for (item = list; item; item = strchr(item, ',')) {
		item += *item == ',';
		if (!strncmp(item, name, size) &&
		    (!item[size] || item[size] == ','))
			return true;
	}
	return false;
}

bool vs_config_read(void)
{
	static bool done;
	size_t i;

	if (!done) {
		for (i = 0; i < ROWS; i++)
			read_row(&rows[i]);
		done = true;
	}
	if (vs_config.disable)
		return false;
	return !*vs_config.only ||
	       listed(vs_config.only, program_invocation_short_name);
}

void vs_config_say_rejected(void)
{
	const struct row *row;
	const char *text;

	for (row = rows; row < rows + ROWS; row++) {
		text = copies[row - rows];
		if (text && !strcmp(sources[row - rows], "rejected"))
			vs_log_warn("%s=%s is not valid (%s: %s); using "
				    "\"%s\"", row->env, text,
				    type_words[row->type], row->help,
				    row->preset);
	}
}

void vs_config_reject(const char *env, const char *in_use)
{
	size_t i;

	for (i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].env, env))
			continue;
		sources[i] = "rejected";
		parse(&rows[i], in_use);
	}
}

static void print_value(const struct row *row, char *buf, size_t size)
{
	const char *field = (const char *)&vs_config + row->offset;
	size_t number = 0;

	if (row->type == TEXT || row->type == TAG) {
		snprintf(buf, size, "%s", *(const char *const *)field);
		return;
	}
	if (row->type == CHOICE) {
		snprintf(buf, size, "%s",
			 choices[*(const enum vs_config_choice *)field]);
		return;
	}
	if (row->type == BOOL)
		number = *(const bool *)field;
	else
		number = *(const size_t *)field;
	if (row->type == MILLISECONDS && number % 1000)
		snprintf(buf, size, "%zu.%03zu", number / 1000, number % 1000);
	else
		snprintf(buf, size, "%zu", row->type == MILLISECONDS ?
			 number / 1000 : number);
}

void vs_config_each(void (*fn)(const struct vs_config_row *row, void *arg),
		    void *arg)
{
	struct vs_config_row out;
	size_t i;

	for (i = 0; i < ROWS; i++) {
		out.env = rows[i].env;
		out.type = type_words[rows[i].type];
		out.preset = rows[i].preset;
		out.help = rows[i].help;
		out.source = sources[i];
		print_value(&rows[i], out.value, sizeof(out.value));
		fn(&out, arg);
	}
}
