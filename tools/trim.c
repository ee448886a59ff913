/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl trim [OPTION...] PID...\n"
	"\n"
	"Give back the host memory that is kept for the next sleep.\n"
	SELECT_HELP
	COMMON_HELP;

static void sentence(const struct answer *answer)
{
	char trimmed[SIZE_TEXT];

	printf("%s %s: %s of host memory given back\n",
	       answer_text(answer, "pid"), answer_text(answer, "state"),
	       print_size(answer_number(answer, "trimmed-bytes"), trimmed));
}

enum outcome trim_main(int argc, char **argv)
{
	static const struct question question = {
		.verb = "trim",
		.help = help,
		.style = { .sentence = sentence },
	};

	return ask_main(argc, argv, &question);
}
