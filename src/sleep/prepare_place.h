/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare_place - what prepare keeps in a context: a stream and the kernel that
 * hashes, with its buffers.
 *
 * They go with the context, or at rest: to free pinned memory may wait for the
 * device.  Operation thread only.
 */
#ifndef VS_SLEEP_PREPARE_PLACE_H
#define VS_SLEEP_PREPARE_PLACE_H

#include "backup/page_hash.h"
#include "base/context.h"

struct vs_prepare_place {
	unsigned long serial;		/* of the context; 0: free */
	CUstream stream;		/* non-blocking */
	struct vs_page_hash *hash;	/* for a slice */
};

/* That of @context, which is pinned and current.  VS_BUSY: a capture runs,
 * which loading the kernel may break. */
enum vs_status vs_prepare_place_find(struct vs_context *context,
				struct vs_prepare_place **out,
				struct vs_why *why);

/* All go.  Nothing is under way. */
void vs_prepare_place_close(void);

#endif
