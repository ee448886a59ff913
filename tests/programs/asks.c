/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asks - a CUDA program that asks the vsleep that it runs under, as stdin
 * says.  One command a line, one answer a line; "-" stands for NULL, "''" for
 * an empty name.
 *
 *   cuda                       make a context; before it CUDA is not called
 *   present                    is it there, which version, an empty push
 *   push NAME, pop, set NAME   what became of it
 *   policy TAG [NUMBER]        set it if there is a number; what it is
 *   alloc NAME, check NAME     a block of 1 MiB, filled; how many are wrong
 *   tag NAME                   the tag of the block
 *   sleep LEVEL TAGS FLAGS TIMEOUT, wake TAGS FLAGS WAIT, pause TIMEOUT,
 *   resume, status             the result and the reply, its message last
 *   told                       how often before and after were called
 *   fork                       `present` in a child
 *   crowd THREADS              thread n makes 8(n + 1) blocks of 10000 bytes
 *                              with the tag "tn", all threads at once, and
 *                              one without; how many blocks have another tag
 *   leave
 */
#include "drv.h"

#include <pthread.h>
#include <sys/wait.h>
#include <vsleep.h>

#define WORDS ((uint64_t)1 << 18)
#define BLOCKS 26
#define CROWD 64

static CUdeviceptr blocks[BLOCKS];	/* by the first letter of the name */
static int before, after;

static void count(void *number)
{
	++*(int *)number;
}

static void count_before(void *unused)
{
	(void)unused;
	count(&before);
}

static void count_after(void *unused)
{
	(void)unused;
	count(&after);
}

static const char *text(const char *word)
{
	if (!strcmp(word, "-"))
		return NULL;
	return strcmp(word, "''") ? word : "";
}

static CUdeviceptr *block(const char *name)
{
	return &blocks[(unsigned)(name[0] - 'a') % BLOCKS];
}

static void tell(int rc, const struct vsleep_reply *r)
{
	printf("ok rc=%d state=%d held=%d sequence=%llu released=%llu "
	       "restored=%llu resident=%llu evicted=%llu message=%s\n", rc,
	       r->state, r->held, (unsigned long long)r->sequence,
	       (unsigned long long)r->released,
	       (unsigned long long)r->restored,
	       (unsigned long long)r->resident,
	       (unsigned long long)r->evicted, r->message);
}

static void present(void)
{
	int rc = vsleep_tag_push("");

	if (!rc)
		vsleep_tag_pop();
	printf("ok present=%d version=%s rc=%d\n", vsleep_present(),
	       vsleep_version(), rc);
	fflush(stdout);
}

static void bear(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		present();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* ---- many threads at once ------------------------------------------------ */

static pthread_barrier_t all;

static long wrong_tag(CUdeviceptr p, const char *tag)
{
	const char *got = vsleep_tag_of(p);

	return !got || strcmp(got, tag);
}

static void *allocate(void *number)
{
	long n = (long)(intptr_t)number, i, wrong = 0;
	CUdeviceptr p;
	char tag[16];

	snprintf(tag, sizeof(tag), "t%ld", n);
	CK(cuCtxSetCurrent(drv.context));
	pthread_barrier_wait(&all);
	for (i = 0; i < 8 * (n + 1); i++) {
		if (vsleep_tag_push(tag))
			wrong++;
		CK(cuMemAlloc(&p, 10000));
		wrong += wrong_tag(p, tag);
		if (vsleep_tag_pop())
			wrong++;
	}
	CK(cuMemAlloc(&p, 10000));
	wrong += wrong_tag(p, "default");
	return (void *)(intptr_t)wrong;
}

static void crowd(int threads)
{
	pthread_t ids[CROWD];
	long wrong = 0;
	void *got;
	int i;

	threads = threads > CROWD ? CROWD : threads;
	pthread_barrier_init(&all, NULL, (unsigned)threads);
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, allocate,
				   (void *)(intptr_t)i))
			exit(3);
	for (i = 0; i < threads; i++) {
		pthread_join(ids[i], &got);
		wrong += (long)(intptr_t)got;
	}
	printf("ok wrong=%ld\n", wrong);
}

