/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"
#include "residual.h"
#include "vsleepctl.h"

#include <stdio.h>
#include <stdlib.h>

static const char help[] =
	"usage: vsleepctl status [OPTION...] PID...\n"
	"\n"
	"What a process holds and what sleeps.\n"
	SELECT_HELP
	COMMON_HELP;

static void print_tags(const struct answer *answer)
{
	char resident[SIZE_TEXT], asleep[SIZE_TEXT], host[SIZE_TEXT];
	struct words tag;
	int i;

	for (i = 0; i < answer->tags_count; i++) {
		answer_tag(answer, i, &tag);
		printf("  %s (%s) %s: %s resident, %s asleep, %s backed up\n",
		       words_text(&tag, "tag"), words_text(&tag, "policy"),
		       words_text(&tag, "state"),
		       print_size(words_number(&tag, "resident-bytes"),
				  resident),
		       print_size(words_number(&tag, "evicted-bytes"), asleep),
		       print_size(words_number(&tag, "backed-up-bytes"), host));
	}
}

static void print_devices(const struct answer *answer)
{
	char resident[SIZE_TEXT], asleep[SIZE_TEXT];
	struct words device;
	const char *line;
	int i;

	for (i = 0; (line = answer_nth(answer, "device", i)); i++) {
		answer_words("device", line, &device);
		printf("  device %s (%s, %s): %s resident, %s asleep%s\n",
		       words_text(&device, "device"),
		       words_text(&device, "bus"),
		       words_text(&device, "uuid"),
		       print_size(words_number(&device, "resident-bytes"),
				  resident),
		       print_size(words_number(&device, "evicted-bytes"),
				  asleep),
		       words_text(&device, "vmm")[0] == 'n' ?
		       ", memory cannot be mapped" : "");
	}
}

/* Why bytes stayed on the device in the last sleep. */
static void print_kept(const struct answer *answer)
{
	unsigned long long bytes;
	char size[SIZE_TEXT];
	const char *line;
	char *why;
	int i;

	for (i = 0; (line = answer_nth(answer, "kept", i)); i++) {
		bytes = strtoull(line, &why, 10);
		printf("  %s kept:%s\n", print_size(bytes, size), why);
	}
}

static void print_troubles(const struct answer *answer)
{
	static const struct {
		const char *key, *words;
	} troubles[] = {
		{ "unhooked-name", "it calls what vsleep does not know" },
		{ "last-error", "last error" },
		{ "remedy", "what to do" },
	};
	const char *text;
	size_t i;

	for (i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
		text = answer_text(answer, troubles[i].key);
		if (text[0])
			printf("  %s: %s\n", troubles[i].words, text);
	}
}

static void sentence(const struct answer *answer)
{
	unsigned long long allocations = answer_number(answer, "allocations");
	unsigned long long held = answer_number(answer, "held-now");
	char resident[SIZE_TEXT], asleep[SIZE_TEXT], rest[SIZE_TEXT];

	printf("%s %s %s%s: %llu allocation%s, %s resident, %s asleep, "
	       "%s unmanaged, %llu call%s held\n", answer_text(answer, "pid"),
	       answer_text(answer, "name"), answer_text(answer, "state"),
	       answer_text(answer, "paused")[0] == 'y' ? ", paused" : "",
	       allocations, allocations == 1 ? "" : "s",
	       print_size(answer_number(answer, "resident-bytes"), resident),
	       print_size(answer_number(answer, "evicted-bytes"), asleep),
	       print_size(answer_number(answer, "unmanaged-bytes"), rest),
	       held, held == 1 ? "" : "s");
	print_tags(answer);
	print_devices(answer);
	residual_print(answer);
	print_kept(answer);
	print_troubles(answer);
}

enum outcome status_main(int argc, char **argv)
{
	static const struct sum sums[] = {
		{ "resident-bytes", "resident" },
		{ "evicted-bytes", "asleep" },
		{ "unmanaged-bytes", "unmanaged" },
		{ NULL, NULL }
	};
	static const struct question question = {
		.verb = "status",
		.help = help,
		.style = { sentence, sums },
		.add = residual_add,
	};

	return ask_main(argc, argv, &question);
}
