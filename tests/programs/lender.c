/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lender - a CUDA program that shares memory with others by CUDA IPC, as stdin
 * says.
 *
 * One command a line, one answer a line: "ok ..." or "error CODE".  Blocks
 * have names, its own and the opened ones.
 *
 *   alloc|pool|vmm NAME BYTES   get a block
 *   handle NAME [OFFSET]        print the handle of an address in it
 *   open NAME HANDLE BYTES      open it as a block of so many bytes
 *   spoil NAME HANDLE           open it with byte 20 changed
 *   flags HANDLE NUMBER         open it with these flags
 *   close NAME                  close what was opened
 *   fill NAME SEED              a pattern, by a kernel
 *   check NAME SEED             how many words differ from that
 *   zero NAME                   how many of its bytes are not zero
 *   check all, where            of its own blocks; a hash of their addresses
 *   tell NAME                   what pointer queries say
 *   cut                         close every socket, also those of others
 *   open-files                  how many there are
 *   again                       become a new lender by execve
 *   child                       a forked child that does nothing, until killed
 *   hang, sync                  work that ends with $FLAG; wait for it
 *   free NAME|all, device, leave
 */
#include "puppet_blocks.h"
#include "sim.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define HANDLE_TEXT (2 * sizeof(CUipcMemHandle) + 1)

struct opened {
	struct block block;
	bool live;
};

static struct opened opened[64];
static uint32_t *flag;

static struct opened *find_opened(const char *name)
{
	size_t i;

	for (i = 0; i < 64; i++)
		if (opened[i].live && !strcmp(opened[i].block.name, name))
			return &opened[i];
	return NULL;
}

static void write_handle(const CUipcMemHandle *handle)
{
	const unsigned char *c = (const unsigned char *)handle;
	char text[HANDLE_TEXT];
	size_t i;

	for (i = 0; i < sizeof(*handle); i++)
		sprintf(text + 2 * i, "%02x", c[i]);
	say("handle=%s", text);
}

static void read_handle(const char *text, CUipcMemHandle *out)
{
	unsigned char *c = (unsigned char *)out;
	unsigned value;
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < sizeof(*out); i++)
		if (sscanf(text + 2 * i, "%2x", &value) == 1)
			c[i] = (unsigned char)value;
}

static CUresult do_handle(const struct block *b, size_t offset)
{
	CUipcMemHandle handle;

	TRY(cuIpcGetMemHandle(&handle, b->p + offset));
	write_handle(&handle);
	return CUDA_SUCCESS;
}

static CUresult do_open(const char *name, const char *text, size_t size,
			bool spoil)
{
	CUipcMemHandle handle;
	struct opened *o;

	for (o = opened; o->live; o++)
		;
	read_handle(text, &handle);
	if (spoil)
		((unsigned char *)&handle)[20] ^= 1;
	TRY(cuIpcOpenMemHandle(&o->block.p, handle,
			       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	snprintf(o->block.name, sizeof(o->block.name), "%s", name);
	o->block.size = size;
	o->live = true;
	say("at=%llx", o->block.p);
	return CUDA_SUCCESS;
}

static CUresult do_flags(const char *text, unsigned flags)
{
	CUipcMemHandle handle;
	CUdeviceptr p;

	read_handle(text, &handle);
	return cuIpcOpenMemHandle(&p, handle, flags);
}

static CUresult do_close(struct opened *o)
{
	CUresult rc = cuIpcCloseMemHandle(o->block.p);

	o->live = false;
	return rc;
}

static CUresult do_tell(const struct block *b)
{
	unsigned type = 0, capable = 9;
	CUdeviceptr base = 0;
	int device = -1;
	size_t size = 0;

	TRY(cuMemGetAddressRange(&base, &size, b->p + b->size / 2));
	TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				  b->p));
	TRY(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				  b->p));
	TRY(cuPointerGetAttribute(&capable,
		CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, b->p));
	say("begins=%d size=%zu type=%u device=%d capable=%u", base == b->p,
	    size, type, device, capable);
	return CUDA_SUCCESS;
}

