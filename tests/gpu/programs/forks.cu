/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forks - a program that starts children all the time, with and without exec.
 *
 * A thread that never calls CUDA forks a child that adds numbers up, or one
 * that runs `true`, and waits for it; each of the children must end as it
 * should within five seconds.  SIGCHLD has a handler and interrupts calls.
 * Meanwhile the main thread works on the device, STEPS steps.  With $TICK the
 * number of children is in that file.
 */
#include "rt.cuh"

#include <atomic>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <thread>

#define SIZE ((size_t)192 * MIB)
#define WORDS (SIZE / sizeof(unsigned))

static std::atomic<bool> over;
static std::atomic<unsigned> signals, bad, children;

static void count_signal(int)
{
	signals++;
}

[[noreturn]] static void child(bool run)
{
	unsigned total = 0;

	if (run) {
		execlp("true", "true", (char *)NULL);
		_exit(9);
	}
	for (unsigned i = 0; i < 100000; i++)
		total += i * i;
	_exit(total == 0x0ce72470u ? 0 : 8);
}

static void await_child(pid_t pid)
{
	double end = prog_now() + 5;
	int status = -1;
	pid_t rc;

	do {
		rc = waitpid(pid, &status, WNOHANG);
		if (!rc)
			usleep(1000);
	} while ((!rc || (rc < 0 && errno == EINTR)) && prog_now() < end);
	if (rc == pid && status == 0)
		return;
	fprintf(stderr, "child %d: %d, status %d\n", pid, rc, status);
	bad++;
}

static void breed(int ticks)
{
	char line[32];

	while (!over) {
		pid_t pid = fork();

		if (pid < 0) {
			bad++;
			return;
		}
		if (!pid)
			child(children % 2);
		await_child(pid);
		snprintf(line, sizeof(line), "%010u\n", ++children);
		if (ticks >= 0 && pwrite(ticks, line, strlen(line), 0) < 0)
			perror("TICK");
		usleep(5000);
	}
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	const char *path = getenv("TICK");
	int ticks = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
			 : -1;
	unsigned long long value = 0, *sum;
	struct sigaction action = {};
	unsigned *data;

	action.sa_handler = count_signal;
	sigaction(SIGCHLD, &action, NULL);
	CK(cudaMalloc((void **)&data, SIZE));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_fill<<<512, 256>>>(data, WORDS, 51);
	std::thread breeder(breed, ticks);
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1>>>((unsigned long long)ns);
		rt_mix<<<512, 256>>>(data, WORDS, (unsigned)n);
		rt_sum<<<512, 256>>>(data, WORDS, sum);
		CK(cudaMemcpy(&value, sum, sizeof(value),
			      cudaMemcpyDeviceToHost));
		if (n % 25 == 0)
			printf("step %ld sum %016llx\n", n, value);
		prog_step(n);
	}
	over = true;
	breeder.join();
	printf("done sum %016llx bad children %u, some children %d, "
	       "some signals %d\n", value, bad.load(), children > 10,
	       signals > 10);
	return bad != 0;
}
