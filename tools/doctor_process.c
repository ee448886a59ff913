/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "doctor.h"

#include "client.h"
#include "nvml.h"
#include "print.h"
#include "proc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void find_unreadable(const struct proc *proc,
			    struct diagnosis *diagnosis)
{
	struct finding *finding;

	diagnosis->verdict = UNREADABLE;
	if (proc->bare) {
		if (proc->state == 'Z' || proc->state == 'X')
			diagnosis->verdict = NO_SUCH_PROCESS;
		doctor_find(diagnosis, CAUSE, "no-program", "It runs no "
			    "program: it has ended, or is a thread of the "
			    "kernel.");
		return;
	}
	if (geteuid() && proc->uid != geteuid()) {
		finding = doctor_find(diagnosis, CAUSE, "other-user",
				      "The process belongs to user %u, so "
				      "user %u may not look into it.",
				      (unsigned)proc->uid,
				      (unsigned)geteuid());
		doctor_remedy(finding, "ask as that user, or as root with "
			      "VSLEEP_DIR=/tmp/vsleep-%u",
			      (unsigned)proc->uid);
		return;
	}
	doctor_find(diagnosis, CAUSE, "unreadable", "The process may not be "
		    "looked into: it has gained rights, is in a "
		    "namespace of another user, or forbids it (prctl "
		    "PR_SET_DUMPABLE).");
}

/* The part of LD_PRELOAD that names the library; false: none does. */
static bool preload_of(const struct proc *proc, char *out, size_t size)
{
	const char *at = proc_variable(proc, "LD_PRELOAD");
	size_t len;

	while (at && *at) {
		len = strcspn(at, " :");
		snprintf(out, size, "%.*s", (int)len, at);
		if (!strncmp(basename(out), "libvsleep.so", 12))
			return true;
		at += len + strspn(at + len, " :");
	}
	return false;
}

static void find_failed_preload(const struct proc *proc, const char *preload,
				struct diagnosis *diagnosis)
{
	char path[1024], libc[1024];
	struct finding *finding;

	snprintf(path, sizeof(path), "/proc/%d/root%.500s", (int)proc->pid,
		 preload);
	snprintf(libc, sizeof(libc), "/proc/%d/root%s", (int)proc->pid,
		 proc->libc.path);
	if (preload[0] == '/' && access(path, R_OK)) {
		finding = doctor_find(diagnosis, CAUSE, "no-library",
				      "It was started with LD_PRELOAD naming "
				      "%.200s, which it cannot read: there is "
				      "no such file where it runs.", preload);
		doctor_remedy(finding, "name the library by the path that it "
			      "has there, in a container its own");
		return;
	}
	if (preload[0] == '/' && proc->libc.count &&
	    !doctor_library(path, libc, diagnosis))
		return;
	finding = doctor_find(diagnosis, CAUSE, "not-loaded", "It was started "
			      "with LD_PRELOAD naming %.200s, but the library "
			      "is not there.", preload);
	doctor_remedy(finding, "look for what the loader (ld.so) wrote to "
		      "standard error when it started");
}

/* Why the library is not in a process that can be looked into. */
static void find_not_loaded(const struct proc *proc,
			    struct diagnosis *diagnosis)
{
	char path[64], root[64], preload[512];
	struct finding *finding;

	diagnosis->verdict = NOT_LOADED;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)proc->pid);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)proc->pid);
	if (proc->secure) {
		finding = doctor_find(diagnosis, CAUSE, "secure",
				      "It has gained rights when it started "
				      "(set-user-ID, set-group-ID or file "
				      "capabilities), and into such programs "
				      "the loader preloads nothing.");
		doctor_remedy(finding, "run a copy of the program without "
			      "these rights");
		return;
	}
	if (!doctor_program(path, root, diagnosis))
		return;
	if (preload_of(proc, preload, sizeof(preload))) {
		find_failed_preload(proc, preload, diagnosis);
		return;
	}
	finding = doctor_find(diagnosis, CAUSE, "not-preloaded", "It runs "
			      "without libvsleep.so: it was started without "
			      "LD_PRELOAD, or its parent took that away.");
	doctor_remedy(finding, "start it by vsleepctl run; a running program "
		      "cannot be changed");
}

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, name, len) &&
		    (!list[len] || list[len] == ','))
			return true;
	}
	return false;
}

