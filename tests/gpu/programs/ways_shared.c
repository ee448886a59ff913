/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways_shared - memory that two processes have.
 *
 * The other process is this program once more, `ways --child WHAT FD`; it makes
 * the memory and sends it, or opens what it is sent, and ends when its socket
 * does.  Over that socket it is told a seed and answers how many words of the
 * memory differ from it.
 */
#include "ways.h"

#include <sys/socket.h>

#define FIRST_SEED 31u

static int peer = -1;
static size_t shared_size;

/* @bare: without preloads. */
static void begin_child(const char *what, bool bare)
{
	int ends[2];
	char text[16];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || fcntl(ends[0],
			F_SETFD, FD_CLOEXEC))
		exit(4);
	snprintf(text, sizeof(text), "%d", ends[1]);
	if (!fork()) {
		unsetenv("PROGRESS");
		if (bare)
			unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", "ways", "--child", what, text, NULL);
		_exit(4);
	}
	close(ends[1]);
	peer = ends[0];
}

/* All of it, or the other side has gone. */
static bool get(int fd, void *data, size_t len)
{
	return recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

static void put(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		exit(4);
}

union note {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void put_descriptor(int to, int fd)
{
	char byte = 0;
	union note note = { { 0 } };
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = &note, .msg_controllen = sizeof(note),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (sendmsg(to, &message, MSG_NOSIGNAL) != 1)
		exit(4);
}

static int get_descriptor(int from)
{
	char byte;
	int fd;
	union note note;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = &note, .msg_controllen = sizeof(note),
	};
	struct cmsghdr *head;

	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1)
		exit(4);
	head = CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_type != SCM_RIGHTS)
		exit(4);
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

static CUmemGenericAllocationHandle create_exportable(size_t size, int *fd)
{
	CUmemAllocationProp props =
		ways_props(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUmemGenericAllocationHandle handle;

	CK(cuMemCreate(&handle, size, &props, 0));
	CK(cuMemExportToShareableHandle(fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return handle;
}

/* The descriptor stays open: another process could get it at any time. */
static void make_exported(void)
{
	size_t size = ways_round(ways_bytes);
	int fd;

	ways_hold(ways_map(0, size, create_exportable(size, &fd),
			   CU_MEM_ACCESS_FLAGS_PROT_READWRITE), size);
}

static void hold_shared(CUdeviceptr p)
{
	struct block *b = &ways_blocks[ways_count++];

	b->p = b->read = p;
	b->size = shared_size;
	b->seed = FIRST_SEED;
}

static void make_imported(void)
{
	CUmemGenericAllocationHandle handle;
	int fd;

	ways_props(0);
	begin_child("export", false);
	if (!get(peer, &shared_size, sizeof(shared_size)))
		exit(4);
	fd = get_descriptor(peer);
	CK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	hold_shared(ways_map(0, shared_size, handle,
			     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

/* Plain memory, and the handle of it to the other process. */
static void lend(int to)
{
	CUipcMemHandle handle;
	CUdeviceptr p;

	CK(cuMemAlloc(&p, ways_bytes));
	ways_hold(p, ways_bytes);
	ways_fill(&ways_blocks[0], FIRST_SEED);
	CK(cuIpcGetMemHandle(&handle, p));
	put(to, &ways_bytes, sizeof(ways_bytes));
	put(to, &handle, sizeof(handle));
}

static void open_lent(int from)
{
	CUipcMemHandle handle;
	CUdeviceptr p;

	if (!get(from, &shared_size, sizeof(shared_size)) ||
	    !get(from, &handle, sizeof(handle)))
		exit(4);
	CK(cuIpcOpenMemHandle(&p, handle,
				  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	hold_shared(p);
}

static void make_ipc(void)
{
	begin_child("ipc", false);
	open_lent(peer);
}

static void make_lent(void)
{
	begin_child("open", true);
	lend(peer);
}

/* What the other process sees of what was written here. */
static uint64_t check_peer(void)
{
	uint64_t bad = 1;

	put(peer, &ways_blocks[0].seed, sizeof(uint32_t));
	if (!get(peer, &bad, sizeof(bad)))
		exit(4);
	return bad;
}

static void export_to(int to)
{
	CUdeviceptr p;
	int fd;

	shared_size = ways_round(ways_bytes);
	p = ways_map(0, shared_size, create_exportable(shared_size, &fd),
		     CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ways_hold(p, shared_size);
	ways_fill(&ways_blocks[0], FIRST_SEED);
	put(to, &shared_size, sizeof(shared_size));
	put_descriptor(to, fd);
	close(fd);
}

static void child_memory(const char *what, int fd)
{
	if (!strcmp(what, "open"))
		open_lent(fd);
	else if (!strcmp(what, "export"))
		export_to(fd);
	else
		lend(fd);
}

int ways_child(const char *what, int fd)
{
	struct block *b = &ways_blocks[0];
	uint64_t bad;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	child_memory(what, fd);
	while (get(fd, &b->seed, sizeof(b->seed))) {
		bad = ways_compare(b);
		put(fd, &bad, sizeof(bad));
	}
	return 0;
}

const struct way ways_shared[] = {
	{ "exported", make_exported, NULL, NULL, false },
	{ "imported", make_imported, NULL, check_peer, false },
	{ "ipc", make_ipc, NULL, check_peer, false },
	{ "ipc-lent", make_lent, NULL, check_peer, false },
	{ NULL, NULL, NULL, NULL, false }
};
