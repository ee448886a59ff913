/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"

#include "library.h"
#include "print.h"
#include "vsleepctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_FOUND 127		/* as shells have it */
#define TIMEOUT_MS 30000
#define AGAIN_MS 1000

static const char help[] =
	"usage: vsleepctl doctor [OPTION...] PID\n"
	"       vsleepctl doctor [OPTION...] -- COMMAND [ARG...]\n"
	"\n"
	"Whether vsleep is active in a process, or why not and what to do.\n"
	"A command is run under vsleep and watched; its output goes to\n"
	"standard error.\n"
	"\n"
	"  --timeout SECONDS      end the command after so long (30)\n"
	"  --json                 one JSON object\n"
	"  --help                 this text\n";

enum { OPT_TIMEOUT = OPT_OWN };

static const struct option options[] = {
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 }
};

static const struct {
	const char *word;
	const char *sentence;
} verdicts[] = {
	[NO_SUCH_PROCESS] = { "no-process", "there is no such process" },
	[UNREADABLE] = { "unreadable", "it may not be looked into" },
	[NOT_LOADED] = { "not-loaded", "vsleep is not there" },
	[SWITCHED_OFF] = { "switched-off", "vsleep is switched off" },
	[NO_CUDA] = { "no-cuda", "vsleep is ready, CUDA has not been used" },
	[NO_CONTEXT] = { "no-context",
			 "vsleep is ready and has seen no CUDA context" },
	[NO_SOCKET] = { "no-socket", "vsleep is active without a socket" },
	[NO_ANSWER] = { "no-answer", "vsleep does not answer" },
	[ACTIVE] = { "active", "vsleep is active" },
};

static const char *const weights[] = {
	[NOTE] = "note", [OBSTACLE] = "obstacle", [CAUSE] = "cause",
};

/* What comes from other programs must not command a terminal. */
static void disarm(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

struct finding *doctor_find(struct diagnosis *diagnosis, enum weight weight,
			    const char *word, const char *format, ...)
{
	struct finding *finding;
	va_list args;
	int i;

	for (i = 0; i < diagnosis->count; i++)
		if (!strcmp(diagnosis->findings[i].word, word))
			break;
	if (i == FINDINGS_MAX)
		i--;
	else if (i == diagnosis->count)
		diagnosis->count++;
	finding = &diagnosis->findings[i];
	finding->word = word;
	finding->weight = weight;
	finding->remedy[0] = '\0';
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
	disarm(finding->text);
	return finding;
}

void doctor_remedy(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(finding->remedy, sizeof(finding->remedy), format, args);
	va_end(args);
	disarm(finding->remedy);
}

void doctor_merge(const struct diagnosis *from, struct diagnosis *to)
{
	const struct finding *finding;
	int i;

	for (i = 0; i < from->count; i++) {
		finding = &from->findings[i];
		doctor_remedy(doctor_find(to, finding->weight, finding->word,
					  "%s", finding->text),
			      "%s", finding->remedy);
	}
}

static bool has(const struct diagnosis *diagnosis, enum weight weight)
{
	int i;

	for (i = 0; i < diagnosis->count; i++)
		if (diagnosis->findings[i].weight == weight)
			return true;
	return false;
}

static enum outcome outcome_of(const struct diagnosis *diagnosis)
{
	switch (diagnosis->verdict) {
	case ACTIVE:
		return has(diagnosis, OBSTACLE) ? PARTIAL : DONE;
	case NO_CUDA:
	case NO_CONTEXT:
		return has(diagnosis, CAUSE) ? FAILED : BUSY;
	case NO_SUCH_PROCESS:
		return NO_PROCESS;
	default:
		return FAILED;
	}
}

static void set_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, print_string(text));
}

