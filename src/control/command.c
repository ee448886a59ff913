/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/command.h"

#include "control/form.h"
#include "base/config.h"
#include "base/tag.h"
#include "base/why.h"

#include <stdio.h>
#include <string.h>

#define FIRST_WORD "vsleep"
#define VERSION "1"
#define DAY_MS (24u * 60 * 60 * 1000)
#define LEASE_MS 60000u
#define LEASE_MAX_MS 600000u

struct verb {
	const char *name;
	const char *keys;	/* separated by one space */
	void (*run)(const struct vs_form *form, struct vs_command *command,
		    struct vs_text *answer);
};

static void run_status(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_sleep(const struct vs_form *form, struct vs_command *command,
		      struct vs_text *answer);
static void run_wake(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer);
static void run_pause(const struct vs_form *form, struct vs_command *command,
		      struct vs_text *answer);
static void run_resume(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_quiesce(const struct vs_form *form,
			struct vs_command *command, struct vs_text *answer);
static void run_trim(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer);
static void run_prepare(const struct vs_form *form,
			struct vs_command *command, struct vs_text *answer);
static void run_cancel(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_tag(const struct vs_form *form, struct vs_command *command,
		    struct vs_text *answer);
static void run_config(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer);
static void run_lend(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer);
static void run_return(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer);

static const struct verb verbs[] = {
	{ "status", "", run_status },
	{ "sleep", "level tags timeout-ms discard-all force hold dry-run "
	  "imports-only progress", run_sleep },
	{ "wake", "tags wait-ms hold own-only verify progress", run_wake },
	{ "pause", "timeout-ms progress", run_pause },
	{ "resume", "", run_resume },
	{ "quiesce", "timeout-ms lease-ms steady step progress", run_quiesce },
	{ "trim", "", run_trim },
	{ "prepare", "tags progress", run_prepare },
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
static const struct verb *parse_first(char *line, struct vs_text *answer)
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
		return NULL;
	}
	if (strcmp(version, VERSION)) {
		bad(answer, "protocol version %.20s is not known; this "
		    "process speaks version " VERSION, version);
		return NULL;
	}
	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	list_verbs(known, sizeof(known));
	bad(answer, "no verb \"%.40s\"; there are: %s", name, known);
	return NULL;
}

/* NULL: it was answered.  Keys are known and not repeated, so there is always
 * room for them. */
static const struct verb *parse(char *text, size_t len, struct vs_form *form,
				struct vs_text *answer)
{
	char *line = text, *end = memchr(line, '\n', len);
	const struct verb *verb;

	*end = '\0';
	verb = parse_first(line, answer);
	if (!verb)
		return NULL;
	form->verb = verb->name;
	form->keys = verb->keys;
	for (line = end + 1; line < text + len - 1; line = end + 1) {
		end = memchr(line, '\n', text + len - line);
		*end = '\0';
		if (!vs_form_add(form, line, answer))
			return NULL;
	}
	return verb;
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

static bool read_tags(const struct vs_form *form, struct vs_request *request,
		      struct vs_text *answer)
{
	const char *value = vs_form_value(form, "tags");
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

static void run_status(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_why why = { 0 };

	(void)form;
	(void)command;
	answer_now(answer, VS_OK, &why);
}

static void run_sleep(const struct vs_form *form, struct vs_command *command,
		      struct vs_text *answer)
{
	struct vs_request request;
	unsigned level = 1;

	vs_command_preset(VS_VERB_SLEEP, &request);
	if (!vs_form_number(form, "level", 1, 2, &level, answer) ||
	    !vs_form_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			    answer) ||
	    !vs_form_flag(form, "discard-all", &request.discard_all, answer) ||
	    !vs_form_flag(form, "force", &request.force, answer) ||
	    !vs_form_choice(form, "hold", &request.hold, answer) ||
	    !vs_form_flag(form, "dry-run", &request.dry_run, answer) ||
	    !vs_form_flag(form, "imports-only", &request.imports_only,
			  answer) ||
	    !vs_form_flag(form, "progress", &command->progress, answer) ||
	    !read_tags(form, &request, answer))
		return;
	request.level = (int)level;
	submit(&request, command, answer);
}

static void run_wake(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_WAKE, &request);
	if (!vs_form_number(form, "wait-ms", 0, DAY_MS, &request.wait_ms,
			    answer) ||
	    !vs_form_choice(form, "hold", &request.hold, answer) ||
	    !vs_form_flag(form, "own-only", &request.own_only, answer) ||
	    !vs_form_choice(form, "verify", &request.verify, answer) ||
	    !vs_form_flag(form, "progress", &command->progress, answer) ||
	    !read_tags(form, &request, answer))
		return;
	submit(&request, command, answer);
}

static void run_pause(const struct vs_form *form, struct vs_command *command,
		      struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_PAUSE, &request);
	if (!vs_form_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			    answer) ||
	    !vs_form_flag(form, "progress", &command->progress, answer))
		return;
	submit(&request, command, answer);
}