static bool find_switched_off(const struct proc *proc,
			      struct diagnosis *diagnosis)
{
	const char *disable = proc_variable(proc, "VSLEEP_DISABLE");
	const char *only = proc_variable(proc, "VSLEEP_ONLY");
	struct finding *finding;

	if (disable && !strcmp(disable, "1")) {
		finding = doctor_find(diagnosis, CAUSE, "disabled",
				      "It was started with VSLEEP_DISABLE=1, "
				      "which switches vsleep off.");
		doctor_remedy(finding, "start it without VSLEEP_DISABLE");
	} else if (only && *only && !listed(only, proc->name)) {
		finding = doctor_find(diagnosis, CAUSE, "not-listed",
				      "It was started with VSLEEP_ONLY=%.150s, "
				      "which does not list %s.", only,
				      proc->name);
		doctor_remedy(finding, "add %s to VSLEEP_ONLY", proc->name);
	} else {
		return false;
	}
	diagnosis->verdict = SWITCHED_OFF;
	return true;
}

/* What the mappings tell, whether vsleep is active or not. */
static void find_images(const struct proc *proc, struct diagnosis *diagnosis)
{
	struct finding *finding;

	if (proc->vsleep.deleted) {
		finding = doctor_find(diagnosis, NOTE, "library-replaced",
				      "Its %.200s has been removed or replaced "
				      "since it started.", proc->vsleep.path);
		doctor_remedy(finding, "it goes on with the old one; start it "
			      "again to get the new one");
	}
	if (proc->vsleep.count > 1)
		doctor_find(diagnosis, OBSTACLE, "two-libraries", "It has "
			    "loaded libvsleep.so %d times%s%.200s: calls "
			    "through the second copy are not seen.",
			    proc->vsleep.count,
			    proc->vsleep.other[0] ? ", also from " : "",
			    proc->vsleep.other);
	if (proc->cuda.count > 1) {
		finding = doctor_find(diagnosis, OBSTACLE, "two-drivers",
				      "It has loaded libcuda %d times: %.150s"
				      "%s%.150s.  vsleep sees the calls to the "
				      "first one alone.", proc->cuda.count,
				      proc->cuda.path,
				      proc->cuda.other[0] ? " and " : "",
				      proc->cuda.other);
		doctor_remedy(finding, "see that all parts of the program "
			      "load one libcuda.so.1, none of them in a "
			      "namespace of its own (dlmopen)");
	}
	if (proc->libc.count > 1)
		doctor_find(diagnosis, NOTE, "namespace", "A part of it is "
			    "loaded in a linker namespace of its own "
			    "(dlmopen or LD_AUDIT); vsleep does not see the "
			    "CUDA calls of that part.");
}

/* The library is there, the driver perhaps, and no context yet. */
static void find_not_yet(const struct proc *proc, struct diagnosis *diagnosis)
{
	unsigned long long used;
	char size[SIZE_TEXT];
	struct finding *finding;

	if (nvml_used(NULL, proc->pid, &used) && used) {
		diagnosis->verdict = NO_CONTEXT;
		finding = doctor_find(diagnosis, CAUSE, "past-vsleep",
				      "It holds %s on a GPU, but vsleep has "
				      "seen no CUDA context of it: its calls "
				      "go past the preload.",
				      print_size(used, size));
		doctor_remedy(finding, "look for a part that opens a library "
			      "with RTLD_DEEPBIND or by dlmopen, or that "
			      "brings another libcuda");
		return;
	}
	if (!proc->cuda.count) {
		diagnosis->verdict = NO_CUDA;
		doctor_find(diagnosis, NOTE, "no-cuda", "libvsleep.so is "
			    "loaded and the CUDA driver (libcuda.so.1) is not: "
			    "it has not used CUDA so far.");
		return;
	}
	diagnosis->verdict = NO_CONTEXT;
	finding = doctor_find(diagnosis, NOTE, "no-context", "libvsleep.so "
			      "and the CUDA driver are loaded, and no CUDA "
			      "context has been made so far; vsleep begins "
			      "with the first one.");
	doctor_remedy(finding, "wait for it.  If it computes on a GPU already, "
		      "its calls go past the preload, by RTLD_DEEPBIND for "
		      "example; that cannot be seen from outside");
}

