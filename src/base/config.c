/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/config.h"
#include "base/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum type { BOOL, TEXT, TAG, MILLISECONDS, BYTES, COUNT };

static const char *const type_words[] = {
	[BOOL] = "0|1", [TEXT] = "text", [TAG] = "tag",
	[MILLISECONDS] = "seconds", [BYTES] = "bytes", [COUNT] = "number",
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

static bool parse_seconds(const char *text, size_t *out)
{
	double seconds;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	seconds = strtod(text, &end);
	if (*end || !(seconds >= 0.001 && seconds <= 86400))
		return false;
	*out = (size_t)(seconds * 1000);
	return true;
}

static bool parse_count(const char *text, size_t *out)
{
	return vs_config_bytes(text, out) && *out <= 64;
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
	}
	return false;
}

/* An empty value counts as unset, except for the tag, where it says native. */
static void read_row(const struct row *row)
{
	const char *text = getenv(row->env);

	if (text && (*text || row->type == TAG) && parse(row, text))
		return;
	if (text && *text)
		vs_log_warn("%s=%s is not valid (%s: %s); using \"%s\"",
			    row->env, text, type_words[row->type], row->help,
			    row->preset);
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

void vs_config_each(void (*fn)(const char *env, const char *type,
			       const char *preset, const char *help,
			       void *arg), void *arg)
{
	size_t i;

	for (i = 0; i < ROWS; i++)
		fn(rows[i].env, type_words[rows[i].type], rows[i].preset,
		   rows[i].help, arg);
}
