/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once: threads that allocate, copy, compare and free, clients
 * that ask for anything and leave at any time, and threads of the program that
 * use vsleep.h.  No byte is lost, every answer comes, and in the end nothing
 * is held.  A whole library in one process, init.c too.
 *
 * VS_SEED and VS_SECONDS in the environment: another order, and for longer.
 */
#include <config.h>

#include "init.c"
#include "backup/store.h"
#include "base/lock.h"
#include "anytime_mapped.h"
#include "sim.h"

#define VSLEEP_LIBRARY
#include <vsleep.h>

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PATIENCE 30		/* seconds that anything may take */
#define WORKERS 3
#define CLIENTS 3
#define CALLERS 2
#define BLOCKS 4
#define LARGEST (3 * MIB)
#define PICK(seed, list) \
	((list)[rand_r(seed) % (sizeof(list) / sizeof((list)[0]))])

static char folder[] = "/tmp/check-anytime-XXXXXX";
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static unsigned first_seed = 1;
static int seconds = 4;
static atomic_bool over;

static CUcontext context;

static void *of_driver(const char *name)
{
	void *found = vs_driver_dlsym(vs_driver_handle(), name);

	ck_assert_ptr_nonnull(found);
	return found;
}

/* ---- the program --------------------------------------------------------- */

struct block {
	CUdeviceptr base;	/* 0: none */
	CUmemGenericAllocationHandle handle;	/* mapped by hand, or 0 */
	size_t size;
	unsigned char first;
};

struct worker {
	pthread_t thread;
	unsigned seed;
	struct block blocks[BLOCKS];
	unsigned char *bytes;
	_Atomic unsigned long rounds;
};

static const char *const tags[] = { "a", "b", "c" };

static void fill(struct worker *w, struct block *b)
{
	size_t i;

	b->first = (unsigned char)rand_r(&w->seed);
	for (i = 0; i < b->size; i++)
		w->bytes[i] = (unsigned char)(b->first + i * 7);
	ck_assert_int_eq(cuMemcpyHtoD_v2(b->base, w->bytes, b->size), 0);
}

static void compare(struct worker *w, const struct block *b)
{
	size_t i;

	ck_assert_int_eq(cuMemcpyDtoH_v2(w->bytes, b->base, b->size), 0);
	for (i = 0; i < b->size; i++)
		if (w->bytes[i] != (unsigned char)(b->first + i * 7))
			ck_abort_msg("byte %zu of %zu at 0x%llx", i, b->size,
				     b->base);
}

/* By hand, and seen at another address too. */
static CUresult get_mapped(struct worker *w, struct block *b)
{
	struct block alias;
	CUresult rc;

	b->size = (1 + (size_t)rand_r(&w->seed) % 20) << 16;
	rc = mapped_create(b->size, &b->handle);
	if (rc)
		return rc;
	b->base = mapped_at(b->handle, b->size,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	fill(w, b);
	alias = *b;
	alias.base = mapped_at(b->handle, b->size,
			       CU_MEM_ACCESS_FLAGS_PROT_READ);
	compare(w, &alias);
	mapped_end(alias.base, alias.size);
	return CUDA_SUCCESS;
}

static void give_up(struct block *b)
{
	if (b->base && b->handle) {
		mapped_end(b->base, b->size);
		ck_assert_int_eq(cuMemRelease(b->handle), 0);
	} else if (b->base) {
		ck_assert_int_eq(cuMemFree_v2(b->base), 0);
	}
	b->base = 0;
	b->handle = 0;
}

static void renew(struct worker *w, struct block *b)
{
	static const size_t sizes[] = { 3000, 70000, MIB, LARGEST };
	CUresult rc;

	give_up(b);
	b->size = PICK(&w->seed, sizes);
	if (rand_r(&w->seed) % 2)
		rc = cuMemAlloc_v2(&b->base, b->size);
	else
		rc = get_mapped(w, b);
	if (rc) {
		ck_assert_int_eq(rc, CUDA_ERROR_OUT_OF_MEMORY);
		b->base = 0;
		b->handle = 0;
		return;
	}
	fill(w, b);
}

static void ask_about(const struct block *b)
{
	CUdeviceptr start = 0;
	size_t size = 0;
	unsigned type = 0;

	ck_assert_int_eq(cuMemGetAddressRange_v2(&start, &size, b->base), 0);
	ck_assert(start == b->base && size == b->size);
	ck_assert_int_eq(cuPointerGetAttribute(&type,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->base), 0);
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
}

/* A context of its own, which comes and goes with its memory. */
static void visit_other_context(struct worker *w)
{
	struct block b = { .size = 70000 };
	CUcontext other;

	if (cuCtxCreate_v4(&other, NULL, 0, 0))
		return;		/* the device is full */
	if (!cuMemAlloc_v2(&b.base, b.size)) {
		fill(w, &b);
		compare(w, &b);
	}
	ck_assert_int_eq(cuCtxDestroy_v2(other), 0);
	ck_assert_int_eq(cuCtxSetCurrent(context), 0);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct block *b;

	ck_assert_int_eq(cuCtxSetCurrent(context), 0);
	ck_assert_int_eq(vsleep_tag_push(PICK(&w->seed, tags)), VSLEEP_OK);
	while (!atomic_load(&over)) {
		b = &w->blocks[rand_r(&w->seed) % BLOCKS];
		if (b->base) {
			ask_about(b);
			compare(w, b);
		}
		if (rand_r(&w->seed) % 4 == 0)
			renew(w, b);
		else if (b->base && rand_r(&w->seed) % 2)
			fill(w, b);
		if (rand_r(&w->seed) % 50 == 0)
			visit_other_context(w);
		w->rounds++;
	}
	for (b = w->blocks; b < w->blocks + BLOCKS; b++)
		if (b->base)
			compare(w, b);
	return NULL;
}

/* ---- who asks ------------------------------------------------------------ */

static int connect_to(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address,
				 sizeof(address)), 0);
	return fd;
}

