/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory/ipc.h"
#include "base/config.h"
#include "base/log.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define PASSING (4 * VS_IPC_PARTS)

_Static_assert(sizeof(struct vs_ipc_handle) == sizeof(CUipcMemHandle),
	       "a handle is what the program passes on");

const struct vs_ipc_way *vs_ipc_way;

static _Atomic int passing[PASSING];	/* plus one: 0 is free */

/* Sizes that stay native, both ends included; low > high: none. */
static size_t native_low = 1, native_high;

static bool parse_range(const char *text, size_t *low, size_t *high)
{
	char first[32];
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);

	if (len >= sizeof(first))
		return false;
	memcpy(first, text, len);
	first[len] = '\0';
	*high = SIZE_MAX;
	return vs_config_bytes(first, low) &&
	       (!dash || vs_config_bytes(dash + 1, high)) && *low <= *high;
}

void vs_ipc_configure(const char *setting)
{
	native_low = 1;
	native_high = 0;
	if (!strcmp(setting, "auto"))
		return;
	if (!strcmp(setting, "native")) {
		native_low = 0;
		native_high = SIZE_MAX;
		return;
	}
	if (!strncmp(setting, "native:", 7) &&
	    parse_range(setting + 7, &native_low, &native_high))
		return;
	native_low = 1;
	native_high = 0;
	vs_log_warn("VSLEEP_IPC=%s is none of auto, native, native:SIZE, "
		    "native:SIZE-SIZE; using auto", setting);
	vs_config_reject("VSLEEP_IPC", "auto");
}

bool vs_ipc_native(size_t size)
{
	return size >= native_low && size <= native_high;
}

void vs_ipc_close_parts(struct vs_ipc_loan *loan)
{
	unsigned i;

	for (i = 0; i < loan->count; i++)
		if (loan->parts[i].fd >= 0)
			vs_ipc_close_fd(loan->parts[i].fd);
	loan->count = 0;
}

/* One that finds no room is closed by nobody else, as if it were not noted. */
void vs_ipc_note_fd(int fd)
{
	int i, none = 0;

	for (i = 0; i < PASSING; i++, none = 0)
		if (atomic_compare_exchange_strong(&passing[i], &none, fd + 1))
			return;
}

/* Forgotten before: the number may be another file's as soon as it is free. */
void vs_ipc_close_fd(int fd)
{
	int i, noted = fd + 1;

	for (i = 0; i < PASSING; i++, noted = fd + 1)
		if (atomic_compare_exchange_strong(&passing[i], &noted, 0))
			break;
	close(fd);
}

void vs_ipc_forget_fds(void)
{
	int i, fd;

	for (i = 0; i < PASSING; i++) {
		fd = atomic_exchange(&passing[i], 0) - 1;
		if (fd >= 0)
			close(fd);
	}
}