static void run_resume(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_why why = { 0 };

	(void)form;
	let_go(command);
	vs_operation_resume();
	answer_now(answer, VS_OK, &why);
}

static void run_quiesce(const struct vs_form *form,
			struct vs_command *command, struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_QUIESCE, &request);
	if (!vs_form_number(form, "timeout-ms", 1, DAY_MS, &request.timeout_ms,
			    answer) ||
	    !vs_form_number(form, "lease-ms", 1, LEASE_MAX_MS,
			    &request.lease_ms, answer) ||
	    !vs_form_flag(form, "steady", &request.steady, answer) ||
	    !vs_form_flag(form, "step", &request.step, answer) ||
	    !vs_form_flag(form, "progress", &command->progress, answer))
		return;
	submit(&request, command, answer);
	command->rests = true;
}

static void run_trim(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer)
{
	struct vs_request request;

	(void)form;
	vs_command_preset(VS_VERB_TRIM, &request);
	submit(&request, command, answer);
}

static void run_prepare(const struct vs_form *form,
			struct vs_command *command, struct vs_text *answer)
{
	struct vs_request request;

	vs_command_preset(VS_VERB_PREPARE, &request);
	if (!vs_form_flag(form, "progress", &command->progress, answer) ||
	    !read_tags(form, &request, answer))
		return;
	submit(&request, command, answer);
}

static void run_cancel(const struct vs_form *form, struct vs_command *command,
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

static void run_config(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	(void)form;
	let_go(command);
	vs_reply_add(answer, "status=ok\n");
	vs_config_each(add_setting, answer);
	vs_reply_add(answer, "\n");
}

static void run_tag(const struct vs_form *form, struct vs_command *command,
		    struct vs_text *answer)
{
	const char *name = vs_form_value(form, "name");
	struct vs_why why = { 0 };
	bool clear = false;

	if (!vs_form_flag(form, "clear", &clear, answer))
		return;
	if (!name == !clear) {
		bad(answer, "tag takes either name=NAME or clear=yes");
		return;
	}
	let_go(command);
	answer_now(answer, vs_tag_mark(name, &why), &why);
}

static void read_lend(const struct vs_form *form, struct vs_lend_words *out)
{
	*out = (struct vs_lend_words){
		.key = vs_form_value(form, "key"),
		.segment = vs_form_value(form, "segment"),
		.offset = vs_form_value(form, "offset"),
		.allocation = vs_form_value(form, "allocation"),
		.first = vs_form_value(form, "first"),
		.from = vs_form_value(form, "from"),
		.to = vs_form_value(form, "to"),
	};
}

static void run_lend(const struct vs_form *form, struct vs_command *command,
		     struct vs_text *answer)
{
	struct vs_lend_words words;

	read_lend(form, &words);
	vs_lend_answer(command->lending, &words, answer);
}

static void run_return(const struct vs_form *form, struct vs_command *command,
		       struct vs_text *answer)
{
	struct vs_lend_words words;

	read_lend(form, &words);
	vs_lend_return(command->lending, &words, answer);
}

void vs_command_run(char *text, size_t len, struct vs_command *command,
		    struct vs_text *answer)
{
	struct vs_form form = { 0 };
	const struct verb *verb;

	command->job = NULL;
	command->rests = false;
	command->progress = false;
	verb = parse(text, len, &form, answer);
	if (verb)
		verb->run(&form, command, answer);
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
