/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/command.h"

#include "base/config.h"
#include "base/tag.h"
#include "base/why.h"

#include <stdio.h>
#include <string.h>

#define FIRST_WORD "vsleep"
#define VERSION "1"
#define PAIRS_MAX 16
#define DAY_MS (24u * 60 * 60 * 1000)
#define LEASE_MS 60000u
#define LEASE_MAX_MS 600000u

struct pair {
	const char *key;
	const char *value;
};

struct form {
	const struct verb *verb;
	struct pair pairs[PAIRS_MAX];
	int count;
};

struct verb {
	const char *name;
	const char *keys;	/* separated by one space */
	void (*run)(const struct form *form, struct vs_command *command,
		    struct vs_text *answer);
};

static void run_status(const struct form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_sleep(const struct form *form, struct vs_command *command,
		      struct vs_text *answer);
static void run_wake(const struct form *form, struct vs_command *command,
		     struct vs_text *answer);
static void run_pause(const struct form *form, struct vs_command *command,
		      struct vs_text *answer);
static void run_resume(const struct form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_quiesce(const struct form *form, struct vs_command *command,
			struct vs_text *answer);
static void run_cancel(const struct form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_tag(const struct form *form, struct vs_command *command,
		    struct vs_text *answer);
static void run_config(const struct form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_lend(const struct form *form, struct vs_command *command,
		     struct vs_text *answer);
static void run_return(const struct form *form, struct vs_command *command,
		       struct vs_text *answer);

static const struct verb verbs[] = {
	{ "status", "", run_status },
	{ "sleep", "level tags timeout-ms discard-all force hold dry-run "
	  "imports-only progress", run_sleep },
	{ "wake", "tags wait-ms hold own-only progress", run_wake },
	{ "pause", "timeout-ms progress", run_pause },
	{ "resume", "", run_resume },
	{ "quiesce", "timeout-ms lease-ms steady step progress", run_quiesce },
	{ "cancel", "", run_cancel },
	{ "tag", "name clear", run_tag },
	{ "config", "", run_config },
	{ "lend", "key segment offset allocation first", run_lend },
	{ "return", "key segment from to", run_return },
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

#define bad(answer, ...) vs_reply_error(answer, "bad-request", __VA_ARGS__)

int vs_command_scan(const char *text, size_t len, struct vs_text *answer)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (text[i] == '\n' && (i == 0 || text[i - 1] == '\n'))
			return (int)(i + 1);
		if (text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'))
			continue;
		bad(answer, "byte 0x%02x at offset %zu: a request is lines of "
		    "printable ASCII", (unsigned char)text[i], i);
		return -1;
	}
	if (len < VS_COMMAND_MAX)
		return 0;
	bad(answer, "the request is longer than %d bytes", VS_COMMAND_MAX);
	return -1;
}

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

static const char *value_of(const struct form *form, const char *key)
{
	int i;

	for (i = 0; i < form->count; i++)
		if (!strcmp(form->pairs[i].key, key))
			return form->pairs[i].value;
	return NULL;
}

static void list_verbs(char *buf, size_t size)
{
	size_t len = 0;
	size_t i;

	buf[0] = '\0';
	for (i = 0; i < VERBS && len < size; i++)
		len += snprintf(buf + len, size - len, "%s%s", i ? " " : "",
				verbs[i].name);
}

/* "vsleep 1 VERB" */
static bool parse_first(char *line, struct form *form, struct vs_text *answer)
{
	char *save = NULL;
	char *word = strtok_r(line, " ", &save);
	char *version = strtok_r(NULL, " ", &save);
	char *name = strtok_r(NULL, " ", &save);
	char known[128];
	size_t i;

	if (!word || strcmp(word, FIRST_WORD) || !version || !name ||
	    strtok_r(NULL, " ", &save)) {
		bad(answer, "the first line must be \"" FIRST_WORD " " VERSION
		    " VERB\"");
		return false;
	}
	if (strcmp(version, VERSION)) {
		bad(answer, "protocol version %.20s is not known; this "
		    "process speaks version " VERSION, version);
		return false;
	}
	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i].name, name)) {
			form->verb = &verbs[i];
			return true;
		}
	list_verbs(known, sizeof(known));
	bad(answer, "no verb \"%.40s\"; there are: %s", name, known);
	return false;
}

static bool parse_pair(char *line, struct form *form, struct vs_text *answer)
{
	char *equals = strchr(line, '=');

	if (!equals) {
		bad(answer, "line \"%.60s\": must be key=value", line);
		return false;
	}
	*equals = '\0';
	if (!word_in(form->verb->keys, line) || strchr(line, ' ')) {
		bad(answer, "%s has no key \"%.40s\"; it takes: %s",
		    form->verb->name, line,
		    form->verb->keys[0] ? form->verb->keys : "none");
		return false;
	}
	if (value_of(form, line)) {
		bad(answer, "%s is given twice", line);
		return false;
	}
	form->pairs[form->count].key = line;
	form->pairs[form->count].value = equals + 1;
	form->count++;
	return true;
}

/* Keys are known and not repeated, so they never exceed PAIRS_MAX. */
static bool parse(char *text, size_t len, struct form *form,
		  struct vs_text *answer)
{
	char *line = text;
	char *end = memchr(line, '\n', len);

	*end = '\0';
	if (!parse_first(line, form, answer))
		return false;
	for (line = end + 1; line < text + len - 1; line = end + 1) {
		end = memchr(line, '\n', text + len - line);
		*end = '\0';
		if (!parse_pair(line, form, answer))
			return false;
	}
	return true;
}

static bool read_number(const struct form *form, const char *key, unsigned min,
			unsigned max, unsigned *out, struct vs_text *answer)
{
	const char *value = value_of(form, key);
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

static bool read_choice(const struct form *form, const char *key,
			enum vs_choice *out, struct vs_text *answer)
{
	const char *value = value_of(form, key);

	if (!value)
		return true;
	if (strcmp(value, "yes") && strcmp(value, "no")) {
		bad(answer, "%s=%.40s: must be yes or no", key, value);
		return false;
	}
	*out = value[0] == 'y' ? VS_YES : VS_NO;
	return true;
}

static bool read_flag(const struct form *form, const char *key, bool *out,
		      struct vs_text *answer)
{
	enum vs_choice choice = *out ? VS_YES : VS_NO;

	if (!read_choice(form, key, &choice, answer))
		return false;
	*out = choice == VS_YES;
	return true;
}

/* The state as it is, under @status and @why. */
static void answer_now(struct vs_text *answer, enum vs_status status,
		       const struct vs_why *why)
{
	struct vs_reply reply;

	vs_operation_status(&reply);
	reply.status = status;
	reply.why = *why;
	vs_reply_write(answer, &reply);
}

static bool read_tags(const struct form *form, struct vs_request *request,
		      struct vs_text *answer)
{
	const char *value = value_of(form, "tags");
	struct vs_why why = { 0 };
	enum vs_status status;

	if (!value)
		return true;
	status = vs_tag_parse_set(value, &request->tags, &why);
	if (status) {
		answer_now(answer, status, &why);
		return false;
	}
	request->all_tags = false;
	return true;
}

/* The program is not kept at rest for this client any more. */
static void let_go(struct vs_command *command)
{
	if (command->rest)
		vs_operation_forget(command->rest);
	command->rest = NULL;
}

static void submit(struct vs_request *request, struct vs_command *command,
		   struct vs_text *answer)
{
	bool sleeps = request->verb == VS_VERB_SLEEP && !request->dry_run;
	struct vs_why why = { 0 };

	if (sleeps || request->verb == VS_VERB_PAUSE || request->step)
		request->rest = command->rest;
	else if (!request->dry_run)
		let_go(command);
	command->job = vs_operation_submit(request, command->notify_fd, &why);
	if (!command->job)
		answer_now(answer, why.status, &why);
	if (!request->dry_run)
		let_go(command);
}

static void run_status(const struct form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_why why = { 0 };

	(void)form;
	(void)command;
	answer_now(answer, VS_OK, &why);
}

static void run_sleep(const struct form *form, struct vs_command *command,
		      struct vs_text *answer)
{
	struct vs_request request;
	unsigned level = 1;

	vs_command_preset(VS_VERB_SLEEP, &request);
	if (!read_number(form, "level", 1, 2, &level, answer) ||
	    !read_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			 answer) ||
	    !read_flag(form, "discard-all", &request.discard_all, answer) ||
	    !read_flag(form, "force", &request.force, answer) ||
	    !read_choice(form, "hold", &request.hold, answer) ||
	    !read_flag(form, "dry-run", &request.dry_run, answer) ||
	    !read_flag(form, "imports-only", &request.imports_only, answer) ||
	    !read_flag(form, "progress", &command->progress, answer) ||
	    !read_tags(form, &request, answer))
		return;
	request.level = (int)level;
	submit(&request, command, answer);
}

static void run_wake(const struct form *form, struct vs_command *command,
		     struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_WAKE, &request);
	if (!read_number(form, "wait-ms", 0, DAY_MS, &request.wait_ms,
			 answer) ||
	    !read_choice(form, "hold", &request.hold, answer) ||
	    !read_flag(form, "own-only", &request.own_only, answer) ||
	    !read_flag(form, "progress", &command->progress, answer) ||
	    !read_tags(form, &request, answer))
		return;
	submit(&request, command, answer);
}

