/* SPDX-License-Identifier: Apache-2.0 */
/*
 * puppet - a CUDA program that does what stdin says.
 *
 * One command a line, one answer a line: "ok ..." or "error CODE", the code
 * being what the driver said.  Blocks have names; "all" means every block.
 *
 *   alloc|managed|pool|shared|vmm|array NAME BYTES   get a block, in one of six
 *                         ways; shared is a pool's that can be exported
 *   free NAME|all
 *   fill NAME SEED        a pattern, by a kernel; returns once it is there
 *   check NAME|all        how many words differ from their pattern
 *   byte NAME VALUE       every byte becomes VALUE
 *   count NAME VALUE      how many bytes, copied out, are not VALUE
 *   add NAME VALUE        queue a kernel that adds VALUE to each word
 *   spin MS, hang         queue a kernel that runs so long, or until $FLAG, a
 *                         file, does not begin with a zero byte any more
 *   move NAME DEVICE      prefetch a managed block, -1: to the host
 *   advise NAME ADVICE    give advice on a managed block, by its number
 *   copy NAME             queue a copy of the block into pinned memory
 *   peek NAME             copy the first word out, in one blocking call
 *   sync                  wait for what is queued
 *   begin, end, launch    a capture; its end; the graph that came of it
 *   work NAME, rest       a thread adds 1, copies out, compares, for ever
 *   info, where           free and total bytes; a hash of all addresses
 *   device                bytes of this process, by the simulated driver
 *   ipc NAME, fault       ask for a handle; a kernel that ends the context
 *   handler, signals      handle SIGUSR1; how many have come
 *   fork                  what a child gets from the driver
 *   atexit free|count     an exit handler frees or copies out every block
 *   leave quick|thread|exit|abort|free|return
 *
 * $COUNT is a file that shows how often `work` went round, $TICK one in which
 * a thread counts that never calls CUDA.  With $EARLY_HANDLER the handler is
 * there before CUDA is.
 */
#include "puppet_blocks.h"
#include "sim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static CUstream stream;
static CUgraphExec graph;
static uint32_t *flag;
static unsigned char *pinned;
static volatile sig_atomic_t signals;
static char *exit_mode;

static void handle(int number)
{
	(void)number;
	signals++;
}

static void write_count(int fd, unsigned long n)
{
	char line[32];

	snprintf(line, sizeof(line), "%010lu\n", n);
	if (fd >= 0 && pwrite(fd, line, strlen(line), 0) < 0)
		perror("count");
}

static int open_count(const char *variable)
{
	const char *path = getenv(variable);

	return path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
}

static void *tick(void *unused)
{
	int fd = open_count("TICK");

	for (unsigned long n = 1; ; n++) {
		write_count(fd, n);
		usleep(5000);
	}
	return unused;
}

/* ---- a thread that computes --------------------------------------------- */

static struct {
	struct block *block;
	pthread_t thread;
	volatile int stop;
	unsigned long rounds, bad;
	CUresult rc;
} work;

static CUresult work_once(CUstream s, uint32_t *out)
{
	uint64_t words = work.block->size / 4;

	drv_add(s, work.block->p, words, 1);
	*out = 0;
	TRY(cuMemcpyDtoHAsync(out, work.block->p + work.block->size - 4, 4, s));
	return cuStreamSynchronize(s);
}

static void *work_on(void *unused)
{
	int fd = open_count("COUNT");
	uint32_t *out;
	CUstream s;

	work.rc = cuCtxSetCurrent(drv.context);
	CK(cuMemHostAlloc((void **)&out, 4, CU_MEMHOSTALLOC_PORTABLE));
	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!work.stop && !work.rc) {
		work.rc = work_once(s, out);
		work.rounds++;
		work.bad += *out != work.rounds;
		write_count(fd, work.rounds);
	}
	CK(cuStreamDestroy(s));
	CK(cuMemFreeHost(out));
	close(fd);
	return unused;
}

static CUresult do_work(struct block *b)
{
	CK(cuMemsetD8(b->p, 0, b->size));
	CK(cuCtxSynchronize());
	work.block = b;
	work.stop = 0;
	work.rounds = work.bad = 0;
	if (pthread_create(&work.thread, NULL, work_on, NULL))
		exit(3);
	return CUDA_SUCCESS;
}

static CUresult do_rest(void)
{
	work.stop = 1;
	pthread_join(work.thread, NULL);
	say("rounds=%lu bad=%lu", work.rounds, work.bad);
	return work.rc;
}

/* ---- what is queued ----------------------------------------------------- */

