/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "library.h"
#include "vsleepctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANNOT_RUN 126		/* as shells have it */
#define NOT_FOUND 127

static const char help[] =
	"usage: vsleepctl run [OPTION...] [--] PROGRAM [ARG...]\n"
	"\n"
	"Start a program under vsleep.\n"
	"\n"
	"  --tag NAME             the tag of its allocations (VSLEEP_TAG)\n"
	"  --tags TAG=POLICY[,TAG=POLICY...]\n"
	"                         offload, discard or keep (VSLEEP_TAGS)\n"
	"  --help                 this text\n";

enum { OPT_TAG = OPT_OWN, OPT_TAGS };

static const struct option options[] = {
	{ "tag", required_argument, NULL, OPT_TAG },
	{ "tags", required_argument, NULL, OPT_TAGS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 }
};

enum outcome run_main(int argc, char **argv)
{
	char library[PATH_MAX], why[PATH_MAX + 128];
	int value;

	while ((value = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (value) {
		case OPT_TAG:
			setenv("VSLEEP_TAG", optarg, 1);
			break;
		case OPT_TAGS:
			setenv("VSLEEP_TAGS", optarg, 1);
			break;
		case OPT_HELP:
			fputs(help, stdout);
			return DONE;
		default:
			return USAGE;
		}
	}
	argv += optind;
	if (!argv[0])
		return usage_error("run takes a program to start");
	if (!library_find(library, why)) {
		fprintf(stderr, "vsleepctl: %s\n", why);
		exit(NOT_FOUND);
	}
	if (!library_preload(library) || !library_try(library))
		exit(NOT_FOUND);
	execvp(argv[0], argv);
	fprintf(stderr, "vsleepctl: %s: %s\n", argv[0], strerror(errno));
	exit(errno == ENOENT ? NOT_FOUND : CANNOT_RUN);
}
