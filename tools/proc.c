/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "proc.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (1u << 20)

static FILE *open_file(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%.40s", (int)pid, name);
	return fopen(path, "re");
}

static bool read_status(pid_t pid, struct proc *out)
{
	FILE *file = open_file(pid, "status");
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Name: %63[^\n]", out->name);
		sscanf(line, "State: %c", &out->state);
		sscanf(line, "Tgid: %d", &out->pid);
		if (!strncmp(line, "NSpid:", 6))
			out->inner = atoi(strrchr(line, '\t') + 1);
		sscanf(line, "PPid: %d", &out->parent);
		sscanf(line, "Uid: %*u %u", &out->uid);
	}
	fclose(file);
	return true;
}

/* The name that VSLEEP_ONLY is compared with. */
static void read_name(struct proc *out)
{
	FILE *file = open_file(out->pid, "cmdline");
	char line[512] = "";
	size_t len;

	if (!file)
		return;
	len = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	if (!len || !line[0])
		return;
	snprintf(out->name, sizeof(out->name), "%.63s", basename(line));
}

static void read_auxv(struct proc *out)
{
	FILE *file = open_file(out->pid, "auxv");
	Elf64_auxv_t entry;

	if (!file)
		return;
	while (fread(&entry, sizeof(entry), 1, file) == 1)
		if (entry.a_type == AT_SECURE)
			out->secure = entry.a_un.a_val;
	fclose(file);
}

/* "libcuda.so.1", not "libcudart.so.12": the name, then ".so" and a rest. */
static bool is_library(const char *path, const char *name)
{
	const char *base = basename(path);
	size_t len = strlen(name);

	return !strncmp(base, name, len) && (!base[len] || base[len] == '.' ||
					     base[len] == ' ');
}

static void add_image(struct images *images, const char *path)
{
	static const char gone[] = " (deleted)";
	size_t len = strlen(path);

	images->count++;
	if (len > sizeof(gone) - 1 &&
	    !strcmp(path + len - (sizeof(gone) - 1), gone)) {
		images->deleted = true;
		len -= sizeof(gone) - 1;
	}
	if (images->count == 1)
		snprintf(images->path, sizeof(images->path), "%.*s", (int)len,
			 path);
	else if (strncmp(images->path, path, len) || images->path[len])
		snprintf(images->other, sizeof(images->other), "%.*s",
			 (int)len, path);
}

/* Each image has one mapping that begins with the file's first byte. */
static bool read_maps(struct proc *out)
{
	FILE *file = open_file(out->pid, "maps");
	char line[PATH_MAX + 128];
	unsigned long long offset;
	char *path;

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		path = strchr(line, '/');
		if (!path || sscanf(line, "%*s %*s %llx", &offset) != 1 ||
		    offset)
			continue;
		if (is_library(path, "libvsleep.so"))
			add_image(&out->vsleep, path);
		else if (is_library(path, "libcuda.so"))
			add_image(&out->cuda, path);
		else if (is_library(path, "libc.so.6"))
			add_image(&out->libc, path);
	}
	fclose(file);
	return true;
}

static void read_threads(struct proc *out)
{
	char path[64], name[32];
	struct dirent *entry;
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)out->pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "task/%.16s/comm",
			 entry->d_name);
		file = open_file(out->pid, path);
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) &&
		    !strcmp(name, "vsleep-server\n"))
			out->server = true;
		fclose(file);
	}
	if (dir)
		closedir(dir);
}

static bool read_environment(struct proc *out)
{
	FILE *file = open_file(out->pid, "environ");

	if (!file)
		return false;
	out->environment = calloc(1, ENVIRONMENT_MAX + 1);
	if (out->environment)
		out->environment_size = fread(out->environment, 1,
					      ENVIRONMENT_MAX, file);
	fclose(file);
	return true;
}

static void read_exe(struct proc *out)
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)out->pid);
	len = readlink(path, out->exe, sizeof(out->exe) - 1);
	out->exe[len > 0 ? len : 0] = '\0';
	out->bare = len < 0 && errno == ENOENT;
}

bool proc_look(pid_t pid, struct proc *out)
{
	memset(out, 0, sizeof(*out));
	if (!read_status(pid, out))
		return false;
	read_name(out);
	return true;
}

bool proc_read(pid_t pid, struct proc *out)
{
	if (!proc_look(pid, out))
		return false;
	read_exe(out);
	out->readable = out->exe[0] && read_maps(out) && read_environment(out);
	if (out->readable) {
		read_auxv(out);
		read_threads(out);
		return true;
	}
	/* It may have ended meanwhile. */
	read_exe(out);
	return read_status(pid, out);
}

void proc_free(struct proc *proc)
{
	free(proc->environment);
	proc->environment = NULL;
}

const char *proc_variable(const struct proc *proc, const char *name)
{
	const char *at = proc->environment;
	const char *end = at + proc->environment_size;
	size_t len = strlen(name);

	for (; at && at < end; at += strlen(at) + 1)
		if (!strncmp(at, name, len) && at[len] == '=')
			return at + len + 1;
	return NULL;
}

static bool descends(pid_t pid, const pid_t *from, int count)
{
	struct proc proc = { .pid = 0 };
	int i;

	if (!read_status(pid, &proc))
		return false;
	for (i = 0; i < count; i++)
		if (from[i] == proc.parent)
			return true;
	return false;
}

static bool listed(pid_t pid, const pid_t *list, int count)
{
	while (count--)
		if (list[count] == pid)
			return true;
	return false;
}

/* Numbers wrap around, so a child may have a smaller one than its parent. */
int proc_tree(pid_t root, pid_t *out, int max)
{
	struct dirent *entry;
	int count = 0, before;
	DIR *dir;
	pid_t pid;

	out[count++] = root;
	do {
		before = count;
		dir = opendir("/proc");
		while (dir && count < max && (entry = readdir(dir))) {
			pid = atoi(entry->d_name);
			if (pid > 0 && !listed(pid, out, count) &&
			    descends(pid, out, count))
				out[count++] = pid;
		}
		if (dir)
			closedir(dir);
	} while (count > before && count < max);
	return count;
}
