/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint PID - the driver's own checkpoint of another process, timed.
 *
 * Commands: sleep (lock, checkpoint), wake (restore, unlock), quit.  An answer
 * is "ok seconds=" or "error CALL CODE".
 */
#include "mapped.h"

static int pid;

static int failed(const char *call, CUresult rc)
{
	if (rc)
		printf("error %s %d\n", call, rc);
	return rc != CUDA_SUCCESS;
}

static void put_to_sleep(void)
{
	CUcheckpointLockArgs lock = { .timeoutMs = 60000 };
	CUcheckpointCheckpointArgs args = { 0 };
	double from = prog_now();

	if (failed("lock", cuCheckpointProcessLock(pid, &lock)) ||
	    failed("checkpoint", cuCheckpointProcessCheckpoint(pid, &args)))
		return;
	printf("ok seconds=%.6f\n", prog_now() - from);
}

static void wake(void)
{
	CUcheckpointRestoreArgs args = { 0 };
	CUcheckpointUnlockArgs unlock = { 0 };
	double from = prog_now();

	if (failed("restore", cuCheckpointProcessRestore(pid, &args)) ||
	    failed("unlock", cuCheckpointProcessUnlock(pid, &unlock)))
		return;
	printf("ok seconds=%.6f\n", prog_now() - from);
}

int main(int argc, char **argv)
{
	static const struct mapped_verb verbs[] = {
		{ "sleep", put_to_sleep },
		{ "wake", wake },
		{ NULL, NULL }
	};

	pid = argc == 2 ? atoi(argv[1]) : 0;
	if (pid <= 0) {
		fprintf(stderr, "usage: checkpoint PID\n");
		return 2;
	}
	CK(cuInit(0));
	mapped_obey(verbs);
	return 0;
}
