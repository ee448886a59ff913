/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"
#include "elf_file.h"
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MAX 4		/* as many as the kernel follows */

static void find_rights(const char *path, const char *shown,
			struct diagnosis *diagnosis)
{
	const char *what = NULL;
	struct stat st;

	if (stat(path, &st))
		return;
	if (st.st_mode & (S_ISUID | S_ISGID))
		what = st.st_mode & S_ISUID ? "set-user-ID" : "set-group-ID";
	else if (getxattr(path, "security.capability", NULL, 0) > 0)
		what = "privileged by file capabilities";
	if (!what)
		return;
	doctor_remedy(doctor_find(diagnosis, NOTE, "gains-rights",
				  "%.200s is %s: where it gains rights by "
				  "that, the loader preloads nothing into it.",
				  shown, what),
		      "run a copy of the program without these rights");
}

static bool find_architecture(const struct elf *elf, const char *shown,
			      struct diagnosis *diagnosis)
{
	char machine[32];

	if (elf->native)
		return true;
	doctor_remedy(doctor_find(diagnosis, CAUSE, "foreign-architecture",
				  "%.200s is a %d-bit program for %s, and "
				  "this vsleep is built for another "
				  "architecture.", shown, elf->bits,
				  elf_machine(elf->machine, machine)),
		      "use a program that is built for this machine in 64 "
		      "bits, or a vsleep built for that architecture");
	return false;
}

static bool find_loader(const struct elf *elf, const char *shown,
			struct diagnosis *diagnosis)
{
	const char *loader = basename(elf->interp);

	if (!elf->interp[0]) {
		/* The loader itself can be started with a program. */
		if (elf->library && !strncmp(basename(shown), "ld-linux", 8))
			return true;
		doctor_remedy(doctor_find(diagnosis, CAUSE, "static",
					  "%.200s is linked statically: it has "
					  "no loader, so nothing can be "
					  "preloaded into it.", shown),
			      "link it dynamically with the C library; the "
			      "CUDA runtime may be static");
		return false;
	}
	if (!strncmp(loader, "ld-linux", 8))
		return true;
	doctor_remedy(doctor_find(diagnosis, CAUSE, "other-loader",
				  "%.150s runs with the loader %.150s%s; "
				  "libvsleep.so needs that of the GNU C "
				  "library.", shown, elf->interp,
				  strstr(loader, "musl") ? ", that of musl" :
				  ""),
		      "use a build of the program for the GNU C library");
	return false;
}

bool doctor_library(const char *library, const char *libc,
		    struct diagnosis *diagnosis)
{
	struct elf needs, has;

	if (!elf_read(library, &needs) || !elf_read(libc, &has) ||
	    !has.glibc_defined || needs.glibc_needed <= has.glibc_defined)
		return true;
	doctor_remedy(doctor_find(diagnosis, CAUSE, "old-c-library",
				  "The program's C library, %.200s, is of "
				  "version 2.%u, and %.150s needs 2.%u.", libc,
				  has.glibc_defined, library,
				  needs.glibc_needed),
		      "build vsleep on the system that the program is from, "
		      "and preload that library");
	return false;
}

/* The C library lies beside the loader, whatever system they are of. */
static bool find_libc(const struct elf *elf, const char *root,
		      struct diagnosis *diagnosis)
{
	char path[PATH_MAX], loader[PATH_MAX], library[PATH_MAX];
	char *slash;

	snprintf(path, sizeof(path), "%s%s", root, elf->interp);
	if (!elf->interp[0] || !library_find(library, NULL) ||
	    !realpath(path, loader))
		return true;
	slash = strrchr(loader, '/');
	snprintf(slash, loader + sizeof(loader) - slash, "/libc.so.6");
	return doctor_library(library, loader, diagnosis);
}

static bool judge(const char *path, const char *shown, const char *root,
		  struct diagnosis *diagnosis)
{
	struct elf elf;

	if (!elf_read(path, &elf) || !elf.is_elf)
		return true;
	find_rights(path, shown, diagnosis);
	return find_architecture(&elf, shown, diagnosis) &&
	       find_loader(&elf, shown, diagnosis) &&
	       find_libc(&elf, root, diagnosis);
}

bool doctor_program(const char *path, const char *root,
		    struct diagnosis *diagnosis)
{
	char shown[PATH_MAX];
	ssize_t len = readlink(path, shown, sizeof(shown) - 1);

	if (len > 0 && !strncmp(path, "/proc/", 6))
		shown[len] = '\0';
	else
		snprintf(shown, sizeof(shown), "%s", path);
	return judge(path, shown, root, diagnosis);
}

/* The file that execvp would start; false: there is none. */
static bool resolve(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH");
	const char *at = path ? path : "/bin:/usr/bin";
	const char *end;

	if (strchr(name, '/')) {
		snprintf(out, PATH_MAX, "%s", name);
		return !access(out, X_OK);
	}
	for (; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ':');
		snprintf(out, PATH_MAX, "%.*s%s%s", (int)(end - at), at,
			 end > at ? "/" : "", name);
		if (!access(out, X_OK))
			return true;
	}
	return false;
}

/* What "env [OPTION...] [NAME=VALUE...] PROGRAM" starts; NULL: unknown. */
static const char *after_env(char *args)
{
	char *save = NULL;
	char *word = strtok_r(args, " \t", &save);

	while (word && (word[0] == '-' || strchr(word, '=')))
		word = strtok_r(NULL, " \t", &save);
	return word;
}

/* What interprets the script @path; false when it is none. */
static bool interpreter(const char *path, char out[PATH_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char line[257], *name, *rest;
	const char *program;
	ssize_t len;

	if (fd < 0)
		return false;
	len = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (len < 3 || strncmp(line, "#!", 2))
		return false;
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	name = line + 2 + strspn(line + 2, " \t");
	rest = name + strcspn(name, " \t");
	if (*rest)
		*rest++ = '\0';
	program = strcmp(basename(name), "env") ? name : after_env(rest);
	return program && resolve(program, out);
}

void doctor_command(char **command, struct diagnosis *diagnosis)
{
	char path[PATH_MAX], next[PATH_MAX];
	int depth;

	if (!strcmp(basename(command[0]), "env"))
		for (command++; command[0] && (command[0][0] == '-' ||
					       strchr(command[0], '='));)
			command++;
	if (!command[0] || !resolve(command[0], path))
		return;
	for (depth = 0; depth < SCRIPTS_MAX && interpreter(path, next);
	     depth++)
		memcpy(path, next, sizeof(path));
	judge(path, path, "", diagnosis);
}
