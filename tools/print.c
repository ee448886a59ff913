/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const whole_keys[] = {
	"pid", "sequence", "allocations", "held-calls", "held-now",
	"unhooked", "device", "contexts", "cancelled", "bytes", NULL
};
static const char *const decimal_keys[] = {
	"seconds", "drain-seconds", "gib-per-second", NULL
};

static void separate(void)
{
	static bool again;

	if (again)
		printf("\n");
	again = true;
}

static void print_block(int pid, const char *status, const char *why)
{
	separate();
	printf("status=%s\nmessage=%s\npid=%d\n", status, why, pid);
}

/* The lines as they came, an empty line before any but the first answer. */
static void print_plain(const struct answer *answer)
{
	int i;

	separate();
	for (i = 0; i < answer->count; i++)
		printf("%s=%s\n", answer->pairs[i].key, answer->pairs[i].value);
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

json_t *print_string(const char *text)
{
	json_t *string = json_string(text);
	char *plain, *at;

	if (string)
		return string;
	plain = strdup(text);
	for (at = plain; at && *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	string = json_string(plain ? plain : "");
	free(plain);
	return string;
}

/* What a value is follows from its key: a program may be named "123". */
static json_t *json_value(const struct pair *pair)
{
	if (ends_in(pair->key, "-bytes") || listed(whole_keys, pair->key))
		return json_integer(strtoll(pair->value, NULL, 10));
	if (listed(decimal_keys, pair->key))
		return json_real(strtod(pair->value, NULL));
	return print_string(pair->value);
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

/* "NAME KEY=VALUE ...", the name under @key */
static json_t *words_object(const char *key, const char *value)
{
	struct words words;

	answer_words(key, value, &words);
	return json_pairs(words.pairs, words.count);
}

static json_t *tag_object(const char *value)
{
	return words_object("tag", value);
}

static json_t *device_object(const char *value)
{
	return words_object("device", value);
}

/* "NAME source=WORD value=", and the value to the end of the line */
static json_t *setting_object(const char *value)
{
	const char *at = strstr(value, " value=");
	json_t *object = words_object("setting", value);

	json_object_set_new(object, "value", print_string(at ? at + 7 : ""));
	return object;
}

/* "BYTES WHY" */
static json_t *kept_object(const char *value)
{
	char *why;
	unsigned long long bytes = strtoull(value, &why, 10);

	return json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "why",
			 print_string(why + (*why == ' ')));
}

/* Lines that come any number of times are arrays. */
static const struct array {
	const char *key;
	const char *name;
	json_t *(*value)(const char *value);
} arrays[] = {
	{ "kept", "kept", kept_object },
	{ "obstacle", "obstacles", print_string },
	{ "setting", "settings", setting_object },
	{ "tag", "tags", tag_object },
	{ "device", "devices", device_object },
};

#define ARRAYS (sizeof(arrays) / sizeof(arrays[0]))

static const struct array *array_of(const char *key)
{
	size_t i;

	for (i = 0; i < ARRAYS; i++)
		if (!strcmp(arrays[i].key, key))
			return &arrays[i];
	return NULL;
}

static json_t *answer_object(const struct answer *answer)
{
	json_t *object = json_object();
	json_t *list;
	const char *value;
	size_t i;
	int j;

	for (j = 0; j < answer->count; j++)
		if (!array_of(answer->pairs[j].key))
			json_object_set_new(object, answer->pairs[j].key,
					    json_value(&answer->pairs[j]));
	for (i = 0; i < ARRAYS; i++) {
		list = json_array();
		for (j = 0; (value = answer_nth(answer, arrays[i].key, j));
		     j++)
			json_array_append_new(list, arrays[i].value(value));
		if (j || (!strcmp(arrays[i].key, "tag") &&
			  answer_text(answer, "state")[0]))
			json_object_set_new(object, arrays[i].name, list);
		else
			json_decref(list);
	}
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
	if (bytes < 1024) {
		snprintf(buf, SIZE_TEXT, "%llu byte%s", bytes,
			 bytes == 1 ? "" : "s");
		return buf;
	}
	while (value >= 1023.95 && unit < 3) {
		value /= 1024;
		unit++;
	}
	snprintf(buf, SIZE_TEXT, "%.1f %s", value, units[unit]);
	return buf;
}

void print_copied(const struct answer *answer)
{
	const char *speed = answer_text(answer, "gib-per-second");
	char copied[SIZE_TEXT];

	printf(" (%s copied%s%s%s)",
	       print_size(answer_number(answer, "copied-bytes"), copied),
	       speed[0] ? " at " : "", speed, speed[0] ? " GiB/s" : "");
}

void print_seconds(const struct answer *answer)
{
	const char *seconds = answer_text(answer, "seconds");

	if (seconds[0])
		printf(", %s s", seconds);
	printf("\n");
}

static void print_answer(const struct answer *answer,
			 const struct common *common,
			 const struct style *style)
{
	if (common->human)
		style->sentence(answer);
	else if (common->format == JSON)
		print_json(answer_object(answer));
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

static json_t *failure(pid_t pid, const char *status, const char *why)
{
	return json_pack("{s:i, s:s, s:o}", "pid", (int)pid, "status", status,
			 "message", print_string(why));
}

/* What could not be done: on stderr, and as an object for --json. */
static enum outcome print_failure(pid_t pid, const struct common *common,
				  enum outcome outcome, const char *why)
{
	if (!strncmp(why, "no vsleep in process", 20))
		fprintf(stderr, "vsleepctl: %s\n", why);
	else
		complain(pid, "%s", why);
	if (common->format == JSON)
		print_json(failure(pid, outcome_word(outcome), why));
	return outcome;
}

/* The outcome that a status means. */
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

/* A failure by its status is printed as one; else the answer is, and what is
 * wrong with one that is done in part. */
static enum outcome print_result(pid_t pid, const struct answer *answer,
				 const struct common *common,
				 const struct style *style)
{
	const char *status = answer_text(answer, "status");
	const char *message = answer_text(answer, "message");
	enum outcome outcome = outcome_of(status);

	if (outcome == DONE || outcome == PARTIAL || common->format == JSON)
		print_answer(answer, common, style);
	if (outcome != DONE)
		complain(pid, "%s%s%s", status, message[0] ? ": " : "",
			 message);
	return outcome;
}

/* A process that was not done, which is no failure of its own. */
static void print_other(const struct member *member,
			const struct common *common, const char *status)
{
	const char *why = member->connection.why;
	int pid = (int)member->connection.pid;

	if (common->format == JSON)
		print_json(failure(pid, status, why));
	else if (member->absent && common->human)
		printf("%d not applicable: %s\n", pid, why);
	else if (member->absent)
		print_block(pid, status, why);
	else
		complain(pid, "%s", why);
}

static bool done(const struct member *member)
{
	return !member->spared &&
	       (member_said(member, "ok") || member_said(member, "partial"));
}

static void print_sums(const struct group *group, const struct sum *sum)
{
	unsigned long long bytes;
	char text[SIZE_TEXT];
	const char *mark = ":";
	int i, count = 0;

	for (i = 0; i < group->count; i++)
		count += done(&group->members[i]);
	if (count < 2)
		return;
	printf("%d processes", count);
	for (; sum->key; sum++) {
		bytes = 0;
		for (i = 0; i < group->count; i++)
			if (done(&group->members[i]))
				bytes += answer_number(
					group->members[i].answer, sum->key);
		printf("%s %s %s", mark, print_size(bytes, text), sum->word);
		mark = ",";
	}
	printf("\n");
}

enum outcome print_group(const struct group *group,
			 const struct common *common,
			 const struct style *style)
{
	enum outcome worst = DONE;
	const struct member *member;
	int i;

	for (i = 0; i < group->count; i++) {
		member = &group->members[i];
		if (member->absent)
			print_other(member, common, "not-applicable");
		else if (member->spared)
			print_other(member, common, "cancelled");
		else if (member->answered)
			worst = worse(worst, print_result(
				member->connection.pid, member->answer, common,
				style));
		else
			worst = worse(worst, print_failure(
				member->connection.pid, common,
				member->connection.outcome,
				member->connection.why));
	}
	if (common->human && style->sums)
		print_sums(group, style->sums);
	return worst;
}

static bool progress_shown;

void print_progress(const struct group *group)
{
	unsigned long long done = 0, total = 0;
	char done_text[SIZE_TEXT], total_text[SIZE_TEXT];
	const struct member *last = NULL;
	int i, count = 0;

	if (!isatty(STDERR_FILENO))
		return;
	for (i = 0; i < group->count; i++) {
		if (!group->members[i].phase[0])
			continue;
		last = &group->members[i];
		done += last->done_bytes;
		total += last->total_bytes;
		count++;
	}
	if (!last)
		return;
	progress_shown = true;
	fprintf(stderr, "\r\033[K");
	if (count > 1)
		fprintf(stderr, "%d processes, %s", count, last->phase);
	else
		fprintf(stderr, "%d %s", (int)last->connection.pid,
			last->phase);
	if (total)
		fprintf(stderr, ": %s of %s (%.0f %%)",
			print_size(done, done_text),
			print_size(total, total_text),
			100.0 * (double)done / (double)total);
}

void print_progress_end(void)
{
	if (progress_shown)
		fprintf(stderr, "\r\033[K");
	progress_shown = false;
}
