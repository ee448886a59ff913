/* SPDX-License-Identifier: Apache-2.0 */
/*
 * questions - every answer about device memory, as lines that can be compared.
 *
 * Commands on stdin, answers as puppet gives them:
 *
 *   make             get a set of blocks, one of every kind; also twice
 *   drop             free those of them that are to be freed, after the rest
 *   lend             a handle of the first plain block for another process
 *   open HANDLE      and what that process opens
 *   ask FILE         every question about every block, into FILE
 *   info FILE        what an allocation takes and a free gives back
 *   transport FILE   what asks for physical pages, on blocks of its own
 *   sync NAME VALUE  set SYNC_MEMOPS on a block of the first set, or "opened"
 *   tokens           ask for P2P tokens, singly and among others
 *   race, end        a thread asks without rest; how often, and how often it
 *                    got another answer than at first
 *   leave
 *
 * Addresses are relative to the block's base.  Of ids it says which are equal,
 * and whether they are what they were when first asked for.
 */
#include "questions_ask.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- what changes something --------------------------------------------- */

static CUresult do_info(const char *path)
{
	size_t left[3], all;
	CUdeviceptr p;

	out = fopen(path, "we");
	if (!out)
		return CUDA_ERROR_FILE_NOT_FOUND;
	/* What earlier questions have left to be freed is gone with this. */
	OK(cuMemAlloc(&p, 32 * MIB));
	OK(cuMemFree(p));
	OK(cuMemGetInfo(&left[0], &all));
	OK(cuMemAlloc(&p, 32 * MIB));
	OK(cuMemGetInfo(&left[1], &all));
	OK(cuMemFree(p));
	OK(cuMemGetInfo(&left[2], &all));
	snprintf(where, sizeof(where), "info:");
	line("an allocation took %lld, its free gave back %lld",
	     (long long)(left[0] - left[1]), (long long)(left[2] - left[1]));
	return fclose(out) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static void transport_range(const char *name, CUdeviceptr at, size_t size)
{
	int fd = -1, rc;

	snprintf(where, sizeof(where), "%s:", name);
	rc = cuMemGetHandleForAddressRange(&fd, at, size,
			CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	line("dma-buf: %d %s", rc, fd < 0 ? "none" : "set");
	if (fd >= 0)
		close(fd);
	line("dma-buf, no place: %d", cuMemGetHandleForAddressRange(NULL, at,
			size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void transport_tokens(const char *name, CUdeviceptr at)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens = { 0, 0 };
	int rc = cuPointerGetAttribute(&tokens,
			CU_POINTER_ATTRIBUTE_P2P_TOKENS, at);

	snprintf(where, sizeof(where), "%s:", name);
	line("tokens: %d %s", rc, tokens.p2pToken ? "set" : "0");
}

static void transport_sync(const char *name, CUdeviceptr at)
{
	unsigned value = 2, got;
	int set, get;

	snprintf(where, sizeof(where), "%s:", name);
	while (value--) {
		got = 7;
		set = cuPointerSetAttribute(&value,
				CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
		get = cuPointerGetAttribute(&got,
				CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at + 1);
		line("sync-memops %u: %d, then %d %u", value, set, get, got);
	}
	line("not to be set: %d", cuPointerSetAttribute(&value,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	line("set to nothing: %d", cuPointerSetAttribute(NULL,
			CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
}

static CUresult transport_all(void)
{
	struct block mapped = { "mapped", 0, 2 * MIB, { 0 } };
	CUdeviceptr p[3], pooled[3];
	int i;

	for (i = 0; i < 3; i++)
		OK(cuMemAlloc(&p[i], 4 * MIB));
	transport_range("plain", p[0], 4 * MIB);
	transport_tokens("plain", p[1]);
	transport_sync("plain", p[2]);
	OK(make_pools());
	for (i = 0; i < 3; i++)
		OK(cuMemAllocAsync(&pooled[i], 4 * MIB, NULL));
	transport_range("pool", pooled[0], 4 * MIB);
	transport_tokens("pool", pooled[1]);
	transport_sync("pool", pooled[2]);
	OK(create_and_map(&mapped, 3));
	transport_range("mapped", mapped.base, mapped.size);
	transport_tokens("mapped", mapped.base);
	transport_sync("mapped", mapped.base);
	transport_range("nobody's", 0x200000, 4096);
	transport_tokens("nobody's", 0x200000);
	transport_sync("nobody's", 0x200000);
	return CUDA_SUCCESS;
}

static CUresult do_transport(const char *path)
{
	CUresult rc;

	out = fopen(path, "we");
	if (!out)
		return CUDA_ERROR_FILE_NOT_FOUND;
	rc = transport_all();
	return fclose(out) ? CUDA_ERROR_OPERATING_SYSTEM : rc;
}

static CUresult do_sync(const char *name, unsigned value)
{
	const struct block *b = strcmp(name, opened.name) ? NULL : &opened;
	unsigned got = 7;
	int i;

	for (i = 0; !b && i < BLOCKS; i++)
		if (sets[0][i].name && !strcmp(sets[0][i].name, name))
			b = &sets[0][i];
	if (!b)
		return CUDA_ERROR_NOT_FOUND;
	OK(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				 b->base));
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				 b->base + b->size - 1));
	return got == value ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult do_tokens(char *said)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_P2P_TOKENS,
	};
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	unsigned type;
	void *data[] = { &type, &tokens };
	int one = cuPointerGetAttribute(&tokens, which[1],
					sets[0][PLAIN].base);

	sprintf(said, "one=%d all=%d", one, cuPointerGetAttributes(2, which,
						data, sets[0][PLAIN].base));
	return CUDA_SUCCESS;
}

/* ---- for another process ------------------------------------------------ */

static CUresult do_lend(char *text)
{
	CUipcMemHandle handle;
	size_t i;

	OK(cuIpcGetMemHandle(&handle, sets[0][PLAIN].base));
	for (i = 0; i < sizeof(handle); i++)
		sprintf(text + 2 * i, "%02x",
			(unsigned)((unsigned char *)&handle)[i]);
	return CUDA_SUCCESS;
}

static CUresult do_open(const char *text)
{
	CUipcMemHandle handle;
	unsigned byte;
	size_t i;

	for (i = 0; i < sizeof(handle); i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return CUDA_ERROR_INVALID_VALUE;
		((unsigned char *)&handle)[i] = (unsigned char)byte;
	}
	return cuIpcOpenMemHandle(&opened.base, handle,
				  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* ---- without rest ------------------------------------------------------- */

#define ANSWERS (BLOCKS * 3 * (COUNT + 4))

static pthread_t racer;
static atomic_bool over;
static unsigned long rounds, changed;
static char first_change[80];

/* All that may not change. */
static size_t gather(CUdeviceptr at, uint64_t *to)
{
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUdeviceptr base = 0;
	unsigned long long flags = 0;
	uint64_t value[8];
	size_t size = 0, i;

	for (i = 0; i < COUNT; i++) {
		memset(value, 0, sizeof(value));
		*to++ = (uint64_t)cuPointerGetAttribute(value,
			(CUpointer_attribute)attributes[i].which, at) << 56 ^
			value[0];
	}
	*to++ = (uint64_t)cuMemGetAddressRange(&base, &size, at);
	*to++ = base;
	*to++ = size;
	*to++ = (uint64_t)cuMemGetAccess(&flags, &place, at) << 8 | flags;
	return COUNT + 4;
}

/* What is freed may be anybody's by now. */
static size_t gather_all(uint64_t *to)
{
	const struct block *b;
	size_t n = 0;

	for (b = sets[0]; b <= &sets[0][REGISTERED]; b++) {
		n += gather(b->base, to + n);
		n += gather(b->base + b->size / 2, to + n);
		n += gather(b->base + b->size - 1, to + n);
	}
	return n;
}

static void note_change(size_t at, uint64_t was, uint64_t is)
{
	size_t one = COUNT + 4, what = at % one;

	if (!changed++)
		snprintf(first_change, sizeof(first_change),
			 "%s/%zu/%s:%#llx-%#llx",
			 sets[0][at / one / 3].name, at / one % 3,
			 what < COUNT ? attributes[what].name : "range",
			 (unsigned long long)was, (unsigned long long)is);
}

static void *ask_on(void *unused)
{
	static uint64_t at_first[ANSWERS], now[ANSWERS];
	size_t n, i;

	CK(cuCtxSetCurrent(drv.context));
	gather_all(at_first);
	while (!atomic_load(&over)) {
		n = gather_all(now);
		for (i = 0; i < n; i++)
			if (now[i] != at_first[i])
				note_change(i, at_first[i], now[i]);
		rounds++;
	}
	return unused;
}

/* ---- commands ----------------------------------------------------------- */

static CUresult obey(const char *verb, const char *word, const char *more,
		     char *said)
{
	if (!strcmp(verb, "make"))
		return do_make();
	if (!strcmp(verb, "drop"))
		return do_drop();
	if (!strcmp(verb, "ask"))
		return do_ask(word);
	if (!strcmp(verb, "info"))
		return do_info(word);
	if (!strcmp(verb, "transport"))
		return do_transport(word);
	if (!strcmp(verb, "sync"))
		return do_sync(word, (unsigned)atoi(more));
	if (!strcmp(verb, "tokens"))
		return do_tokens(said);
	if (!strcmp(verb, "lend"))
		return do_lend(said);
	if (!strcmp(verb, "open"))
		return do_open(word);
	if (!strcmp(verb, "race"))
		return pthread_create(&racer, NULL, ask_on, NULL) ?
		       CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
	if (!strcmp(verb, "end")) {
		atomic_store(&over, true);
		pthread_join(racer, NULL);
		sprintf(said, "rounds=%lu changed=%lu %s", rounds, changed,
			first_change);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_UNKNOWN;
}

int main(void)
{
	char text[512], verb[16], word[300], more[16], said[256];
	CUresult rc;

	drv_open();
	strangers[0].base = (CUdeviceptr)(uintptr_t)stack_like;
	puts("ok ready");
	fflush(stdout);
	while (fgets(text, sizeof(text), stdin)) {
		verb[0] = word[0] = more[0] = said[0] = '\0';
		if (sscanf(text, "%15s %299s %15s", verb, word, more) < 1)
			continue;
		if (!strcmp(verb, "leave"))
			return 0;
		rc = obey(verb, word, more, said);
		if (rc)
			printf("error %d\n", rc);
		else
			printf("ok %s\n", said);
		fflush(stdout);
	}
	return 0;
}
