/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
	"usage: vsleepctl config [OPTION...] PID...\n"
	"\n"
	"The settings that vsleep runs with in a process, and where they come\n"
	"from.\n"
	SELECT_HELP
	COMMON_HELP;

static void sentence(const struct answer *answer)
{
	const char *line, *value, *source;
	struct words words;
	int i;

	printf("%s\n", answer_text(answer, "pid"));
	for (i = 0; (line = answer_nth(answer, "setting", i)); i++) {
		answer_words("setting", line, &words);
		source = words_text(&words, "source");
		value = strstr(line, " value=");
		printf("  %s=%s%s\n", words_text(&words, "setting"),
		       value ? value + 7 : "",
		       !strcmp(source, "environment") ? "" :
		       !strcmp(source, "rejected") ?
		       "  (default; what was set is not allowed)" :
		       "  (default)");
	}
}

enum outcome config_main(int argc, char **argv)
{
	static const struct question question = {
		.verb = "config",
		.help = help,
		.style = { .sentence = sentence },
	};

	return ask_main(argc, argv, &question);
}
