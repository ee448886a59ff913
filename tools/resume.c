/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl resume [OPTION...] PID...\n"
	"\n"
	"Let paused processes run on.  One that sleeps is held until it\n"
	"wakes.\n"
	SELECT_HELP
	COMMON_HELP;

static void sentence(const struct answer *answer)
{
	const char *holds = answer_text(answer, "holds");

	if (holds[0])
		printf("%s %s: still held (%s)\n", answer_text(answer, "pid"),
		       answer_text(answer, "state"), holds);
	else
		printf("%s %s: runs\n", answer_text(answer, "pid"),
		       answer_text(answer, "state"));
}

enum outcome resume_main(int argc, char **argv)
{
	static const struct question question = {
		.verb = "resume",
		.help = help,
		.style = { .sentence = sentence },
	};

	return ask_main(argc, argv, &question);
}
