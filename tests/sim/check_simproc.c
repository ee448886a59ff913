/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points, failures on request, the ledger, and other processes. */
#include "check_sim.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {
#define SIM_ROW(sym, version) #sym,
#include "sim_versions.def"
#undef SIM_ROW
};

enum { N_NAMES = sizeof(names) / sizeof(*names) };

/* Versions at which something changed, and one before all. */
static const int versions[] = {
	1000, 2000, 2010, 2030, 3000, 3010, 3020, 4000, 4010, 5000, 5050,
	6000, 6050, 7000, 7050, 8000, 9000, 9010, 9020, 10000, 10010, 10020,
	11000, 11010, 11020, 11030, 11040, 11050, 11060, 11070, 11080, 12000,
	12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000,
};

static void *ask(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *fn = NULL;

	ck_ok(cuGetProcAddress_v2(name, &fn, version, flags, &status));
	ck_assert_int_eq(status == CU_GET_PROC_ADDRESS_SUCCESS, fn != NULL);
	return fn;
}

static size_t index_of(void *fn, void *const *known)
{
	size_t i = 0;

	while (i < N_NAMES && known[i] != fn)
		i++;
	return i;
}

static void ask_everything(const char *name, bool *seen, void *const *known)
{
	size_t v, i;
	int flags;
	void *fn;

	for (v = 0; v < sizeof(versions) / sizeof(*versions); v++)
		for (flags = 0; flags <= 2; flags++) {
			cuGetProcAddress_v2(name, &fn, versions[v],
					    (cuuint64_t)flags, NULL);
			if (!fn)
				continue;
			i = index_of(fn, known);
			ck_assert_msg(i < N_NAMES, "%s", name);
			seen[i] = true;
		}
}

START_TEST(each_name_has_an_address_and_all_are_handed_out)
{
	static void *known[N_NAMES];
	static bool seen[N_NAMES];
	size_t i;

	for (i = 0; i < N_NAMES; i++) {
		known[i] = dlsym(RTLD_DEFAULT, names[i]);
		ck_assert_msg(known[i] != NULL, "%s", names[i]);
		ck_assert_msg(index_of(known[i], known) == i, "%s", names[i]);
	}
	for (i = 0; i < N_NAMES; i++)
		ask_everything(names[i], seen, known);
	for (i = 0; i < N_NAMES; i++)
		ck_assert_msg(seen[i], "%s", names[i]);
}
END_TEST

START_TEST(the_names_are_those_that_the_library_classifies)
{
	char line[256], name[128];
	size_t listed = 0, i;
	FILE *f = fopen(LINT_DIR "/entry-points.txt", "r");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%127s", name) != 1 || name[0] == '#')
			continue;
		listed++;
		for (i = 0; i < N_NAMES && strcmp(names[i], name); i++)
			;
		ck_assert_msg(i < N_NAMES, "%s", name);
	}
	fclose(f);
	ck_assert_uint_eq(listed, N_NAMES);
}
END_TEST