/* One answer, which may be many kilobytes. */
static void read_answer(int fd, char *answer, size_t size)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n;

	do {
		ck_assert_msg(poll(&ready, 1, PATIENCE * 1000) == 1,
			      "no answer within %d s", PATIENCE);
		n = recv(fd, answer + len, size - 1 - len, 0);
		ck_assert_int_gt(n, 0);
		len += (size_t)n;
		answer[len] = '\0';
	} while (len < 2 || strcmp(answer + len - 2, "\n\n"));
}

static void send_to(int fd, const char *request)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "vsleep 1 %s\n\n", request);

	ck_assert_int_eq(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

static void ask(int fd, const char *request, const char *expected)
{
	char answer[65536];

	send_to(fd, request);
	read_answer(fd, answer, sizeof(answer));
	ck_assert_msg(strstr(answer, expected) != NULL, "%s: %s", request,
		      answer);
}

static const char *const requests[] = {
	"status", "status", "config", "cancel", "resume", "resume", "nonsense",
	"sleep\ntimeout-ms=20", "sleep\ntimeout-ms=200", "sleep\ntags=a",
	"sleep\ntags=b,c\ntimeout-ms=50", "sleep\ndry-run=yes",
	"sleep\ntimeout-ms=50\nprogress=yes", "wake", "wake", "wake\ntags=a",
	"wake\nwait-ms=50", "wake\ntags=b\nwait-ms=10", "pause\ntimeout-ms=50",
	"pause", "quiesce\nlease-ms=20", "quiesce\nlease-ms=1",
	"quiesce\ntimeout-ms=50\nlease-ms=50",
};

/* Some leave without their answer, or before they have asked for all. */
static void *be_client(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	char answer[65536];
	int fd = -1;

	while (!atomic_load(&over)) {
		if (fd < 0)
			fd = connect_to();
		send_to(fd, PICK(&seed, requests));
		if (rand_r(&seed) % 8) {
			read_answer(fd, answer, sizeof(answer));
			if (rand_r(&seed) % 8)
				continue;
		}
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void called(void *count)
{
	++*(unsigned *)count;
}

static void *be_caller(void *arg)
{
	struct vsleep_reply reply = { .size = sizeof(reply) };
	unsigned seed = *(unsigned *)arg, count = 0;

	while (!atomic_load(&over)) {
		switch (rand_r(&seed) % 6) {
		case 0:
			vsleep_sleep(1, PICK(&seed, tags), VSLEEP_HOLD, 0.05,
				     &reply);
			break;
		case 1:
			vsleep_wake(NULL, 0, 0.01, &reply);
			break;
		case 2:
			vsleep_pause(0.05, &reply);
			break;
		case 3:
			vsleep_resume(&reply);
			break;
		case 4:
			vsleep_status(&reply);
			break;
		default:
			vsleep_callback_add(called, called, &count);
			vsleep_wake(NULL, 0, 0, &reply);
			vsleep_callback_remove(called, called, &count);
		}
	}
	return NULL;
}

/* Device memory lacks now and then. */
static void *be_neighbour(void *arg)
{
	void (*limit)(int dev, size_t bytes) =
		(__typeof__(limit))of_driver("sim_limit");
	struct timespec nap = { .tv_nsec = 30000000 };

	while (!atomic_load(&over)) {
		limit(0, MIB);
		nanosleep(&nap, NULL);
		limit(0, 256 * MIB);
		nanosleep(&nap, NULL);
		nanosleep(&nap, NULL);
	}
	return arg;
}

/* ---- the test ------------------------------------------------------------ */

static void clean_up(void)
{
	struct dirent *entry;
	char path[300];
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
	rmdir(folder);
}

static void find_socket(void)
{
	struct dirent *entry;
	DIR *dir = opendir(folder);

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		if (strstr(entry->d_name, ".sock"))
			snprintf(address.sun_path, sizeof(address.sun_path),
				 "%s/%.40s", folder, entry->d_name);
	closedir(dir);
	ck_assert_str_ne(address.sun_path, "");
}

static void begin(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("VSLEEP_DIR", folder, 1);
	setenv("VSLEEP_SIGNALS", "none", 1);
	setenv("VSLEEP_THREADS", "2", 1);
	setenv("VSLEEP_LOG", "/dev/null", 0);
	setenv("VSLEEP_SIM_GRANULARITY", "64K", 1);
	setenv("VSLEEP_SIM_MEMORY", "256M", 1);
	ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW));
	ck_assert(vs_driver_load());
	ck_assert_int_eq(vs_real.cuInit(0), 0);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), 0);
	ck_assert_int_eq(cuCtxSetCurrent(context), 0);
	find_socket();
}