static CUresult queue(CUfunction f, void **args)
{
	return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

static CUresult do_spin(uint64_t ms)
{
	uint64_t ns = ms * 1000000;
	CUdeviceptr out = 0;
	void *args[] = { &ns, &out };

	return queue(drv.spin, args);
}

static CUresult do_hang(void)
{
	CUdeviceptr out = 0;
	void *args[] = { &flag, &out };

	return flag ? queue(drv.wait_flag, args) : CUDA_ERROR_NOT_FOUND;
}

static CUresult do_copy(struct block *b)
{
	if (!pinned)
		TRY(cuMemHostAlloc((void **)&pinned, b->size, 0));
	return cuMemcpyDtoHAsync(pinned, b->p, b->size, stream);
}

static CUresult do_move(struct block *b, int device)
{
	CUmemLocation where = { .type = device < 0 ?
				CU_MEM_LOCATION_TYPE_HOST :
				CU_MEM_LOCATION_TYPE_DEVICE, .id = device };

#if CUDA_VERSION >= 13000
	TRY(cuMemPrefetchAsync(b->p, b->size, where, 0, stream));
#else
	TRY(cuMemPrefetchAsync_v2(b->p, b->size, where, 0, stream));
#endif
	return cuStreamSynchronize(stream);
}

static CUresult do_advise(struct block *b, int advice)
{
	CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

#if CUDA_VERSION >= 13000
	return cuMemAdvise(b->p, b->size, (CUmem_advise)advice, where);
#else
	return cuMemAdvise_v2(b->p, b->size, (CUmem_advise)advice, where);
#endif
}

static CUresult do_peek(struct block *b)
{
	uint32_t word = 0;

	TRY(cuMemcpyDtoH(&word, b->p, sizeof(word)));
	say("word=%u", word);
	return CUDA_SUCCESS;
}

static CUresult do_add(struct block *b, uint32_t value)
{
	uint64_t words = b->size / 4;
	void *args[] = { &b->p, &words, &value };

	return queue(drv.add, args);
}

static CUresult do_end(void)
{
	CUgraph captured;
	size_t nodes = 0;

	TRY(cuStreamEndCapture(stream, &captured));
	TRY(cuGraphGetNodes(captured, NULL, &nodes));
	TRY(cuGraphInstantiateWithFlags(&graph, captured, 0));
	TRY(cuGraphDestroy(captured));
	say("nodes=%zu", nodes);
	return CUDA_SUCCESS;
}

static CUresult do_fault(void)
{
	static const char text[] = ".version 3.2\n.target sm_20\n"
		".address_size 64\n.visible .entry fault() { trap; ret; }\n";
	CUmodule module;
	CUfunction f;

	TRY(cuModuleLoadData(&module, text));
	TRY(cuModuleGetFunction(&f, module, "fault"));
	TRY(queue(f, NULL));
	return cuStreamSynchronize(stream);
}

/* ---- the host's side ---------------------------------------------------- */

static CUresult do_fork(void)
{
	CUdeviceptr p = 0;
	size_t left, all;
	int status, pipes[2];
	char text[128] = "";
	pid_t child;

	if (pipe(pipes))
		return CUDA_ERROR_OPERATING_SYSTEM;
	child = fork();
	if (!child) {
		snprintf(text, sizeof(text), "alloc=%d info=%d sync=%d",
			 cuMemAlloc(&p, 4096), cuMemGetInfo(&left, &all),
			 cuCtxSynchronize());
		_exit(write(pipes[1], text, strlen(text)) < 0 ? 1 : 7);
	}
	close(pipes[1]);
	if (child < 0 || read(pipes[0], text, sizeof(text) - 1) < 0 ||
	    waitpid(child, &status, 0) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	close(pipes[0]);
	say("%s status=%d", text, WEXITSTATUS(status));
	return CUDA_SUCCESS;
}

/* Blocks, drv.bad and what is pinned. */
static CUresult free_all(void)
{
	if (pinned)
		TRY(cuMemFreeHost(pinned));
	if (flag)
		TRY(cuMemHostUnregister(flag));
	pinned = NULL;
	flag = NULL;
	return puppet_free_all();
}

static void exit_free(void)
{
	printf("handler: free %d\n", free_all());
	fflush(stdout);
}

static void exit_count(void)
{
	printf("handler: bad %lu\n", (unsigned long)puppet_check_all());
	fflush(stdout);
}

static CUresult do_atexit(const char *what)
{
	return atexit(strcmp(what, "free") ? exit_count : exit_free) ?
	       CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static void *exit_here(void *unused)
{
	exit(3);
	return unused;
}

static int leave(const char *how)
{
	pthread_t thread;

	if (!strcmp(how, "quick"))
		_exit(5);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "exit"))
		exit(4);
	if (!strcmp(how, "thread") &&
	    !pthread_create(&thread, NULL, exit_here, NULL))
		pthread_join(thread, NULL);
	if (!strcmp(how, "free") && free_all())
		return 3;
	return 0;
}

static CUresult do_handler(void)
{
	struct sigaction action = { .sa_handler = handle,
				    .sa_flags = SA_RESTART };

	return sigaction(SIGUSR1, &action, NULL) ?
	       CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult do_info(void)
{
	size_t left, all;

	TRY(cuMemGetInfo(&left, &all));
	say("free=%zu total=%zu used=%zu", left, all, all - left);
	return CUDA_SUCCESS;
}

static CUresult do_ipc(struct block *b)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, b->p);
}