static bool ask(struct connection *connection, struct answer *answer)
{
	struct request request;

	client_patience(connection, PATIENCE_EACH_MS);
	request_start(&request, "status");
	return client_ask(connection, &request, answer);
}

/* A process that is ending has neither its memory nor its files any more. */
static bool ended(pid_t pid)
{
	char path[64], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, exe, sizeof(exe)) < 0;
}

static void find_no_answer(const struct proc *proc, const char *why,
			   struct diagnosis *diagnosis)
{
	if (ended(proc->pid)) {
		diagnosis->verdict = ACTIVE;
		doctor_find(diagnosis, NOTE, "ended-early", "It ended before "
			    "it could be asked more.");
		return;
	}
	diagnosis->verdict = NO_ANSWER;
	doctor_find(diagnosis, CAUSE, "no-answer", "vsleep is active in it, "
		    "but does not answer: %s%.200s.",
		    proc->state == 'T' || proc->state == 't' ?
		    "the process is stopped; " : "", why);
}

/* vsleep is at work in it: ask. */
static void find_answer(const struct proc *proc, struct diagnosis *diagnosis)
{
	static struct answer answer;
	struct connection connection;
	char dir[300];

	if (!doctor_socket_dir(proc->pid, dir, sizeof(dir))) {
		diagnosis->verdict = ended(proc->pid) ? ACTIVE : NO_SOCKET;
		if (diagnosis->verdict == NO_SOCKET)
			doctor_socket_trouble(proc, diagnosis);
		return;
	}
	if (!client_looks_into(dir))
		doctor_remedy(doctor_find(diagnosis, OBSTACLE,
					  "socket-elsewhere",
					  "Its socket is in %.250s, where "
					  "vsleepctl does not look unless "
					  "told.",
					  dir),
			      "put VSLEEP_DIR=%.250s before vsleepctl", dir);
	if (client_connect_in(dir, proc->pid, &connection) &&
	    ask(&connection, &answer)) {
		diagnosis->verdict = ACTIVE;
		doctor_answer(&answer, diagnosis);
	} else {
		find_no_answer(proc, connection.why, diagnosis);
	}
	client_close(&connection);
}

void doctor_process(pid_t pid, struct diagnosis *diagnosis)
{
	struct proc proc;

	memset(diagnosis, 0, sizeof(*diagnosis));
	diagnosis->pid = pid;
	if (!proc_read(pid, &proc)) {
		diagnosis->verdict = NO_SUCH_PROCESS;
		doctor_find(diagnosis, CAUSE, "no-process",
			    "There is no such process.");
		return;
	}
	diagnosis->pid = proc.pid;
	snprintf(diagnosis->name, sizeof(diagnosis->name), "%s", proc.name);
	if (!proc.readable) {
		find_unreadable(&proc, diagnosis);
	} else if (!proc.vsleep.count) {
		find_not_loaded(&proc, diagnosis);
	} else {
		if (proc.server)
			find_answer(&proc, diagnosis);
		else if (!find_switched_off(&proc, diagnosis))
			find_not_yet(&proc, diagnosis);
		find_images(&proc, diagnosis);
	}
	proc_free(&proc);
}