START_TEST(version_and_flags_choose_the_spelling)
{
	CUdriverProcAddressQueryResult status;
	void *fn;

	ck_assert(ask("cuMemAlloc", 3010, 0) == (void *)cuMemAlloc);
	ck_assert(ask("cuMemAlloc", 12000, 0) == (void *)cuMemAlloc_v2);
	ck_assert(ask("cuMemAlloc", 12000, 2) == (void *)cuMemAlloc_v2);
	ck_assert(ask("cuMemcpyHtoD", 12000, 1) == (void *)cuMemcpyHtoD_v2);
	ck_assert(ask("cuMemcpyHtoD", 12000, 2) ==
		  (void *)cuMemcpyHtoD_v2_ptds);
	ck_assert(ask("cuMemcpyHtoD", 6000, 2) == (void *)cuMemcpyHtoD_v2);
	ck_assert(ask("cuGetProcAddress", 11030, 0) ==
		  (void *)cuGetProcAddress);
	ck_assert(ask("cuGetProcAddress", 12000, 0) ==
		  (void *)cuGetProcAddress_v2);
	ck_ok(cuGetProcAddress_v2("cuMemCreate", &fn, 9000, 0, &status));
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	ck_ok(cuGetProcAddress_v2("cuNothing", &fn, 9000, 0, &status));
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	ck_ok(cuGetProcAddress_v2("cuNothing", &fn, 9000, 0, NULL));
	ck_cu(cuGetProcAddress("cuNothing", &fn, 9000, 0),
	      CUDA_ERROR_NOT_FOUND);
	ck_cu(cuGetProcAddress("cuInit", &fn, 99000, 0),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuGetProcAddress("cuInit", &fn, 12000, 3),
	      CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuGetProcAddress("cuInit", NULL, 12000, 0),
	      CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(what_is_not_simulated_says_so)
{
	CUtexref t;

	ck_cu(cuTexRefCreate(&t), CUDA_ERROR_NOT_INITIALIZED);
	ck_ok(cuInit(0));
	ck_cu(cuTexRefCreate(&t), CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_uint_eq(sim_calls("cuTexRefCreate"), 2);
}
END_TEST

START_TEST(the_nth_call_fails_and_does_nothing)
{
	CUdeviceptr p = 5;

	start(0);
	ck_ok(cuMemAlloc_v2(&p, 512));
	sim_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY);
	sim_fail_from("cuMemFree_v2", 2, CUDA_ERROR_UNKNOWN);
	ck_ok(cuMemFree_v2(p));
	ck_ok(cuMemAlloc_v2(&p, 512));
	p = 5;
	ck_cu(cuMemAlloc_v2(&p, 512), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(p, 5);
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_cu(cuMemFree_v2(p), CUDA_ERROR_UNKNOWN);
	ck_cu(cuMemFree_v2(p), CUDA_ERROR_UNKNOWN);
	ck_assert_uint_eq(ledger().allocations, 2);
	ck_assert_uint_eq(sim_injected(), 3);
	sim_fail_clear();
	ck_ok(cuMemFree_v2(p));
	ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 4);
	ck_assert_uint_eq(ledger().invalid, 0);
}
END_TEST

START_TEST(reset_goes_back_to_before_init)
{
	CUdeviceptr p;
	CUdevice dev;

	start(0);
	ck_ok(cuMemAlloc_v2(&p, 512));
	ck_ok(cuMemsetD8_v2(p, 1, 512));
	sim_fail("cuInit", 1, CUDA_ERROR_UNKNOWN);
	sim_reset();
	ck_cu(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	start(0);
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 0);
	ck_assert_uint_eq(ledger().contexts, 1);
	ck_ok(cuMemAlloc_v2(&p, 512));
}
END_TEST

START_TEST(a_forked_child_is_not_initialised)
{
	int status, n;
	pid_t pid;

	start(0);
	pid = fork();
	if (pid == 0)
		_exit(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED &&
		      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_ok(cuDeviceGetCount(&n));
}
END_TEST

/* In a child: take memory, say so, stay until killed. */
static void hog(int ready, size_t bytes)
{
	CUcontext ctx;
	CUdeviceptr p;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) ||
	    cuCtxSetCurrent(ctx) || cuMemAlloc_v2(&p, bytes) ||
	    write(ready, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

START_TEST(processes_share_a_device_until_they_die)
{
	char path[] = "/tmp/check-sim-XXXXXX", c;
	int ready[2], fd = mkstemp(path);
	CUdeviceptr p;
	pid_t pid;

	ck_assert_int_ge(fd, 0);
	setenv("VSLEEP_SIM_SHARE", path, 1);
	setenv("VSLEEP_SIM_MEMORY", "8M", 1);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0)
		hog(ready[1], 6 * MIB);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	start(0);
	ck_cu(cuMemAlloc_v2(&p, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_ok(cuMemAlloc_v2(&p, 2 * MIB));
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	ck_ok(cuMemAlloc_v2(&p, 4 * MIB));
	waitpid(pid, NULL, 0);
	unlink(path);
}
END_TEST

static void send_fd(int to, int fd)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } u;
	struct iovec io = { "x", 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };

	memset(&u, 0, sizeof(u));
	u.h.cmsg_level = SOL_SOCKET;
	u.h.cmsg_type = SCM_RIGHTS;
	u.h.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&u.h), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(to, &m, 0), 1);
}

static int take_fd(int from)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } u;
	char c;
	struct iovec io = { &c, 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };
	int fd = -1;

	if (recvmsg(from, &m, 0) == 1)
		memcpy(&fd, CMSG_DATA(&u.h), sizeof(fd));
	return fd;
}

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static const CUmemAccessDesc access_desc = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static CUdeviceptr map(CUmemGenericAllocationHandle h)
{
	CUdeviceptr at;

	ck_ok(cuMemAddressReserve(&at, BLOCK, 0, 0, 0));
	ck_ok(cuMemMap(at, BLOCK, 0, h, 0));
	ck_ok(cuMemSetAccess(at, BLOCK, &access_desc, 1));
	return at;
}

/* In a child: map what comes, check it, change it, and wait for a word. */
static void importer(int sock)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	int fd = take_fd(sock);
	char c;

	start(0);
	ck_ok(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	at = map(h);
	ck_assert_uint_eq(word(at), 0x01010101);
	ck_ok(cuMemsetD8_v2(at, 2, BLOCK));
	ck_ok(cuCtxSynchronize());
	ck_assert_uint_eq(sim_used(0), 0);
	ck_assert_int_eq(write(sock, "x", 1), 1);
	ck_assert_int_eq(read(sock, &c, 1), 1);
	_exit(0);
}