static void run_pause(const struct form *form, struct vs_command *command,
		      struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_PAUSE, &request);
	if (!read_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			 answer) ||
	    !read_flag(form, "progress", &command->progress, answer))
		return;
	submit(&request, command, answer);
}

static void run_resume(const struct form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_why why = { 0 };

	(void)form;
	let_go(command);
	vs_operation_resume();
	answer_now(answer, VS_OK, &why);
}

static void run_quiesce(const struct form *form, struct vs_command *command,
			struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_QUIESCE, &request);
	if (!read_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			 answer) ||
	    !read_number(form, "lease-ms", 1, LEASE_MAX_MS, &request.lease_ms,
			 answer) ||
	    !read_flag(form, "steady", &request.steady, answer) ||
	    !read_flag(form, "step", &request.step, answer) ||
	    !read_flag(form, "progress", &command->progress, answer))
		return;
	submit(&request, command, answer);
	command->rests = true;
}

static void run_cancel(const struct form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_reply reply;
	int count;

	(void)form;
	let_go(command);
	count = vs_operation_cancel();
	vs_operation_status(&reply);
	vs_reply_cancelled(answer, count, &reply);
}

static void add_setting(const struct vs_config_row *row, void *answer)
{
	vs_reply_setting(answer, row);
}

