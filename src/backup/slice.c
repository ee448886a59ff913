/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/slice.h"
#include "backup/backup.h"
#include "backup/host_pool.h"
#include "backup/pages.h"
#include "base/driver.h"

/* Of slice->todo: the backup has the bytes; they are zero, and their place goes
 * back; they are copied; they would be, but there is no place for them. */
enum { DONE, ZERO, COPY, LEFT };

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static enum vs_status failed(const struct vs_slice *slice, CUresult rc,
			     struct vs_why *why)
{
	char error[96];

	return vs_why_set(why, VS_CUDA, "prepare of 0x%llx, %zu MiB: %s",
			  slice->item.base, slice->item.size >> 20,
			  vs_driver_error(rc, error, sizeof(error)));
}

size_t vs_slice_looked(const struct vs_backup *backup, unsigned pass)
{
	if (!backup || backup->pass != pass)
		return 0;
	return min(backup->looked * VS_PAGE, backup->size);
}

void vs_slice_skip(struct vs_backup *backup, unsigned pass)
{
	backup->pass = pass;
	backup->looked = backup->count;
}

/* It is its chunk's from the beginning: no save may drop it. */
struct vs_backup *vs_slice_backup(size_t size)
{
	struct vs_backup *backup = vs_backup_make(size);

	if (backup)
		backup->saved = true;
	return backup;
}

static size_t bytes_of(const struct vs_slice *slice, size_t i)
{
	return vs_backup_page_size(slice->item.backup, slice->first + i);
}

enum vs_status vs_slice_look(struct vs_slice *slice, struct vs_why *why)
{
	struct vs_backup *backup = slice->item.backup;
	struct vs_page_span spans[VS_SLICE_PAGES];
	size_t at, i;
	CUresult rc;

	if (backup->pass != slice->pass)
		backup->looked = 0;
	backup->pass = slice->pass;
	slice->first = backup->looked;
	slice->count = min(backup->count - slice->first, VS_SLICE_PAGES);
	slice->lack = slice->left = 0;
	slice->registers = false;
	for (i = 0; i < slice->count; i++) {
		slice->todo[i] = DONE;
		spans[i].base = slice->staging + i * VS_PAGE;
		spans[i].size = bytes_of(slice, i);
	}
	at = slice->first * VS_PAGE;
	rc = vs_real.cuMemcpyDtoDAsync_v2(slice->staging,
					  slice->item.base + at,
					  min(slice->count * VS_PAGE,
					      slice->item.size - at),
					  slice->stream);
	if (rc)
		return failed(slice, rc, why);
	return vs_page_hash_queue(slice->hash, slice->stream, spans,
				  slice->count, why);
}

enum vs_status vs_slice_wait(struct vs_slice *slice, struct vs_why *why)
{
	CUresult rc = vs_real.cuStreamQuery(slice->stream);

	if (rc == CUDA_ERROR_NOT_READY)
		return VS_BUSY;
	if (!rc)
		return VS_OK;
	vs_driver_settle(slice->stream);
	return failed(slice, rc, why);
}

static void make_zero(struct vs_slice *slice, size_t i)
{
	struct vs_backup *backup = slice->item.backup;
	struct vs_page *page = &backup->pages[slice->first + i];

	vs_backup_clear(backup, slice->first + i);
	page->place = VS_PLACE_ZERO;
	vs_backup_set(page, &slice->sums[i]);
}

static void try_place(struct vs_slice *slice, size_t i)
{
	struct vs_backup *backup = slice->item.backup;
	struct vs_page *page = &backup->pages[slice->first + i];
	struct vs_host_block *block;
	uint32_t index;

	if (page->place != VS_PLACE_HOST) {
		if (!vs_pages_take(&block, &index)) {
			slice->lack++;
			return;
		}
		vs_backup_clear(backup, slice->first + i);
		vs_backup_place(backup, slice->first + i, block, index);
	}
	if (!page->block->pinned ||
	    page->block->context != slice->item.context->serial)
		slice->registers = true;
}

/* What has changed and is in a file is left to a sleep, which can write it. */
void vs_slice_judge(struct vs_slice *slice)
{
	const struct vs_page *page;
	size_t i;

	vs_page_hash_collect(slice->hash, slice->sums);
	for (i = 0; i < slice->count; i++) {
		page = &slice->item.backup->pages[slice->first + i];
		if (slice->sums[i].zero) {
			slice->todo[i] = ZERO;
			slice->registers |= page->place == VS_PLACE_HOST;
		} else if (vs_backup_same(page, &slice->sums[i])) {
			slice->todo[i] = DONE;
		} else if (page->place == VS_PLACE_FILE) {
			slice->todo[i] = LEFT;
		} else {
			slice->todo[i] = COPY;
			try_place(slice, i);
		}
	}
}

