/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc_export.h"
#include "memory/ipc_peer.h"
#include "memory/vmm.h"
#include "base/context.h"
#include "base/device.h"
#include "base/driver.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE 4026531836u	/* PROC_PID_INIT_INO of the kernel */

static unsigned char own_key[VS_IPC_KEY];	/* under vs_segment_lock */
static bool have_key;			/* likewise */
static atomic_bool refused;

/* Lock held. */
static bool make_key(void)
{
	if (!have_key)
		have_key = getrandom(own_key, sizeof(own_key),
				     GRND_NONBLOCK) == sizeof(own_key);
	return have_key;
}

static uint64_t own_space(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NAMESPACE)
		return 0;
	return st.st_ino;
}

/* Lock held. */
static void write_handle(const struct vs_block *block,
			 struct vs_ipc_handle *out)
{
	struct vs_segment *s = block->segment;

	if (!s->lend_id)
		s->lend_id = vs_segment_new_id();
	memcpy(out->magic, VS_IPC_MAGIC, sizeof(out->magic));
	memcpy(out->key, own_key, sizeof(out->key));
	out->segment = s->lend_id;
	out->block = block->id;
	out->offset = block->base - s->base;
}

static CUresult refuse(void)
{
	if (!atomic_exchange(&refused, true))
		vs_log_warn("CUDA IPC handles of memory that can sleep are "
			    "not to be had here: start this process with "
			    "VSLEEP_IPC=native");
	return CUDA_ERROR_INVALID_VALUE;
}

bool vs_ipc_refused(void)
{
	return atomic_load(&refused);
}

static void say_whose(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		vs_log_info("the CUDA IPC handles of this process can be "
			    "opened by processes with vsleep; for others, "
			    "start it with VSLEEP_IPC=native");
}

