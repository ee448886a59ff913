/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PATH_LIMIT (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define NAME_ROOM 11		/* "/" and ".sock" and a short number */

/* Whether @pid has the socket open whose inode is this. */
static bool has_socket(pid_t pid, unsigned long inode)
{
	char path[64], link[64], want[64];
	struct dirent *entry;
	bool found = false;
	ssize_t len;
	DIR *dir;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		len = readlinkat(dirfd(dir), entry->d_name, link,
				 sizeof(link) - 1);
		if (len <= 0)
			continue;
		link[len] = '\0';
		found = !strcmp(link, want);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Our sockets get their name by a rename; the kernel goes on to list the one
 * that they were bound to. */
static bool is_ours(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *dot = strrchr(path, '.');

	return slash && dot > slash && slash[1] >= '1' && slash[1] <= '9' &&
	       (!strcmp(dot, ".new") || !strcmp(dot, ".sock"));
}

bool doctor_socket_dir(pid_t pid, char *dir, size_t size)
{
	char line[512], path[PATH_MAX];
	bool found = false;
	unsigned long inode;
	struct stat here, there;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%*s %*s %*s 00010000 %*s %*s %lu "
			       "%255[^\n]", &inode, path) == 2 &&
			is_ours(path) && has_socket(pid, inode);
	if (file)
		fclose(file);
	if (!found)
		return false;
	*strrchr(path, '/') = '\0';
	snprintf(dir, size, "/proc/%d/root%.200s", (int)pid, path);
	/* The same directory from here, unless it has its own root. */
	if (!stat(dir, &there) && !stat(path, &here) &&
	    here.st_dev == there.st_dev && here.st_ino == there.st_ino)
		snprintf(dir, size, "%.250s", path);
	return true;
}

/* What is wrong with a directory; false: nothing that can be seen. */
static bool dir_trouble(const struct proc *proc, const char *dir, char *why,
			size_t size)
{
	char path[PATH_MAX + 32];
	struct stat st;

	if (strlen(dir) + NAME_ROOM > PATH_LIMIT) {
		snprintf(why, size, "the path of a socket in it would be "
			 "longer than the %zu characters that fit",
			 PATH_LIMIT);
		return true;
	}
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)proc->pid, dir);
	if (lstat(path, &st))
		snprintf(why, size, "%s", strerror(errno));
	else if (S_ISLNK(st.st_mode))
		snprintf(why, size, "it is a symbolic link");
	else if (!S_ISDIR(st.st_mode))
		snprintf(why, size, "it is not a directory");
	else if (st.st_uid != proc->uid)
		snprintf(why, size, "it belongs to user %u",
			 (unsigned)st.st_uid);
	else if ((st.st_mode & 07777) != 0700)
		snprintf(why, size, "it has mode %04o",
			 (unsigned)(st.st_mode & 07777));
	else
		return false;
	return true;
}

void doctor_socket_trouble(const struct proc *proc,
			   struct diagnosis *diagnosis)
{
	const char *named = proc_variable(proc, "VSLEEP_DIR");
	const char *runtime = proc_variable(proc, "XDG_RUNTIME_DIR");
	char dir[PATH_MAX], why[128] = "";
	struct finding *finding;

	if (named && named[0])
		snprintf(dir, sizeof(dir), "%s", named);
	else if (runtime && runtime[0] == '/')
		snprintf(dir, sizeof(dir), "%s/vsleep", runtime);
	else
		snprintf(dir, sizeof(dir), "/tmp/vsleep-%u",
			 (unsigned)proc->uid);
	if (dir[0] != '/')
		snprintf(why, sizeof(why), "it is no absolute path");
	else if (!dir_trouble(proc, dir, why, sizeof(why)))
		snprintf(why, sizeof(why), "its log has the reason");
	finding = doctor_find(diagnosis, CAUSE, "no-socket",
			      "vsleep is active, but it could make no socket "
			      "in %.200s: %s.  Signals reach it, vsleepctl "
			      "does not.", dir, why);
	doctor_remedy(finding, "start it with VSLEEP_DIR naming a directory "
		      "of your own, with a short path and mode 0700, or one "
		      "that is not there yet");
}