static void run_config(const struct form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	(void)form;
	let_go(command);
	vs_reply_add(answer, "status=ok\n");
	vs_config_each(add_setting, answer);
	vs_reply_add(answer, "\n");
}

static void run_tag(const struct form *form, struct vs_command *command,
		    struct vs_text *answer)
{
	const char *name = value_of(form, "name");
	struct vs_why why = { 0 };
	bool clear = false;

	if (!read_flag(form, "clear", &clear, answer))
		return;
	if (!name == !clear) {
		bad(answer, "tag takes either name=NAME or clear=yes");
		return;
	}
	let_go(command);
	answer_now(answer, vs_tag_mark(name, &why), &why);
}

static void read_lend(const struct form *form, struct vs_lend_words *out)
{
	*out = (struct vs_lend_words){
		.key = value_of(form, "key"),
		.segment = value_of(form, "segment"),
		.offset = value_of(form, "offset"),
		.allocation = value_of(form, "allocation"),
		.first = value_of(form, "first"),
		.from = value_of(form, "from"), .to = value_of(form, "to"),
	};
}

static void run_lend(const struct form *form, struct vs_command *command,
		     struct vs_text *answer)
{
	struct vs_lend_words words;

	read_lend(form, &words);
	vs_lend_answer(command->lending, &words, answer);
}

static void run_return(const struct form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_lend_words words;

	read_lend(form, &words);
	vs_lend_return(command->lending, &words, answer);
}

void vs_command_run(char *text, size_t len, struct vs_command *command,
		    struct vs_text *answer)
{
	struct form form = { 0 };

	command->job = NULL;
	command->rests = false;
	command->progress = false;
	if (parse(text, len, &form, answer))
		form.verb->run(&form, command, answer);
}

void vs_command_preset(enum vs_verb verb, struct vs_request *request)
{
	memset(request, 0, sizeof(*request));
	request->verb = verb;
	request->level = 1;
	request->all_tags = true;
	request->timeout_ms = (unsigned)vs_config.timeout_ms;
	request->lease_ms = LEASE_MS;
	request->hold = VS_DEFAULT;
}
