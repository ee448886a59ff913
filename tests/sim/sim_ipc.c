/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy IPC: a handle names a process, its memory file and a stretch of it. */
#include "sim_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct ipc {
	char magic[8];
	int pid;
	int fd;
	int dev;
	off_t off;		/* of pages, and of the allocation in them */
	size_t pages;
	size_t inside;
	size_t len;
};

static const char magic[8] = "simipc1";

_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "fits");

SIM_API(cuIpcGetMemHandle, (CUipcMemHandle *out, CUdeviceptr p))
{
	struct sim_range *r;
	struct sim_ctx *ctx;
	struct ipc h = { .pid = getpid(), .fd = sim_phys_fd() };

	SIM_ENTER(cuIpcGetMemHandle);
	SIM_TRY(sim_ctx_current(&ctx));
	r = sim_range_at(p);
	if (!out || !r || r->kind != SIM_NATIVE || r->freeing)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(h.magic, magic, sizeof(magic));
	h.dev = r->dev;
	h.off = r->off & ~(off_t)(SIM_BLOCK - 1);
	h.pages = r->physical ? r->physical : SIM_BLOCK;
	h.inside = (size_t)(r->off - h.off);
	h.len = r->span.len;
	memset(out, 0, sizeof(*out));
	memcpy(out, &h, sizeof(h));
	return CUDA_SUCCESS;
}

static CUresult ipc_open(CUdeviceptr *out, const CUipcMemHandle *handle,
			 unsigned flags)
{
	struct sim_range *r;
	struct sim_ctx *ctx;
	struct ipc h;
	uintptr_t base;
	char path[48];
	bool ok;
	int fd;

	SIM_TRY(sim_ctx_current(&ctx));
	memcpy(&h, handle, sizeof(h));
	if (!out || (flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    memcmp(h.magic, magic, sizeof(magic)) != 0 || !sim_dev_ok(h.dev))
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h.pid, h.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	base = sim_space_new(h.pages, SIM_BLOCK, 0);
	ok = base && sim_space_map(base, h.pages, fd, h.off, 3);
	close(fd);
	r = ok ? sim_range_new(base + h.inside, h.len, SIM_IPC) : NULL;
	if (!r) {
		if (base)
			sim_space_free(base, h.pages);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r->physical = h.pages;
	r->dev = h.dev;
	r->ctx = ctx;
	*out = r->span.base;
	return CUDA_SUCCESS;
}

SIM_SAME(cuIpcOpenMemHandle,
	 (CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags),
	 ipc_open(out, &handle, flags))
SIM_SAME(cuIpcOpenMemHandle_v2,
	 (CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags),
	 ipc_open(out, &handle, flags))

void sim_ipc_drop(struct sim_range *r)
{
	sim_space_free(r->span.base & ~(SIM_BLOCK - 1), r->physical);
	sim_range_drop(r);
}

SIM_API(cuIpcCloseMemHandle, (CUdeviceptr p))
{
	struct sim_range *r;
	struct sim_ctx *ctx;

	SIM_ENTER(cuIpcCloseMemHandle);
	r = sim_range_at(p);
	if (!r || r->kind != SIM_IPC || r->span.base != p || r->freeing) {
		sim_bad("cuIpcCloseMemHandle of %#llx, not opened", p);
		return CUDA_ERROR_INVALID_VALUE;
	}
	ctx = r->ctx;
	r->freeing = true;
	ctx->pins++;
	sim_ctx_wait(ctx);
	ctx->pins--;
	sim_ipc_drop(r);
	sim_wake();
	return CUDA_SUCCESS;
}