START_TEST(exported_memory_stays_while_anyone_has_it)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	int pair[2], fd;
	pid_t pid;
	char c;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	if (pid == 0)
		importer(pair[1]);
	start(0);
	ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
	at = map(h);
	ck_ok(cuMemsetD8_v2(at, 1, BLOCK));
	ck_ok(cuCtxSynchronize());
	ck_ok(cuMemExportToShareableHandle(&fd, h,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	send_fd(pair[0], fd);
	ck_assert_int_eq(read(pair[0], &c, 1), 1);
	ck_assert_uint_eq(word(at), 0x02020202);
	ck_ok(cuMemUnmap(at, BLOCK));
	ck_ok(cuMemRelease(h));
	close(fd);
	ck_assert_uint_eq(sim_used(0), BLOCK);
	ck_assert_int_eq(write(pair[0], "x", 1), 1);
	waitpid(pid, NULL, 0);
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

START_TEST(an_open_descriptor_keeps_exported_memory)
{
	CUmemGenericAllocationHandle h;
	int fd;

	start(0);
	ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
	ck_ok(cuMemExportToShareableHandle(&fd, h,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_ok(cuMemRelease(h));
	ck_assert_uint_eq(sim_used(0), BLOCK);
	close(fd);
	ck_assert_uint_eq(sim_used(0), 0);
}
END_TEST

/* In a child: open the other's memory, check it and change it. */
static void ipc_opener(int sock)
{
	CUipcMemHandle handle;
	CUdeviceptr at, base;
	size_t size;

	if (read(sock, &handle, sizeof(handle)) != sizeof(handle))
		_exit(1);
	start(0);
	ck_ok(cuIpcOpenMemHandle_v2(&at, handle,
				    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_ok(cuMemGetAddressRange_v2(&base, &size, at + 100));
	ck_assert_uint_eq(size, 3000);
	ck_assert_uint_eq(word(at), 0x01010101);
	ck_ok(cuMemsetD8_v2(at, 2, size));
	ck_ok(cuIpcCloseMemHandle(at));
	ck_cu(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
	_exit(0);
}

START_TEST(native_memory_opens_in_another_process)
{
	CUipcMemHandle handle;
	CUdeviceptr at;
	int pair[2], status;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	if (pid == 0)
		ipc_opener(pair[1]);
	start(0);
	ck_ok(cuMemAlloc_v2(&at, 512));
	ck_ok(cuMemAlloc_v2(&at, 3000));
	ck_ok(cuMemsetD8_v2(at, 1, 3000));
	ck_ok(cuCtxSynchronize());
	ck_ok(cuIpcGetMemHandle(&handle, at));
	ck_assert_int_eq(write(pair[0], &handle, sizeof(handle)),
			 sizeof(handle));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(word(at + 2996), 0x02020202);
}
END_TEST

START_TEST(a_report_is_written_at_exit)
{
	char path[] = "/tmp/check-sim-XXXXXX", report[4096];
	CUmemGenericAllocationHandle h;
	int fd = mkstemp(path);
	ssize_t n;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		setenv("VSLEEP_SIM_LEDGER", path, 1);
		start(0);
		ck_ok(cuMemCreate(&h, BLOCK, &prop, 0));
		cuMemRelease(h + 1);
		exit(0);
	}
	waitpid(pid, NULL, 0);
	n = read(fd, report, sizeof(report) - 1);
	ck_assert_int_gt(n, 0);
	report[n] = '\0';
	ck_assert_ptr_nonnull(strstr(report, "live-handles=1\n"));
	ck_assert_ptr_nonnull(strstr(report, "invalid-calls=1\n"));
	ck_assert_ptr_nonnull(strstr(report, "calls.cuMemCreate=1\n"));
	close(fd);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim process");
	TCase *t = tcase_create("process");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, each_name_has_an_address_and_all_are_handed_out);
	tcase_add_test(t, the_names_are_those_that_the_library_classifies);
	tcase_add_test(t, version_and_flags_choose_the_spelling);
	tcase_add_test(t, what_is_not_simulated_says_so);
	tcase_add_test(t, the_nth_call_fails_and_does_nothing);
	tcase_add_test(t, reset_goes_back_to_before_init);
	tcase_add_test(t, a_forked_child_is_not_initialised);
	tcase_add_test(t, processes_share_a_device_until_they_die);
	tcase_add_test(t, exported_memory_stays_while_anyone_has_it);
	tcase_add_test(t, an_open_descriptor_keeps_exported_memory);
	tcase_add_test(t, native_memory_opens_in_another_process);
	tcase_add_test(t, a_report_is_written_at_exit);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
