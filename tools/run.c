/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "vsleepctl.h"

#include <errno.h>
#include <limits.h>
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

/* The library of the build tree that this program lies in. */
static bool find_built(char out[PATH_MAX])
{
	char exe[PATH_MAX];
	char path[PATH_MAX + 32];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len < 0)
		return false;
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return false;
	*slash = '\0';
	snprintf(path, sizeof(path), "%s/../src/.libs/libvsleep.so", exe);
	return realpath(path, out);
}

static bool find_library(char out[PATH_MAX])
{
	const char *named = getenv("VSLEEP_LIBRARY");

	if (named && named[0]) {
		if (realpath(named, out))
			return true;
		fprintf(stderr, "vsleepctl: VSLEEP_LIBRARY=%s: %s\n", named,
			strerror(errno));
		return false;
	}
	if (find_built(out) || realpath(LIBDIR "/libvsleep.so", out))
		return true;
	fprintf(stderr, "vsleepctl: " LIBDIR "/libvsleep.so: %s; "
		"VSLEEP_LIBRARY can name another\n", strerror(errno));
	return false;
}

/* Before what the user preloads; false when that cannot be said. */
static bool preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	bool set;

	if (strpbrk(library, " :")) {
		fprintf(stderr, "vsleepctl: %s: LD_PRELOAD cannot name a path "
			"with a space or a colon\n", library);
		return false;
	}
	if (!old || !old[0])
		return !setenv("LD_PRELOAD", library, 1);
	if (asprintf(&value, "%s:%s", library, old) < 0)
		return false;
	set = !setenv("LD_PRELOAD", value, 1);
	free(value);
	return set;
}

enum outcome run_main(int argc, char **argv)
{
	char library[PATH_MAX];
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
	if (!find_library(library) || !preload(library))
		exit(NOT_FOUND);
	execvp(argv[0], argv);
	fprintf(stderr, "vsleepctl: %s: %s\n", argv[0], strerror(errno));
	exit(errno == ENOENT ? NOT_FOUND : CANNOT_RUN);
}
