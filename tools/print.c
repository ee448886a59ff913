/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const whole_keys[] = {
	"pid", "sequence", "allocations", "held-calls", "held-now",
	"unhooked", NULL
};
static const char *const decimal_keys[] = {
	"seconds", "drain-seconds", "gib-per-second", NULL
};

void print_plain(const struct answer *answer)
{
	static bool again;
	int i;

	if (again)
		printf("\n");
	again = true;
	for (i = 0; i < answer->count; i++)
		printf("%s=%s\n", answer->pairs[i].key, answer->pairs[i].value);
	for (i = 0; i < answer->tags_count; i++)
		printf("tag=%s\n", answer->tags[i]);
}

static bool listed(const char *const *keys, const char *key)
{
	for (; *keys; keys++)
		if (!strcmp(*keys, key))
			return true;
	return false;
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text);
	size_t end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

/* What a value is follows from its key: a program may be named "123". */
static json_t *json_value(const struct pair *pair)
{
	if (ends_in(pair->key, "-bytes") || listed(whole_keys, pair->key))
		return json_integer(strtoll(pair->value, NULL, 10));
	if (listed(decimal_keys, pair->key))
		return json_real(strtod(pair->value, NULL));
	return json_string(pair->value);
}

static json_t *json_pairs(const struct pair *pairs, int count)
{
	json_t *object = json_object();
	int i;

	for (i = 0; i < count; i++)
		json_object_set_new(object, pairs[i].key,
				    json_value(&pairs[i]));
	return object;
}

json_t *print_object(const struct answer *answer)
{
	json_t *object = json_pairs(answer->pairs, answer->count);
	json_t *tags = json_array();
	struct tag tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		json_array_append_new(tags, json_pairs(tag.pairs, tag.count));
	}
	json_object_set_new(object, "tags", tags);
	return object;
}

void print_json(json_t *value)
{
	char *text = json_dumps(value, JSON_REAL_PRECISION(12));

	if (text)
		puts(text);
	free(text);
	json_decref(value);
}

const char *print_size(unsigned long long bytes, char buf[SIZE_TEXT])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes / 1024;
	int unit = 0;

	if (!bytes)
		return strcpy(buf, "0");
	while (value >= 1023.95 && unit < 3) {
		value /= 1024;
		unit++;
	}
	snprintf(buf, SIZE_TEXT, "%.1f %s", value, units[unit]);
	return buf;
}

void print_answer(const struct answer *answer, const struct common *common,
		  void (*sentence)(const struct answer *answer))
{
	if (common->human)
		sentence(answer);
	else if (common->format == JSON)
		print_json(print_object(answer));
	else
		print_plain(answer);
}

static const char *outcome_word(enum outcome outcome)
{
	switch (outcome) {
	case NO_PROCESS:
		return "no-process";
	case BUSY:
		return "busy";
	default:
		return "failed";
	}
}

enum outcome print_failure(pid_t pid, const struct common *common,
			   enum outcome outcome, const char *why)
{
	if (!strncmp(why, "no vsleep in process", 20))
		fprintf(stderr, "vsleepctl: %s\n", why);
	else
		complain(pid, "%s", why);
	if (common->format == JSON)
		print_json(json_pack("{s:i, s:s, s:s}", "pid", (int)pid,
				     "status", outcome_word(outcome),
				     "message", why));
	return outcome;
}

static enum outcome outcome_of(const char *status)
{
	static const struct {
		const char *word;
		enum outcome outcome;
	} words[] = {
		{ "ok", DONE },
		{ "partial", PARTIAL },
		{ "busy", BUSY },
		{ "no-memory", NO_MEMORY },
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].word, status))
			return words[i].outcome;
	return FAILED;
}

enum outcome print_result(pid_t pid, const struct answer *answer,
			  const struct common *common,
			  void (*sentence)(const struct answer *answer))
{
	const char *status = answer_text(answer, "status");
	enum outcome outcome = outcome_of(status);

	if (outcome == DONE || outcome == PARTIAL || common->format == JSON)
		print_answer(answer, common, sentence);
	if (outcome != DONE)
		complain(pid, "%s: %s", status,
			 answer_text(answer, "message"));
	return outcome;
}

void print_progress(pid_t pid, const char *line)
{
	unsigned long long done, total;
	char done_text[SIZE_TEXT], total_text[SIZE_TEXT];
	char phase[32];

	if (!isatty(STDERR_FILENO) ||
	    sscanf(line, "phase=%31s done-bytes=%llu total-bytes=%llu", phase,
		   &done, &total) != 3)
		return;
	if (total)
		fprintf(stderr, "\r\033[K%d %s: %s of %s (%.0f %%)", (int)pid,
			phase, print_size(done, done_text),
			print_size(total, total_text),
			100.0 * (double)done / (double)total);
	else
		fprintf(stderr, "\r\033[K%d %s", (int)pid, phase);
}

void print_progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}
