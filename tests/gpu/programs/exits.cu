/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exits MODE - a program that holds device memory and leaves in some way.
 *
 * $PROGRESS reads "ready", it waits for a line on stdin, then leaves:
 *
 *   return        from main
 *   free          from main, having freed its memory
 *   thread        exit(3) in another thread
 *   quick         _exit(5)
 *   handler       exit(4); a handler copies the memory out and prints its sum
 *   destructor    return; the destructor of a global object frees the memory
 *   tls           return; that of a thread_local object copies it out
 *   worker        return once a thread has ended whose thread_local object does
 *   wait          never: someone ends it by a signal
 */
#include "rt.cuh"

#include <thread>

#define SIZE (4 * GIB)

static unsigned *memory;
static void *extra;

static void print_sum(const char *where)
{
	static unsigned out[1 << 20];
	cudaError_t rc = cudaMemcpy(out, memory, sizeof(out),
				    cudaMemcpyDeviceToHost);

	printf("%s: code %d hash %016lx\n", where, rc,
	       (unsigned long)prog_hash(out, sizeof(out), 0));
	fflush(stdout);
}

static void handler(void)
{
	print_sum("handler");
}

struct owner {
	bool armed;
	~owner()
	{
		if (!armed)
			return;
		printf("destructor: code %d\n", cudaFree(extra));
		fflush(stdout);
	}
};

struct last_words {
	bool armed;
	~last_words()
	{
		if (armed)
			print_sum("thread_local");
	}
};

static owner global_owner;
static thread_local last_words local_words;

static int leave(const char *mode)
{
	if (!strcmp(mode, "free")) {
		CK(cudaFree(memory));
		CK(cudaFree(extra));
	} else if (!strcmp(mode, "thread")) {
		std::thread([] { exit(3); }).join();
	} else if (!strcmp(mode, "worker")) {
		std::thread([] { local_words.armed = true; }).join();
	} else if (!strcmp(mode, "quick")) {
		_exit(5);
	} else if (!strcmp(mode, "handler")) {
		exit(4);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "return";
	char c;

	CK(cudaMalloc((void **)&memory, SIZE));
	CK(cudaMalloc(&extra, 3 * MIB + 17));
	rt_fill<<<512, 256>>>(memory, SIZE / 4, 42);
	CK(cudaDeviceSynchronize());
	if (!strcmp(mode, "handler"))
		atexit(handler);
	global_owner.armed = !strcmp(mode, "destructor");
	local_words.armed = !strcmp(mode, "tls");
	prog_mark("ready");
	do {
		if (read(0, &c, 1) != 1)
			return 9;
	} while (c != '\n' || !strcmp(mode, "wait"));
	return leave(mode);
}
