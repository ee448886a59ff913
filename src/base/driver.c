/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The table seen as an array: one pointer a row, in the order of the rows. */
typedef void *row_pointer __attribute__((may_alias));
_Static_assert(sizeof(struct vs_driver) == VS_ROW_COUNT * sizeof(void *),
	       "a row is one pointer");

typedef void *(*dlsym_function)(void *handle, const char *name);

struct vs_driver vs_real;
struct vs_driver_slot vs_driver_slots[VS_DRIVER_SLOTS];

static const char *const names[VS_ROW_COUNT] = {
#define X(name) #name,
#include "base/driver.def"
#undef X
};

static _Atomic bool filled;
static _Atomic(void *) libcuda;
static _Atomic(dlsym_function) real_dlsym;

/* Rows that the driver has, by pointer. */
static _Atomic uint16_t order[VS_ROW_COUNT];
static _Atomic size_t order_count;

/* Rows that were handed out with a pointer that is not ours to know. */
static _Atomic bool escaped[VS_ROW_COUNT];
static _Atomic unsigned long escaped_unnamed;

/* The bounds of the object that this code is linked into. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static row_pointer *row_at(int row)
{
	return (row_pointer *)&vs_real + row;
}

static void *row_get(int row)
{
	return __atomic_load_n(row_at(row), __ATOMIC_ACQUIRE);
}

static bool in_this_object(const void *pointer)
{
	uintptr_t p = (uintptr_t)pointer;

	return p >= (uintptr_t)__ehdr_start && p < (uintptr_t)_end;
}

static dlsym_function find_dlsym(void)
{
	static const char *const versions[] = {
		"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17",
	};
	dlsym_function found = atomic_load_explicit(&real_dlsym,
						    memory_order_acquire);
	size_t i;

	for (i = 0; !found && i < sizeof(versions) / sizeof(*versions); i++)
		found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym",
					       versions[i]);
	if (i > 1)
		dlerror();
	if (found)
		atomic_store_explicit(&real_dlsym, found,
				      memory_order_release);
	return found;
}

void *vs_driver_dlsym(void *handle, const char *name)
{
	dlsym_function function = find_dlsym();

	return function ? function(handle, name) : NULL;
}

/*
 * A slot goes from NULL to its value once and is never written again, so that
 * a thread which fills late does not write what others already read.
 */
static void fill_rows(void *handle)
{
	bool missing = false;
	void *empty, *found;
	int row;

	for (row = 0; row < VS_ROW_COUNT; row++) {
		if (row_get(row))
			continue;
		found = vs_driver_dlsym(handle, names[row]);
		if (!found)
			missing = true;
		if (!found || in_this_object(found))
			continue;
		empty = NULL;
		__atomic_compare_exchange_n(row_at(row), &empty, found, false,
					    __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
	}
	if (missing)
		dlerror();
}

/* A row's place is the number of rows before it: several threads may count at
 * once, and none needs memory to sort in. */
static void fill_order(void)
{
	size_t place, count = 0;
	void *pointer, *other;
	int row, i;

	for (row = 0; row < VS_ROW_COUNT; row++) {
		pointer = row_get(row);
		if (!pointer)
			continue;
		count++;
		place = 0;
		for (i = 0; i < VS_ROW_COUNT; i++) {
			other = row_get(i);
			place += other && (other < pointer ||
					   (other == pointer && i < row));
		}
		atomic_store_explicit(&order[place], (uint16_t)row,
				      memory_order_relaxed);
	}
	atomic_store_explicit(&order_count, count, memory_order_relaxed);
}

/* The reference is kept: the table must not outlive the library. */
static bool fill(void)
{
	int saved = errno;
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (handle) {
		fill_rows(handle);
		fill_order();
		atomic_store_explicit(&libcuda, handle, memory_order_release);
		atomic_store_explicit(&filled, true, memory_order_release);
	} else {
		dlerror();
	}
	errno = saved;
	return handle != NULL;
}

bool vs_driver_load(void)
{
	if (atomic_load_explicit(&filled, memory_order_acquire))
		return true;
	return fill();
}

void *vs_driver_handle(void)
{
	return atomic_load_explicit(&libcuda, memory_order_acquire);
}

int vs_driver_find(const void *pointer)
{
	size_t low = 0, high = atomic_load_explicit(&order_count,
						    memory_order_acquire);
	uintptr_t wanted = (uintptr_t)pointer;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int row = atomic_load_explicit(&order[middle],
					       memory_order_relaxed);
		uintptr_t here = (uintptr_t)row_get(row);

		if (here == wanted)
			return row;
		if (here < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

int vs_driver_row(const char *name)
{
	int low = 0, high = VS_ROW_COUNT;

	while (low < high) {
		int middle = low + (high - low) / 2;
		int order_of = strcmp(name, names[middle]);

		if (!order_of)
			return middle;
		if (order_of > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

const char *vs_driver_name(int row)
{
	return names[row];
}

void vs_driver_unhooked(const char *name)
{
	int row = vs_driver_row(name);

	if (row < 0)
		atomic_fetch_add(&escaped_unnamed, 1);
	else
		atomic_store(&escaped[row], true);
}

unsigned long vs_driver_unhooked_count(char *name, size_t size)
{
	unsigned long count = 0, unnamed = atomic_load(&escaped_unnamed);
	const char *first = unnamed ? "more new entry points" : "";
	int i;

	for (i = VS_DRIVER_SLOTS - 1; i >= 0; i--) {
		struct vs_driver_slot *slot = &vs_driver_slots[i];

		if (!__atomic_load_n(&slot->calls, __ATOMIC_ACQUIRE))
			continue;
		first = slot->name;
		count++;
	}
	for (i = VS_ROW_COUNT - 1; i >= 0; i--) {
		if (!atomic_load(&escaped[i]))
			continue;
		first = names[i];
		count++;
	}
	snprintf(name, size, "%s", first);
	return count + unnamed;
}

const char *vs_driver_error(CUresult code, char *buf, size_t size)
{
	const char *text = NULL;

	if (!vs_real.cuGetErrorString ||
	    vs_real.cuGetErrorString(code, &text) || !text)
		text = "unknown error";
	snprintf(buf, size, "%s (%d)", text, (int)code);
	return buf;
}

bool vs_driver_sticky(CUresult code)
{
	switch ((int)code) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_CONTAINED:
		return true;
	default:
		return false;
	}
}