/* What programs do that clean up before they start others. */
static void do_cut(void)
{
	struct stat st;
	int fd, count = 0;

	for (fd = 3; fd < 1024; fd++)
		if (!fstat(fd, &st) && S_ISSOCK(st.st_mode)) {
			close(fd);
			count++;
		}
	say("closed=%d", count);
}

static void do_open_files(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	say("files=%d", count);
}

static void do_child(void)
{
	pid_t child = fork();

	while (!child)
		pause();
	say("child=%d", (int)child);
}

static CUresult do_hang(void)
{
	CUdeviceptr out = 0;
	void *args[] = { &flag, &out };

	return cuLaunchKernel(drv.wait_flag, 1, 1, 1, 1, 1, 1, 0, NULL, args,
			      NULL);
}

static CUresult do_zero(const struct block *b)
{
	size_t i, bad = 0;
	char *bytes = malloc(b->size);

	if (!bytes)
		exit(3);
	TRY(cuMemcpyDtoH(bytes, b->p, b->size));
	for (i = 0; i < b->size; i++)
		bad += bytes[i] != 0;
	free(bytes);
	say("bad=%zu", bad);
	return CUDA_SUCCESS;
}

static CUresult obey_block(const char *verb, struct block *b, uint64_t n)
{
	if (!strcmp(verb, "handle"))
		return do_handle(b, n);
	if (!strcmp(verb, "zero"))
		return do_zero(b);
	if (!strcmp(verb, "tell"))
		return do_tell(b);
	if (!strcmp(verb, "check"))
		b->seed = (uint32_t)n;
	return puppet_block(verb, b, n);
}

static CUresult obey_plain(const char *verb, const char *word)
{
	if (!strcmp(verb, "device")) {
		say("bytes=%zu", sim_used(0));
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "cut")) {
		do_cut();
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "open-files")) {
		do_open_files();
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "child")) {
		do_child();
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "again"))
		execl("/proc/self/exe", "lender", (char *)NULL);
	if (!strcmp(verb, "hang"))
		return do_hang();
	if (!strcmp(verb, "sync"))
		return cuCtxSynchronize();
	if (!strcmp(verb, "where")) {
		puppet_where();
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "check") && !strcmp(word, "all")) {
		say("bad=%lu", (unsigned long)puppet_check_all());
		return CUDA_SUCCESS;
	}
	if (!strcmp(verb, "free") && !strcmp(word, "all")) {
		if (flag)
			TRY(cuMemHostUnregister(flag));
		flag = NULL;
		return puppet_free_all();
	}
	say("unknown command %s %s", verb, word);
	return CUDA_ERROR_UNKNOWN;
}

static CUresult obey(const char *verb, const char *word, const char *third,
		     const char *fourth)
{
	uint64_t n = strtoull(third, NULL, 0);
	struct opened *o = find_opened(word);
	struct block *b = o ? &o->block : puppet_find(word);

	if (puppet_kind(verb) != PUPPET_KINDS)
		return puppet_get(puppet_kind(verb), word, n, NULL);
	if (!strcmp(verb, "open"))
		return do_open(word, third, strtoull(fourth, NULL, 0), false);
	if (!strcmp(verb, "spoil"))
		return do_open(word, third, 1, true);
	if (!strcmp(verb, "flags"))
		return do_flags(word, (unsigned)n);
	if (!strcmp(verb, "close") && o)
		return do_close(o);
	return b ? obey_block(verb, b, n) : obey_plain(verb, word);
}

/* Returns 0 when it is time to leave. */
static int listen_once(void)
{
	static char line[512];
	const char *words[4];
	CUresult rc;
	int i;

	if (!fgets(line, sizeof(line), stdin))
		return 0;
	for (i = 0; i < 4; i++) {
		words[i] = strtok(i ? NULL : line, " \n");
		if (!words[i])
			words[i] = "";
	}
	if (!strcmp(words[0], "leave"))
		return 0;
	puppet_said[0] = '\0';
	rc = obey(words[0], words[1], words[2], words[3]);
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

	if (fd < 0 || ftruncate(fd, 4096))
		exit(3);
	flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (flag == MAP_FAILED)
		exit(3);
	CK(cuMemHostRegister(flag, 4096, 0));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	drv_open();
	map_flag();
	printf("ok ready\n");
	while (listen_once())
		;
	return 0;
}