/* ---- commands ------------------------------------------------------------ */

static void do_block(const char *verb, const char *name)
{
	CUdeviceptr *p = block(name);
	const char *tag;

	if (!strcmp(verb, "alloc")) {
		CK(cuMemAlloc(p, WORDS * 4));
		drv_pattern(NULL, *p, WORDS, (uint32_t)*name);
		CK(cuCtxSynchronize());
		printf("ok\n");
	} else if (!strcmp(verb, "check")) {
		drv_compare(NULL, *p, WORDS, (uint32_t)*name);
		printf("ok bad=%llu\n", (unsigned long long)drv_bad());
	} else {
		tag = vsleep_tag_of(*p);
		printf("ok tag=%s\n", tag ? tag : "none");
	}
}

static int do_tag(const char *verb, const char *name)
{
	if (!strcmp(verb, "push"))
		return vsleep_tag_push(text(name));
	if (!strcmp(verb, "set"))
		return vsleep_tag_set(text(name));
	return vsleep_tag_pop();
}

/* False for a command that is none of these. */
static int do_ask(const char *verb, char words[5][64])
{
	struct vsleep_reply reply;
	int rc;

	memset(&reply, 0, sizeof(reply));
	reply.size = sizeof(reply);
	if (!strcmp(verb, "sleep"))
		rc = vsleep_sleep(atoi(words[0]), text(words[1]),
				  (unsigned)atoi(words[2]), atof(words[3]),
				  &reply);
	else if (!strcmp(verb, "wake"))
		rc = vsleep_wake(text(words[0]), (unsigned)atoi(words[1]),
				 atof(words[2]), &reply);
	else if (!strcmp(verb, "pause"))
		rc = vsleep_pause(atof(words[0]), &reply);
	else if (!strcmp(verb, "resume"))
		rc = vsleep_resume(&reply);
	else if (!strcmp(verb, "status"))
		rc = vsleep_status(&reply);
	else
		return 0;
	tell(rc, &reply);
	return 1;
}

static void obey(const char *verb, char words[5][64])
{
	if (!strcmp(verb, "cuda")) {
		drv_open();
		printf("ok rc=%d\n", vsleep_callback_add(count_before,
							 count_after, NULL));
	} else if (!strcmp(verb, "present")) {
		present();
	} else if (!strcmp(verb, "push") || !strcmp(verb, "pop") ||
		   !strcmp(verb, "set")) {
		printf("ok rc=%d\n", do_tag(verb, words[0]));
	} else if (!strcmp(verb, "policy")) {
		if (*words[1])
			vsleep_policy_set(words[0], atoi(words[1]));
		printf("ok policy=%d\n", vsleep_policy_get(words[0]));
	} else if (!strcmp(verb, "told")) {
		printf("ok before=%d after=%d\n", before, after);
	} else if (!strcmp(verb, "fork")) {
		bear();
	} else if (!strcmp(verb, "crowd")) {
		crowd(atoi(words[0]));
	} else if (!strcmp(verb, "alloc") || !strcmp(verb, "check") ||
		   !strcmp(verb, "tag")) {
		do_block(verb, words[0]);
	} else if (!do_ask(verb, words)) {
		printf("error no command %s\n", verb);
	}
}

int main(void)
{
	char line[400], verb[64], words[5][64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ok ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		memset(words, 0, sizeof(words));
		if (sscanf(line, "%63s %63s %63s %63s %63s", verb, words[0],
			   words[1], words[2], words[3]) < 1)
			continue;
		if (!strcmp(verb, "leave"))
			return 0;
		obey(verb, words);
	}
	return 0;
}