/* Nobody asks any more: what was asked for last is done and undone. */
static void settle(void)
{
	int fd = connect_to();

	ask(fd, "cancel", "status=ok");
	ask(fd, "wake\nwait-ms=10000", "status=ok");
	ask(fd, "resume", "status=ok");
	ask(fd, "status", "\nstate=awake\n");
	ask(fd, "status", "\nevicted-bytes=0\n");
	ask(fd, "status", "\nholds=\n");
	ask(fd, "status", "\npaused=no\n");
	close(fd);
}

static void join(pthread_t thread, const char *who)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	ck_assert_msg(!pthread_timedjoin_np(thread, NULL, &until),
		      "a %s does not end", who);
}

static void assert_left(const struct worker *workers)
{
	void (*ledger)(struct sim_ledger *out) =
		(__typeof__(ledger))of_driver("sim_ledger_get");
	const char *(*invalid)(void) =
		(__typeof__(invalid))of_driver("sim_invalid_text");
	uint64_t bytes = 0;
	struct vs_reply now;
	struct sim_ledger sim;
	int i, k;

	for (i = 0; i < WORKERS; i++)
		for (k = 0; k < BLOCKS; k++)
			if (workers[i].blocks[k].base)
				bytes += workers[i].blocks[k].size;
	vs_operation_status(&now);
	ck_assert_uint_eq(now.ledger.live_bytes, bytes);
	ck_assert_uint_eq(now.ledger.host_bytes, 0);
	ck_assert_uint_eq(now.ledger.held_now, 0);
	ledger(&sim);
	ck_assert_msg(!sim.invalid, "%s", invalid());
}

START_TEST(anything_at_any_time_loses_nothing_and_holds_nobody)
{
	pthread_t clients[CLIENTS], callers[CALLERS], neighbour;
	static struct worker workers[WORKERS];
	unsigned seeds[CLIENTS + CALLERS];
	int i;

	begin();
	for (i = 0; i < WORKERS; i++) {
		workers[i].seed = first_seed * 100 + (unsigned)i;
		workers[i].bytes = malloc(LARGEST);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (i = 0; i < CLIENTS + CALLERS; i++) {
		seeds[i] = first_seed * 100 + 50 + (unsigned)i;
		pthread_create(i < CLIENTS ? &clients[i] :
			       &callers[i - CLIENTS], NULL,
			       i < CLIENTS ? be_client : be_caller, &seeds[i]);
	}
	pthread_create(&neighbour, NULL, be_neighbour, NULL);
	sleep((unsigned)seconds);
	atomic_store(&over, true);
	join(neighbour, "neighbour");
	for (i = 0; i < CLIENTS; i++)
		join(clients[i], "client");
	for (i = 0; i < CALLERS; i++)
		join(callers[i], "caller");
	settle();
	for (i = 0; i < WORKERS; i++)
		join(workers[i].thread, "worker");
	for (i = 0; i < WORKERS; i++)
		ck_assert_uint_gt(workers[i].rounds, 0);
	assert_left(workers);
	clean_up();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("anytime");
	TCase *tc = tcase_create("anytime");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (getenv("VS_SEED"))
		first_seed = (unsigned)atoi(getenv("VS_SEED"));
	if (getenv("VS_SECONDS"))
		seconds = atoi(getenv("VS_SECONDS"));
	tcase_set_timeout(tc, seconds + 8 * PATIENCE);
	tcase_add_test(tc, anything_at_any_time_loses_nothing_and_holds_nobody);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