/* ---- commands ----------------------------------------------------------- */

static CUresult obey_plain(const char *verb, const char *word)
{
	if (!strcmp(verb, "spin"))
		return do_spin(strtoull(word, NULL, 0));
	if (!strcmp(verb, "hang"))
		return do_hang();
	if (!strcmp(verb, "sync"))
		return cuStreamSynchronize(stream);
	if (!strcmp(verb, "begin"))
		return cuStreamBeginCapture(stream,
					    CU_STREAM_CAPTURE_MODE_GLOBAL);
	if (!strcmp(verb, "end"))
		return do_end();
	if (!strcmp(verb, "launch"))
		return cuGraphLaunch(graph, stream);
	if (!strcmp(verb, "rest"))
		return do_rest();
	if (!strcmp(verb, "info"))
		return do_info();
	if (!strcmp(verb, "device")) {
		say("bytes=%zu", sim_used(0));
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "fault"))
		return do_fault();
	if (!strcmp(verb, "fork"))
		return do_fork();
	if (!strcmp(verb, "handler"))
		return do_handler();
	if (!strcmp(verb, "atexit"))
		return do_atexit(word);
	if (!strcmp(verb, "signals")) {
		say("signals=%d", (int)signals);
		return CUDA_SUCCESS;
	}
	say("unknown command %s %s", verb, word);
	return CUDA_ERROR_UNKNOWN;
}

static CUresult obey_block(const char *verb, struct block *b, uint64_t n)
{
	if (!strcmp(verb, "add"))
		return do_add(b, (uint32_t)n);
	if (!strcmp(verb, "copy"))
		return do_copy(b);
	if (!strcmp(verb, "move"))
		return do_move(b, (int)n);
	if (!strcmp(verb, "advise"))
		return do_advise(b, (int)n);
	if (!strcmp(verb, "peek"))
		return do_peek(b);
	if (!strcmp(verb, "ipc"))
		return do_ipc(b);
	if (!strcmp(verb, "work"))
		return do_work(b);
	return puppet_block(verb, b, n);
}

static CUresult obey(const char *verb, const char *word, uint64_t n)
{
	enum puppet_kind kind = puppet_kind(verb);
	struct block *b = puppet_find(word);

	if (kind != PUPPET_KINDS)
		return puppet_get(kind, word, n, stream);
	if (b)
		return obey_block(verb, b, n);
	if (!strcmp(verb, "free") && !strcmp(word, "all"))
		return free_all();
	if (!strcmp(verb, "check") && !strcmp(word, "all")) {
		say("bad=%lu", (unsigned long)puppet_check_all());
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "where")) {
		puppet_where();
		return CUDA_SUCCESS;
	}
	return obey_plain(verb, word);
}

/* Returns 0 when it is time to leave. */
static int listen_once(void)
{
	static char line[256];
	const char *verb, *word, *number;
	CUresult rc;

	if (!fgets(line, sizeof(line), stdin))
		return 0;
	verb = strtok(line, " \n");
	word = strtok(NULL, " \n");
	number = strtok(NULL, " \n");
	word = word ? word : "";
	if (!verb)
		return 1;
	if (!strcmp(verb, "leave")) {
		exit_mode = strdup(word);
		return 0;
	}
	puppet_said[0] = '\0';
	rc = obey(verb, word, number ? strtoull(number, NULL, 0) : 0);
	if (rc)
		printf("error %d %s\n", rc, puppet_said);
	else
		printf("ok %s\n", puppet_said);
	return 1;
}

static void map_flag(void)
{
	const char *path = getenv("FLAG");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		return;
	if (ftruncate(fd, 4096))
		exit(3);
	flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (flag == MAP_FAILED)
		exit(3);
	CK(cuMemHostRegister(flag, 4096, 0));
}

int main(void)
{
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("EARLY_HANDLER") && do_handler())
		return 3;
	if (getenv("TICK") && pthread_create(&thread, NULL, tick, NULL))
		return 3;
	drv_open();
	map_flag();
	CK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	printf("ok ready\n");
	while (listen_once())
		;
	return exit_mode ? leave(exit_mode) : 0;
}