CUresult vs_ipc_get(CUipcMemHandle *out, CUdeviceptr address)
{
	struct vs_ipc_handle handle = { .pid = getpid() };
	struct vs_block *block;
	bool ours = false, done = false;

	handle.space = own_space();
	vs_lock_take(&vs_segment_lock);
	block = out ? vs_segment_find_inside(address) : NULL;
	/* Native pools have no such handles either. */
	if (block && !block->pool) {
		ours = true;
		done = vs_vmm_shareable(block->segment->device) && make_key();
		if (done)
			write_handle(block, &handle);
	}
	vs_lock_drop(&vs_segment_lock);
	if (!ours)
		return vs_real.cuIpcGetMemHandle(out, address);
	if (!done)
		return refuse();
	say_whose();
	memcpy(out, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

bool vs_ipc_own(const struct vs_ipc_handle *handle)
{
	bool own;

	vs_lock_take(&vs_segment_lock);
	own = have_key && !memcmp(handle->key, own_key, sizeof(own_key));
	vs_lock_drop(&vs_segment_lock);
	return own;
}

/* What one message lends. */
struct lending {
	struct vs_segment *segment;	/* pinned */
	CUmemGenericAllocationHandle handles[VS_IPC_PARTS];
};

static bool key_fits(const struct vs_ipc_handle *handle)
{
	return have_key && !memcmp(handle->key, own_key, sizeof(own_key));
}

static struct vs_block *find_block(const struct vs_ipc_handle *handle)
{
	struct vs_segment *s = vs_ipc_peer_segment(handle->segment);
	struct vs_block *block;

	if (!s || handle->offset >= s->size)
		return NULL;
	block = vs_segment_find(s->base + handle->offset);
	return block && block->id == handle->block ? block : NULL;
}

static bool touches(const struct vs_chunk *c, const struct vs_block *block)
{
	CUdeviceptr from = block->base - block->segment->base;

	return c->offset < from + block->size && from < c->offset + c->size;
}

/* Lock held.  What is added to the peer's loans stays on failure: the caller
 * takes it back. */
static enum vs_status pick(struct vs_ipc_peer *peer, struct vs_block *block,
			   unsigned first, struct lending *l,
			   struct vs_ipc_loan *out, struct vs_why *why)
{
	struct vs_segment *s = block->segment;
	struct vs_chunk *c;
	bool fresh;

	for (c = s->chunks; c < s->chunks + s->chunk_count; c++) {
		if (!touches(c, block))
			continue;
		if (out->chunks++ < first || out->count == VS_IPC_PARTS)
			continue;
		if (c->state != VS_CHUNK_RESIDENT)
			return vs_why_set(why, VS_NOMEM, "the memory sleeps");
		if (!vs_ipc_peer_add(peer, s, c, &fresh))
			return vs_why_set(why, VS_NOHOST, "no memory");
		l->handles[out->count] = c->handle;
		out->parts[out->count++] = (struct vs_ipc_part){
			.offset = c->offset, .size = c->size, .fd = -1,
			.fresh = fresh,
		};
	}
	return VS_OK;
}

static void unpick(struct vs_ipc_peer *peer, const struct lending *l,
		   const struct vs_ipc_loan *out)
{
	unsigned k;

	for (k = 0; k < out->count; k++)
		if (out->parts[k].fresh)
			vs_ipc_peer_drop(peer, l->segment->lend_id,
					 out->parts[k].offset,
					 out->parts[k].offset + 1);
}

static enum vs_status begin(struct vs_ipc_peer *peer,
			    const struct vs_ipc_handle *handle, unsigned first,
			    struct lending *l, struct vs_ipc_loan *out,
			    struct vs_why *why)
{
	struct vs_block *block;
	struct vs_device device;
	enum vs_status st;

	block = key_fits(handle) ? find_block(handle) : NULL;
	if (!block)
		return vs_why_set(why, VS_REFUSED, "there is no such "
				  "allocation");
	/* Else each of two would wait for the other to wake. */
	if (block->segment->moving && vs_ipc_peer_awaited(peer))
		return vs_why_set(why, VS_NOMEM, "the memory sleeps");
	if (block->segment->moving)
		return vs_why_set(why, VS_BUSY, "the memory is on the move");
	l->segment = block->segment;
	vs_device_read(l->segment->device, &device);
	memcpy(out->device, device.uuid, sizeof(out->device));
	out->segment_size = l->segment->size;
	out->size = block->size;
	st = pick(peer, block, first, l, out, why);
	if (st)
		unpick(peer, l, out);
	else
		vs_segment_pin(l->segment);
	return st;
}

static enum vs_status export(const struct lending *l, struct vs_ipc_loan *out,
			     struct vs_why *why)
{
	CUstreamCaptureMode mode = vs_context_relax();
	CUresult rc = CUDA_SUCCESS;
	char error[96];
	unsigned i;

	for (i = 0; !rc && i < out->count; i++) {
		rc = vs_real.cuMemExportToShareableHandle(
			&out->parts[i].fd, l->handles[i],
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (rc) {
			out->parts[i].fd = -1;
			continue;
		}
		vs_ipc_note_fd(out->parts[i].fd);
		fcntl(out->parts[i].fd, F_SETFD, FD_CLOEXEC);
	}
	vs_context_unrelax(mode);
	if (!rc)
		return VS_OK;
	return vs_why_set(why, VS_CUDA, "export: %s",
			  vs_driver_error(rc, error, sizeof(error)));
}

enum vs_status vs_ipc_lend(struct vs_ipc_peer *peer,
			   const struct vs_ipc_handle *handle, unsigned first,
			   struct vs_ipc_loan *out, struct vs_why *why)
{
	struct lending l = { .segment = NULL };
	enum vs_status st;

	memset(out, 0, sizeof(*out));
	vs_lock_take(&vs_segment_lock);
	st = begin(peer, handle, first, &l, out, why);
	vs_lock_drop(&vs_segment_lock);
	if (st) {
		out->count = 0;
		return st;
	}
	st = export(&l, out, why);
	vs_lock_take(&vs_segment_lock);
	if (st)
		unpick(peer, &l, out);
	vs_segment_unpin(l.segment);
	vs_lock_drop(&vs_segment_lock);
	if (st)
		vs_ipc_close_parts(out);
	return st;
}

enum vs_status vs_ipc_take_back(struct vs_ipc_peer *peer,
				const struct vs_ipc_handle *handle,
				uint64_t from, uint64_t to,
				struct vs_why *why)
{
	enum vs_status st = VS_OK;

	vs_lock_take(&vs_segment_lock);
	if (!key_fits(handle))
		st = vs_why_set(why, VS_REFUSED, "there is no such allocation");
	else
		vs_ipc_peer_drop(peer, handle->segment, from, to);
	vs_lock_drop(&vs_segment_lock);
	return st;
}
