/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exits - a C++ program with CUDA memory in its main thread, in a static and in
 * a thread_local object and for a destructor of C, each of which frees its own.
 * It says "ready", waits for a line, and ends in the way that it is told.
 */
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

static bool copies;

static void let_go(const char *who, CUdeviceptr p)
{
	unsigned int word = 0;
	CUresult copied = CUDA_SUCCESS;

	if (!p)
		return;
	if (copies)
		copied = cuMemcpyDtoH(&word, p, 4);
	printf("%s: copy %d %x free %d\n", who, copied, word, cuMemFree(p));
	fflush(stdout);
}

struct holder {
	const char *who;
	CUdeviceptr p = 0;
	explicit holder(const char *name) : who(name) { }
	~holder() { let_go(who, p); }
};

static holder of_static("static");
static thread_local holder of_thread("thread_local");
static CUdeviceptr of_c, of_quick, of_atexit;

__attribute__((destructor)) static void c_destructor()
{
	let_go("destructor", of_c);
}

static void at_quick()
{
	let_go("at_quick_exit", of_quick);
}

static void at_exit()
{
	let_go("atexit", of_atexit);
}

static CUcontext context;

static CUdeviceptr get()
{
	CUdeviceptr p = 0;

	if (cuMemAlloc(&p, 3 << 20) || cuMemsetD8(p, 0x5a, 3 << 20))
		std::exit(3);
	return p;
}

static pthread_barrier_t barrier;

/* It has what it frees before the process sleeps. */
static void *exit_here(void *)
{
	cuCtxSetCurrent(context);
	of_thread.p = get();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	std::exit(9);
}

/* It waits at the gate whenever that is shut. */
static void *work(void *)
{
	unsigned int word;

	cuCtxSetCurrent(context);
	while (!cuMemcpyDtoH(&word, of_c, 4))
		;
	for (;;)
		pause();
}

static void *end_later(void *)
{
	usleep(1000);
	std::exit(11);
}

/* The main thread's objects are still there, and who is asleep may exit. */
static void *outlive_main(void *main_thread)
{
	char line[32];

	pthread_join(*(pthread_t *)main_thread, nullptr);
	printf("ok alone\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		std::exit(3);
	std::exit(12);
}

static int leave(const char *how)
{
	pthread_t thread;

	if (!strcmp(how, "thread")) {
		pthread_barrier_wait(&barrier);
		for (;;)
			pause();
	}
	if (!strcmp(how, "last")) {
		if (pthread_create(&thread, nullptr, end_later, nullptr))
			return 3;
		pthread_exit(nullptr);
	}
	if (!strcmp(how, "main")) {
		static pthread_t self = pthread_self();
		holder of_stack("stack");

		of_stack.p = get();
		if (pthread_create(&thread, nullptr, outlive_main, &self))
			return 3;
		pthread_exit(nullptr);
	}
	if (!strcmp(how, "_exit"))
		_exit(5);
	if (!strcmp(how, "quick"))
		std::quick_exit(6);
	if (!strcmp(how, "exit"))
		std::exit(7);
	if (!strcmp(how, "throw"))
		throw std::runtime_error("nobody catches it");
	if (!strcmp(how, "terminate"))
		std::terminate();
	return 8;
}

int main(int argc, char **argv)
{
	char line[32];
	pthread_t thread;
	CUdevice device;

	if (argc < 3 || cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		return 3;
	copies = !strcmp(argv[2], "copy");
	of_static.p = get();
	of_thread.p = get();
	of_c = get();
	of_quick = get();
	of_atexit = get();
	if (at_quick_exit(at_quick) || atexit(at_exit))
		return 3;
	if (!strcmp(argv[2], "work") &&
	    pthread_create(&thread, nullptr, work, nullptr))
		return 3;
	if (!strcmp(argv[1], "thread")) {
		pthread_barrier_init(&barrier, nullptr, 2);
		if (pthread_create(&thread, nullptr, exit_here, nullptr))
			return 3;
		pthread_barrier_wait(&barrier);
	}
	printf("ok ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 3;
	return leave(argv[1]);
}
