/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "vsleepctl.h"

#include <stdio.h>

static const char help[] =
	"usage: vsleepctl cancel [OPTION...] PID...\n"
	"\n"
	"Take back what waits: for the program to come to rest, for memory,\n"
	"or for its turn.  What moves bytes already ends first.\n"
	SELECT_HELP
	COMMON_HELP;

static void sentence(const struct answer *answer)
{
	unsigned long long count = answer_number(answer, "cancelled");

	printf("%s %s: %llu request%s taken back\n",
	       answer_text(answer, "pid"), answer_text(answer, "state"), count,
	       count == 1 ? "" : "s");
}

enum outcome cancel_main(int argc, char **argv)
{
	static const struct question question = {
		.verb = "cancel",
		.help = help,
		.style = { .sentence = sentence },
	};

	return ask_main(argc, argv, &question);
}
