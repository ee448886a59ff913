/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_config sim_config;
struct sim_device sim_device[SIM_DEVICES];
atomic_int sim_state = SIM_FRESH;
__thread struct sim_tls sim_tls;

static pthread_key_t thread_key;
static uint64_t last_tid;		/* under sim_lock */
static unsigned long long last_id;	/* under sim_lock */

CUresult sim_enter(struct sim_entry *entry, bool strict)
{
	int state = atomic_load_explicit(&sim_state, memory_order_acquire);

	/* locks of the parent's other threads may be held for ever here */
	if (state == SIM_FORKED)
		return strict ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
	atomic_fetch_add_explicit(&entry->calls, 1, memory_order_relaxed);
	if (!atomic_load_explicit(&entry->listed, memory_order_relaxed))
		sim_entry_list(entry);
	if (atomic_load_explicit(&sim_fail_armed, memory_order_relaxed)) {
		CUresult rc = sim_fail_check(entry->name);

		if (rc != CUDA_SUCCESS)
			return rc;
	}
	if (!strict)
		return CUDA_SUCCESS;
	if (state == SIM_OVER)
		return CUDA_ERROR_DEINITIALIZED;
	if (state != SIM_READY)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_tls.in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

int sim_guard_begin(void)
{
	pthread_mutex_lock(&sim_lock);
	return 0;
}

void sim_guard_end(int *guard)
{
	(void)guard;
	pthread_mutex_unlock(&sim_lock);
}

static void thread_gone(void *arg)
{
	pthread_mutex_lock(&sim_lock);
	sim_line_thread_gone((uint64_t)(uintptr_t)arg);
	pthread_mutex_unlock(&sim_lock);
}

uint64_t sim_tid(void)
{
	if (sim_tls.tid == 0) {
		sim_tls.tid = ++last_tid;
		pthread_setspecific(thread_key,
				    (void *)(uintptr_t)sim_tls.tid);
	}
	return sim_tls.tid;
}

uint64_t sim_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

unsigned long long sim_next_id(void)
{
	return ++last_id;
}

bool sim_dev_ok(CUdevice dev)
{
	return dev >= 0 && dev < sim_config.devices;
}

static size_t setting(const char *name, size_t otherwise)
{
	const char *text = getenv(name);
	unsigned long long value;
	char *end;
	int shift;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 0);
	switch (toupper((unsigned char)*end)) {
	case 'G': shift = 30; break;
	case 'M': shift = 20; break;
	case 'K': shift = 10; break;
	default: shift = 0;
	}
	if (shift)
		end++;
	if (errno || *end || end == text ||
	    (value << shift) >> shift != value) {
		fprintf(stderr, "sim: %s=%s is no size (try 512M)\n", name,
			text);
		abort();
	}
	return (size_t)(value << shift);
}

static void read_config(void)
{
	size_t devices = setting("VSLEEP_SIM_DEVICES", 1);
	int i;

	sim_config.devices = devices > SIM_DEVICES ? SIM_DEVICES :
			     (int)devices;
	sim_config.memory = setting("VSLEEP_SIM_MEMORY", (size_t)4 << 30);
	sim_config.granularity = setting("VSLEEP_SIM_GRANULARITY", SIM_BLOCK);
	sim_config.dirty = setting("VSLEEP_SIM_DIRTY", 1) != 0;
	sim_config.copy_mibps = setting("VSLEEP_SIM_COPY_MIBPS", 0);
	sim_config.context = setting("VSLEEP_SIM_CONTEXT", 0);
	sim_config.queue = setting("VSLEEP_SIM_QUEUE", 0);
	sim_config.no_vmm = setting("VSLEEP_SIM_NO_VMM", SIM_DEVICES);
	sim_config.still = setting("VSLEEP_SIM_STILL", SIM_DEVICES);
	sim_config.direct = setting("VSLEEP_SIM_DIRECT", SIM_DEVICES);
	sim_config.share = getenv("VSLEEP_SIM_SHARE");
	for (i = 0; i < SIM_DEVICES; i++)
		if (sim_device[i].limit == 0)
			sim_device[i].limit = sim_config.memory;
}

SIM_API(cuInit, (unsigned int flags))
{
	SIM_ENTER_ANY(cuInit);
	switch (atomic_load(&sim_state)) {
	case SIM_READY:
		break;
	case SIM_FRESH:
		if (flags)
			return CUDA_ERROR_INVALID_VALUE;
		read_config();
		if (sim_config.devices == 0)
			return CUDA_ERROR_NO_DEVICE;
		sim_phys_open();
		if (sim_config.share && *sim_config.share)
			sim_share_open(sim_config.share);
		atomic_store(&sim_state, SIM_READY);
		break;
	case SIM_OVER:
		return CUDA_ERROR_DEINITIALIZED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM_EXPORT void sim_limit(int dev, size_t bytes)
{
	pthread_mutex_lock(&sim_lock);
	if (dev >= 0 && dev < SIM_DEVICES)
		sim_device[dev].limit = bytes;
	pthread_mutex_unlock(&sim_lock);
}

static size_t count(int dev, const size_t *of)
{
	size_t bytes = 0;

	pthread_mutex_lock(&sim_lock);
	if (dev >= 0 && dev < SIM_DEVICES) {
		sim_export_settle();
		sim_used_by_all(dev);
		bytes = *of;
	}
	pthread_mutex_unlock(&sim_lock);
	return bytes;
}

SIM_EXPORT size_t sim_used(int dev)
{
	return count(dev, &sim_device[dev].used);
}

SIM_EXPORT size_t sim_reserved(int dev)
{
	return count(dev, &sim_device[dev].reserve);
}

SIM_EXPORT void sim_reset(void)
{
	sim_hold(0);
	sim_fail_reset();
	pthread_mutex_lock(&sim_lock);
	if (atomic_load(&sim_state) == SIM_READY) {
		sim_ctx_reset();
		sim_pool_reset();
		sim_vmm_reset();
		sim_mem_reset();
		sim_share_close();
		sim_phys_close();
	}
	sim_kernel_reset();
	sim_ledger_reset();
	memset(sim_device, 0, sizeof(sim_device));
	memset(sim_tls.stack, 0, sizeof(sim_tls.stack));
	sim_tls.depth = 0;
	sim_tls.mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	if (atomic_load(&sim_state) == SIM_READY)
		atomic_store(&sim_state, SIM_FRESH);
	pthread_mutex_unlock(&sim_lock);
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&sim_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&sim_lock);
}

static void fork_child(void)
{
	if (atomic_load(&sim_state) != SIM_FRESH)
		atomic_store(&sim_state, SIM_FORKED);
	pthread_mutex_unlock(&sim_lock);
}

__attribute__((constructor)) static void load(void)
{
	const char *fail = getenv("VSLEEP_SIM_FAIL");

	pthread_key_create(&thread_key, thread_gone);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (fail && *fail)
		sim_fail_parse(fail);
}

__attribute__((destructor)) static void unload(void)
{
	const char *path = getenv("VSLEEP_SIM_LEDGER");

	if (atomic_load(&sim_state) != SIM_READY)
		return;
	pthread_mutex_lock(&sim_lock);
	if (path && *path)
		sim_ledger_write(path);
	sim_share_close();
	atomic_store(&sim_state, SIM_OVER);
	pthread_mutex_unlock(&sim_lock);
}
