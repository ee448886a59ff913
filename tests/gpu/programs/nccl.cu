/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl - two devices of one process that add up and exchange what they hold.
 *
 * Whole numbers, so the sums are exact.  In each of STEPS steps each device
 * changes its block, both add them up (all-reduce), one is broadcast, and they
 * send to each other; both must hold the same then.
 */
#include "rt.cuh"

#include <nccl.h>

#define SIZE ((size_t)64 * MIB)
#define WORDS (SIZE / sizeof(unsigned))

static ncclComm_t comms[2];
static cudaStream_t streams[2];
static unsigned *mine[2], *added[2], *got[2];
static unsigned long long *sums[2];

static void nccl(ncclResult_t rc, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s\n", line, ncclGetErrorString(rc));
	exit(3);
}

#define NC(call) nccl((call), __LINE__)

static void prepare(int device)
{
	CK(cudaSetDevice(device));
	CK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
	CK(cudaMalloc((void **)&mine[device], SIZE));
	CK(cudaMalloc((void **)&added[device], SIZE));
	CK(cudaMalloc((void **)&got[device], SIZE));
	CK(cudaMalloc((void **)&sums[device], sizeof(*sums[device])));
	CK(cudaMemset(sums[device], 0, sizeof(*sums[device])));
	rt_fill<<<256, 256>>>(mine[device], WORDS, 61u + (unsigned)device);
	CK(cudaDeviceSynchronize());
}

static void together(int root)
{
	NC(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		NC(ncclAllReduce(mine[i], added[i], WORDS, ncclUint32, ncclSum,
				 comms[i], streams[i]));
	NC(ncclGroupEnd());
	NC(ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		NC(ncclSend(mine[i], WORDS / 2, ncclUint32, !i, comms[i],
			    streams[i]));
		NC(ncclRecv(got[i], WORDS / 2, ncclUint32, !i, comms[i],
			    streams[i]));
	}
	NC(ncclGroupEnd());
	NC(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		NC(ncclBroadcast(mine[i], got[i] + WORDS / 2, WORDS / 2,
				 ncclUint32, root, comms[i], streams[i]));
	NC(ncclGroupEnd());
}

static void step(long n, unsigned long long out[2])
{
	for (int i = 0; i < 2; i++) {
		CK(cudaSetDevice(i));
		rt_spin<<<1, 1, 0, streams[i]>>>(
			(unsigned long long)prog_env("SPIN_NS", 15000000));
		rt_mix<<<256, 256, 0, streams[i]>>>(mine[i], WORDS,
						   (unsigned)n);
	}
	together((int)(n % 2));
	for (int i = 0; i < 2; i++) {
		CK(cudaSetDevice(i));
		rt_sum<<<256, 256, 0, streams[i]>>>(added[i], WORDS, sums[i]);
		CK(cudaMemcpyAsync(mine[i], got[i], SIZE,
				   cudaMemcpyDeviceToDevice, streams[i]));
		CK(cudaStreamSynchronize(streams[i]));
		CK(cudaMemcpy(&out[i], sums[i], sizeof(out[i]),
			      cudaMemcpyDeviceToHost));
	}
}

int main(void)
{
	long steps = prog_env("STEPS", 400);
	unsigned long long out[2] = {};
	unsigned bad = 0;
	int devices = 0, both[] = { 0, 1 };

	CK(cudaGetDeviceCount(&devices));
	if (devices < 2) {
		fprintf(stderr, "no second device\n");
		return 77;
	}
	NC(ncclCommInitAll(comms, 2, both));
	prepare(0);
	prepare(1);
	for (long n = 1; n <= steps; n++) {
		step(n, out);
		bad += out[0] != out[1];
		if (n % 25 == 0)
			printf("step %ld sum %016llx bad %u\n", n, out[0],
			       bad);
		prog_step(n);
	}
	for (ncclComm_t comm : comms)
		NC(ncclCommDestroy(comm));
	printf("done sum %016llx bad %u\n", out[0], bad);
	return bad != 0;
}
