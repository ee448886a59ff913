/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill - pages of backups in a file of the folder VSLEEP_SPILL_DIR.
 *
 * One file for the process, without a name, of slots of VS_PAGE bytes; it is
 * there while a slot is taken.  A forked child does not have it.  Called by
 * threads of ours only: where the file gets larger than RLIMIT_FSIZE the
 * kernel sends SIGXFSZ, which they block.  Rank POOL.
 */
#ifndef VS_BACKUP_SPILL_H
#define VS_BACKUP_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backup/page_math.h"
#include "base/why.h"

/* A folder is set, and can be used; if it cannot the log says so, once. */
bool vs_spill_wanted(void);

/* Take @count slots, or none.  VS_NOHOST: the folder cannot be used, or lacks
 * the space, which is claimed where the file system can do that. */
enum vs_status vs_spill_take(size_t count, uint32_t *slots,
			     struct vs_why *why);

/* They and their space are free again. */
void vs_spill_free(const uint32_t *slots, size_t count);

/* Of a slot that is taken, from its beginning, VS_PAGE bytes at most; slots
 * may be used side by side.  What is aligned to memory pages bypasses the
 * page cache where the file system can do that.  VS_NOHOST: it failed, and
 * may be tried again. */
enum vs_status vs_spill_write(uint32_t slot, const void *data, size_t size,
			      struct vs_why *why);
enum vs_status vs_spill_read(uint32_t slot, void *data, size_t size,
			     struct vs_why *why);

/* Bytes of the slots that are taken now. */
size_t vs_spill_bytes(void);

#endif