static void print_as_json(const struct diagnosis *diagnosis)
{
	json_t *object = json_object(), *list = json_array(), *item;
	const struct finding *finding;
	int i;

	json_object_set_new(object, "pid", json_integer(diagnosis->pid));
	set_text(object, "name", diagnosis->name);
	set_text(object, "verdict", verdicts[diagnosis->verdict].word);
	json_object_set_new(object, "active",
			    json_boolean(diagnosis->verdict == ACTIVE));
	for (i = 0; i < diagnosis->count; i++) {
		finding = &diagnosis->findings[i];
		item = json_object();
		set_text(item, "finding", finding->word);
		set_text(item, "weight", weights[finding->weight]);
		set_text(item, "text", finding->text);
		if (finding->remedy[0])
			set_text(item, "remedy", finding->remedy);
		json_array_append_new(list, item);
	}
	json_object_set_new(object, "findings", list);
	print_json(object);
}

static void print_sentences(const struct diagnosis *diagnosis)
{
	const struct finding *finding;
	int weight, i;

	if (diagnosis->pid)
		printf("%d%s", (int)diagnosis->pid,
		       diagnosis->name[0] ? " " : "");
	printf("%s: %s\n", diagnosis->name,
	       verdicts[diagnosis->verdict].sentence);
	for (weight = CAUSE; weight >= NOTE; weight--)
		for (i = 0; i < diagnosis->count; i++) {
			finding = &diagnosis->findings[i];
			if ((int)finding->weight != weight)
				continue;
			printf("  %s: %s\n", finding->word, finding->text);
			if (finding->remedy[0])
				printf("      What to do: %s.\n",
				       finding->remedy);
		}
}

static enum outcome report(struct diagnosis *diagnosis, bool json)
{
	disarm(diagnosis->name);
	if (json)
		print_as_json(diagnosis);
	else
		print_sentences(diagnosis);
	return outcome_of(diagnosis);
}

static void name_it(const char *path, struct diagnosis *diagnosis)
{
	snprintf(diagnosis->name, sizeof(diagnosis->name), "%.63s",
		 basename(path));
}

static enum outcome examine_command(char **command, unsigned timeout_ms,
				    bool json)
{
	static struct diagnosis before, diagnosis;
	char library[PATH_MAX], why[PATH_MAX + 128];

	if (!library_find(library, why)) {
		fprintf(stderr, "vsleepctl: %s\n", why);
		exit(NOT_FOUND);
	}
	if (!library_preload(library))
		exit(NOT_FOUND);
	doctor_command(command, &before);
	if (!doctor_run(command, timeout_ms, &diagnosis)) {
		if (!before.count)
			exit(NOT_FOUND);
		before.verdict = NOT_LOADED;
		name_it(command[0], &before);
		return report(&before, json);
	}
	if (diagnosis.verdict == NO_SUCH_PROCESS) {
		diagnosis.verdict = NO_CUDA;
		doctor_find(&diagnosis, NOTE, "too-short", "The command ended "
			    "before anything of it was seen.");
	}
	/* What it was started by may have been seen. */
	if (diagnosis.verdict == NO_CUDA && has(&before, CAUSE))
		diagnosis.verdict = NOT_LOADED;
	if (diagnosis.verdict != ACTIVE)
		doctor_merge(&before, &diagnosis);
	if (!diagnosis.name[0])
		name_it(command[0], &diagnosis);
	return report(&diagnosis, json);
}

enum outcome doctor_main(int argc, char **argv)
{
	static struct diagnosis diagnosis;
	unsigned timeout_ms = TIMEOUT_MS;
	bool json = false;
	pid_t pid;
	int value;

	while ((value = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (value == OPT_JSON) {
			json = true;
		} else if (value == OPT_HELP) {
			fputs(help, stdout);
			return DONE;
		} else if (value != OPT_TIMEOUT) {
			return USAGE;
		} else if (!parse_timeout(optarg, &timeout_ms)) {
			return USAGE;
		}
	}
	argv += optind;
	if (argv[0] && !strcmp(argv[-1], "--"))
		return examine_command(argv, timeout_ms, json);
	if (!argv[0] || argv[1] || !parse_pid(argv[0], &pid))
		return usage_error("doctor takes one PID, or a command "
				   "after --");
	doctor_process(pid, &diagnosis);
	/* A context that is just being made is seen by the driver first. */
	if (diagnosis.verdict == NO_CONTEXT && has(&diagnosis, CAUSE)) {
		pause_ms(AGAIN_MS);
		doctor_process(pid, &diagnosis);
	}
	return report(&diagnosis, json);
}
