/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/retain.h"
#include "sleep/pass.h"
#include "sleep/prepare.h"
#include "backup/host_budget.h"
#include "backup/store.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "memory/segment.h"

#include <stddef.h>

#define INTERVAL 0.25	/* seconds between two looks */

/* Out of its chunk: the next one from segment *index on. */
static struct vs_backup *take_next(size_t *index, bool all)
{
	struct vs_backup *backup = NULL;
	struct vs_segment *s;
	size_t k;

	vs_lock_take(&vs_segment_lock);
	for (; !backup && *index < vs_segment_count(); (*index)++) {
		s = vs_segment_at(*index);
		if ((s->moving && !all) || vs_pass_holds(s))
			continue;
		for (k = 0; !backup && k < s->chunk_count; k++) {
			if (s->chunks[k].state != VS_CHUNK_RESIDENT)
				continue;
			backup = s->chunks[k].backup;
			s->chunks[k].backup = NULL;
		}
		if (backup)
			break;
	}
	vs_lock_drop(&vs_segment_lock);
	return backup;
}

/* Segments that come and go meanwhile may hide one, so until there is none. */
uint64_t vs_retain_trim(bool all)
{
	struct vs_backup *backup;
	uint64_t held = 0;
	size_t index;
	bool any;

	vs_prepare_halt();
	do {
		any = false;
		index = 0;
		while ((backup = take_next(&index, all))) {
			any = true;
			held += vs_store_held(backup);
			vs_store_drop(backup);
		}
	} while (any);
	return held;
}

void vs_retain_settle(void)
{
	if (vs_config.retain == VS_CONFIG_NO)
		vs_retain_trim(true);
}

/* Some chunk that is awake has one. */
static bool retains(void)
{
	const struct vs_segment *s;
	bool found = false;
	size_t i, k;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; !found && i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (k = 0; !found && k < s->chunk_count; k++)
			found = s->chunks[k].state == VS_CHUNK_RESIDENT &&
				s->chunks[k].backup;
	}
	vs_lock_drop(&vs_segment_lock);
	return found;
}

double vs_retain_watch(void)
{
	uint64_t held;

	if (vs_config.retain != VS_CONFIG_AUTO || !retains())
		return 0;
	if (!vs_host_budget_scarce())
		return vs_lock_now() + INTERVAL;
	held = vs_retain_trim(true);
	vs_log_info("host memory is scarce: %llu MiB of backups given back",
		    (unsigned long long)(held >> 20));
	return 0;
}