/* One block that can be pinned, or none: copies to others are not ours. */
static void take_block(struct vs_slice *slice, size_t most)
{
	size_t need = slice->lack * VS_PAGE, room = vs_host_pool_budget();
	struct vs_host_batch *batch;
	struct vs_host_block *block;
	bool good;

	if (need < most)
		need = min(most, VS_HOST_BLOCK);
	need = min(need, room) / VS_PAGE * VS_PAGE;
	if (!need || vs_host_pool_check(need, NULL) ||
	    vs_host_pool_prepare(need, need, slice->item.context, &batch,
				 NULL))
		return;
	block = vs_host_pool_at(batch, 0);
	good = !vs_host_pool_wait(block, NULL) && block->pinned;
	if (good)
		vs_pages_join(block);
	else
		vs_host_pool_limit(batch, 0);
	vs_host_pool_finish(batch);
}

/* A place that cannot be used is given up if nothing is in it yet. */
static void leave(struct vs_slice *slice, size_t i)
{
	if (!slice->item.backup->pages[slice->first + i].valid)
		vs_backup_clear(slice->item.backup, slice->first + i);
	slice->todo[i] = LEFT;
}

void vs_slice_find_room(struct vs_slice *slice, size_t most)
{
	struct vs_page *page;
	size_t i;

	if (slice->lack)
		take_block(slice, most);
	slice->lack = 0;
	for (i = 0; i < slice->count; i++) {
		page = &slice->item.backup->pages[slice->first + i];
		if (slice->todo[i] == ZERO)
			make_zero(slice, i);
		if (slice->todo[i] != COPY)
			continue;
		if (page->place != VS_PLACE_HOST)
			try_place(slice, i);
		if (page->place != VS_PLACE_HOST ||
		    !vs_host_pool_pinned(page->block, slice->item.context))
			leave(slice, i);
	}
}

/* Pages from @i on that are copied together. */
static size_t run_length(const struct vs_slice *slice, size_t i)
{
	const struct vs_page *page = &slice->item.backup->pages[slice->first +
								i];
	size_t n = 1;

	while (i + n < slice->count && slice->todo[i + n] == COPY &&
	       vs_backup_follows(page, n))
		n++;
	return n;
}

static CUresult copy_run(struct vs_slice *slice, size_t i, size_t n)
{
	struct vs_page *page = &slice->item.backup->pages[slice->first + i];
	size_t size = (n - 1) * VS_PAGE + bytes_of(slice, i + n - 1), k;

	for (k = 0; k < n; k++)
		page[k].valid = false;
	return vs_real.cuMemcpyDtoHAsync_v2(page->block->base +
					    page->index * VS_PAGE,
					    slice->staging + i * VS_PAGE,
					    size, slice->stream);
}

bool vs_slice_copy(struct vs_slice *slice, enum vs_status *st,
		   struct vs_why *why)
{
	CUresult rc = CUDA_SUCCESS;
	bool any = false;
	size_t i, n;

	for (i = 0; !rc && i < slice->count; i += n) {
		n = 1;
		if (slice->todo[i] != COPY)
			continue;
		any = true;
		n = run_length(slice, i);
		rc = copy_run(slice, i, n);
	}
	*st = rc ? failed(slice, rc, why) : VS_OK;
	return any;
}

static void commit_page(struct vs_slice *slice, size_t i,
			struct vs_store_meter *meter)
{
	size_t size = bytes_of(slice, i);

	atomic_fetch_add(&meter->done, size);
	switch (slice->todo[i]) {
	case DONE:
		atomic_fetch_add(&meter->unchanged, size);
		break;
	case ZERO:
		make_zero(slice, i);
		atomic_fetch_add(&meter->zero, size);
		break;
	case COPY:
		vs_backup_set(&slice->item.backup->pages[slice->first + i],
			      &slice->sums[i]);
		atomic_fetch_add(&meter->copied, size);
		break;
	case LEFT:
		slice->left += size;
		break;
	}
}

void vs_slice_commit(struct vs_slice *slice, struct vs_store_meter *meter)
{
	size_t i;

	for (i = 0; i < slice->count; i++)
		commit_page(slice, i, meter);
	slice->item.backup->looked = slice->first + slice->count;
}

void vs_slice_undo(struct vs_slice *slice)
{
	struct vs_backup *backup = slice->item.backup;
	size_t i;

	for (i = 0; i < slice->count; i++)
		if (!backup->pages[slice->first + i].valid)
			vs_backup_clear(backup, slice->first + i);
}
