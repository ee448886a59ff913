/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"

#include "print.h"
#include "residual.h"

#include <stdio.h>
#include <string.h>

static void find_version(const struct answer *answer,
			 struct diagnosis *diagnosis)
{
	const char *version = answer_text(answer, "version");

	if (!strcmp(version, PACKAGE_VERSION))
		return;
	doctor_remedy(doctor_find(diagnosis, NOTE, "other-version",
				  "Its vsleep is of version %.40s, this "
				  "vsleepctl of version %s.", version,
				  PACKAGE_VERSION),
		      "use the two of one version");
}

static void find_devices(const struct answer *answer,
			 struct diagnosis *diagnosis)
{
	const char *line;
	struct words device;
	int i;

	for (i = 0; (line = answer_nth(answer, "device", i)); i++) {
		answer_words("device", line, &device);
		if (strcmp(words_text(&device, "vmm"), "no"))
			continue;
		doctor_remedy(doctor_find(diagnosis, OBSTACLE, "no-vmm",
					  "Device %.20s (%.60s) has no usable "
					  "virtual memory management: the "
					  "program's memory there stays with "
					  "the driver and cannot sleep.",
					  words_text(&device, "device"),
					  words_text(&device, "uuid")),
			      "some virtual GPUs have it as a setting of "
			      "their host (unified memory)");
	}
}

static void find_unhooked(const struct answer *answer,
			  struct diagnosis *diagnosis)
{
	if (!answer_number(answer, "unhooked"))
		return;
	doctor_remedy(doctor_find(diagnosis, OBSTACLE, "unhooked",
				  "It calls %.150s, which this vsleep does not "
				  "know and cannot hold: a sleep is refused.",
				  answer_text(answer, "unhooked-name")),
		      "a newer vsleep may know it; vsleepctl sleep --force "
		      "does without");
}

/* The words of findings are literals. */
static const char *kind_word(const char *kind)
{
	static const char *const words[] = {
		"native-memory", "vmm-memory", "pool-memory",
		"managed-memory", "array-memory", "graph-memory",
	};
	size_t len = strlen(kind);
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(words[i], kind, len) && words[i][len] == '-')
			return words[i];
	return "other-memory";
}

static void find_unmanaged(const struct answer *answer,
			   struct diagnosis *diagnosis)
{
	unsigned long long bytes;
	char size[SIZE_TEXT], kind[32];
	const char *text;
	int at = 0;

	while (residual_next(answer, &at, kind, &bytes)) {
		text = residual_kind(kind);
		doctor_find(diagnosis, NOTE, kind_word(kind), "%s of %s memory "
			    "stay on the device during a sleep%s%s.",
			    print_size(bytes, size), kind, text ? ": " : "",
			    text ? text : "");
	}
}

static void find_rest(const struct answer *answer, pid_t pid,
		      struct diagnosis *diagnosis)
{
	struct residual residual;
	char size[SIZE_TEXT];

	residual_of(answer, pid, &residual);
	if (residual.known && residual.rest)
		doctor_find(diagnosis, NOTE, "context-memory", "%s on the GPU "
			    "stay during a sleep: context, modules and what "
			    "else the driver holds.",
			    print_size(residual.rest, size));
}

void doctor_answer(const struct answer *answer, struct diagnosis *diagnosis)
{
	const char *text = answer_text(answer, "last-error");

	find_version(answer, diagnosis);
	if (!strcmp(answer_text(answer, "state"), "failed"))
		doctor_find(diagnosis, OBSTACLE, "lost-context", "The driver "
			    "lost a context of it.  What sleeps stays so; the "
			    "program gets the driver's own error.");
	find_devices(answer, diagnosis);
	find_unhooked(answer, diagnosis);
	if (text[0])
		doctor_find(diagnosis, NOTE, "last-error", "The last operation "
			    "that failed: %.300s.", text);
	text = answer_text(answer, "remedy");
	if (text[0])
		doctor_remedy(doctor_find(diagnosis, OBSTACLE, "refused",
					  "Something that the program tried "
					  "was refused because of vsleep."),
			      "%s", text);
	find_unmanaged(answer, diagnosis);
	find_rest(answer, diagnosis->pid, diagnosis);
}
