/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As check_failures, with what src/ asks of the C library and the kernel:
 * memory, threads, files; and of the server's thread, sockets and pipes.
 */
#include <config.h>

#include "faults.h"
#include "life.h"
#include "server_life.h"
#include "trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MAX 64

/* A life, and the calls that it makes; written by its first process. */
struct kind {
	const char *word;
	void (*run)(const struct trial *trial);
	const char *const *wanted;
	unsigned long counts[CALLS_MAX];
	_Atomic unsigned long missed[CALLS_MAX];
};

static void arm(const struct trial *t)
{
	if (!t->name) {
		faults_arm(NULL, 0, 0, false);
		return;
	}
	life_title("%s, call %u%s: %s", t->name, t->nth,
		   t->lasting ? " and all later ones" : "",
		   strerror(t->code));
	if (t->lasting)
		life_lasting();
	faults_arm(t->name, t->nth, t->code, t->lasting);
}

static void live(const struct trial *t)
{
	life_begin();
	arm(t);
	life_run();
	faults_clear();
	if (t->lasting)
		life_recover();
	life_end();
}

static void serve(const struct trial *t)
{
	server_life_begin();
	arm(t);
	server_life_run();
	faults_clear();
	server_life_end();
}

static const char *const life_calls[] = {
	"calloc", "madvise", "malloc", "mmap", "munmap", "open", "read",
	"realloc", "syscall", "sysconf", "vs_thread_start", NULL
};
static const char *const server_calls[] = {
	"accept4", "bind", "eventfd", "listen", "pipe2", "poll", "read",
	"recv", "send", "socket", "vs_thread_start", "write", NULL
};

static struct kind *kinds;

static int index_of(const char *name)
{
	int i;

	for (i = 0; strcmp(faults_names[i], name); i++)
		;
	return i;
}

static void try_one(const struct trial *t)
{
	kinds[t->kind].run(t);
	if (!faults_struck() && !t->lasting)
		kinds[t->kind].missed[index_of(t->name)]++;
	_exit(0);
}

static int counted;

static void count_calls(void)
{
	struct trial none = { 0 };
	int i;

	kinds[counted].run(&none);
	for (i = 0; faults_names[i]; i++)
		kinds[counted].counts[i] = faults_count(faults_names[i]);
}

/* Every occurrence once; for good from the first, second, fourth ... on. */
static void try_call(int kind, int call, unsigned long tried[2])
{
	struct trial t = { .kind = kind, .name = faults_names[call] };
	const int *code = faults_codes(t.name);
	unsigned long count = kinds[kind].counts[call];

	for (; *code; code++) {
		t.code = *code;
		t.lasting = false;
		for (t.nth = 1; t.nth <= count; t.nth++)
			tried[0] += trials_begin(&t, try_one);
		t.lasting = true;
		for (t.nth = 1; t.nth <= count; t.nth *= 2)
			tried[1] += trials_begin(&t, try_one);
	}
	printf("%-16s %4lu calls\n", t.name, count);
}

static int try_kind(int kind)
{
	const char *const *wanted = kinds[kind].wanted;
	unsigned long tried[2] = { 0 };
	int i, bad = 0;

	counted = kind;
	if (!trials_once(count_calls))
		return 1;
	for (; *wanted; wanted++) {
		i = index_of(*wanted);
		if (!kinds[kind].counts[i]) {
			fprintf(stderr, "%s was never reached\n", *wanted);
			bad++;
		}
		try_call(kind, i, tried);
	}
	bad += trials_end();
	for (i = 0; !kind && faults_names[i]; i++)
		bad += trials_missed(faults_names[i], kinds[kind].missed[i],
				     kinds[kind].counts[i]);
	printf("%s: %lu faults once, %lu for good, %d runs failed\n",
	       kinds[kind].word, tried[0], tried[1], bad);
	return bad;
}

/* With KIND NAME NTH[+] CODE: that fault alone, in this process. */
int main(int argc, char **argv)
{
	struct trial t = { 0 };

	life_settings();
	kinds = trials_shared(2 * sizeof(*kinds));
	kinds[0] = (struct kind){ .word = "sleep and wake", .run = live,
				  .wanted = life_calls };
	kinds[1] = (struct kind){ .word = "server", .run = serve,
				  .wanted = server_calls };
	if (argc == 5) {
		t.kind = atoi(argv[1]);
		t.name = argv[2];
		t.nth = (unsigned)atoi(argv[3]);
		t.lasting = strchr(argv[3], '+') != NULL;
		t.code = atoi(argv[4]);
		try_one(&t);
	}
	return try_kind(0) + try_kind(1) != 0;
}
