/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callbacks - functions of the host between kernels, in the order of streams.
 *
 * In each of STEPS steps each of three streams changes its block, copies a
 * piece of it out, lets a host function compute on the piece, copies the result
 * in and goes on with it; then a stream callback notes that all this is over.
 * A function that ran too early or too late would give other sums.
 */
#include "rt.cuh"

#include <atomic>

#define STREAMS 3
#define SIZE ((size_t)96 * MIB)
#define WORDS (SIZE / sizeof(unsigned))
#define PIECE 4096

struct lane {
	cudaStream_t stream;
	unsigned *data, *host;
	unsigned long long *sum;
	unsigned functions;
	std::atomic<unsigned> callbacks;
};

static lane lanes[STREAMS];

static void compute(void *p)
{
	lane *l = (lane *)p;
	unsigned running = l->functions++;

	for (size_t i = 0; i < PIECE; i++) {
		running = running * 31 + l->host[i];
		l->host[i] = running;
	}
}

static void note(cudaStream_t, cudaError_t rc, void *p)
{
	((lane *)p)->callbacks += rc == cudaSuccess ? 1 : 1000;
}

static void go(lane *l, unsigned n)
{
	size_t at = (n * 1000003u % (WORDS - PIECE)) & ~63u;

	rt_mix<<<256, 256, 0, l->stream>>>(l->data, WORDS, n);
	CK(cudaMemcpyAsync(l->host, l->data + at, PIECE * 4,
			   cudaMemcpyDeviceToHost, l->stream));
	CK(cudaLaunchHostFunc(l->stream, compute, l));
	CK(cudaMemcpyAsync(l->data + at, l->host, PIECE * 4,
			   cudaMemcpyHostToDevice, l->stream));
	rt_mix<<<256, 256, 0, l->stream>>>(l->data, WORDS, n + 1);
	CK(cudaLaunchHostFunc(l->stream, compute, l));
	rt_sum<<<256, 256, 0, l->stream>>>(l->data, WORDS, l->sum);
	CK(cudaStreamAddCallback(l->stream, note, l, 0));
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	unsigned long long sums[STREAMS] = {};
	bool wrong = false;

	for (unsigned i = 0; i < STREAMS; i++) {
		lane *l = &lanes[i];

		CK(cudaStreamCreateWithFlags(&l->stream,
					     cudaStreamNonBlocking));
		CK(cudaMalloc((void **)&l->data, SIZE));
		CK(cudaMalloc((void **)&l->sum, sizeof(*l->sum)));
		CK(cudaMallocHost((void **)&l->host, PIECE * 4));
		CK(cudaMemset(l->sum, 0, sizeof(*l->sum)));
		rt_fill<<<256, 256>>>(l->data, WORDS, i);
	}
	CK(cudaDeviceSynchronize());
	for (long n = 1; n <= steps; n++) {
		rt_spin<<<1, 1, 0, lanes[n % STREAMS].stream>>>(
			(unsigned long long)ns);
		for (lane &l : lanes)
			go(&l, (unsigned)n);
		for (unsigned i = 0; i < STREAMS; i++) {
			CK(cudaStreamSynchronize(lanes[i].stream));
			CK(cudaMemcpy(&sums[i], lanes[i].sum, sizeof(sums[i]),
				      cudaMemcpyDeviceToHost));
		}
		if (n % 25 == 0)
			printf("step %ld sums %016llx %016llx %016llx\n", n,
			       sums[0], sums[1], sums[2]);
		prog_step(n);
	}
	for (lane &l : lanes) {
		wrong |= l.functions != 2 * steps || l.callbacks != steps;
		printf("done functions %u callbacks %u\n", l.functions,
		       l.callbacks.load());
	}
	return wrong;
}
