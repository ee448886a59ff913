/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/backup.h"
#include "backup/spill.h"

#include <stdlib.h>

static _Atomic size_t stored;

struct vs_backup *vs_backup_make(size_t size)
{
	size_t count = (size + VS_PAGE - 1) / VS_PAGE;
	struct vs_backup *backup;

	backup = calloc(1, sizeof(*backup) + count * sizeof(backup->pages[0]));
	if (!backup)
		return NULL;
	backup->size = size;
	backup->count = count;
	return backup;
}

size_t vs_backup_page_size(const struct vs_backup *backup, size_t i)
{
	size_t rest = backup->size - i * VS_PAGE;

	return rest < VS_PAGE ? rest : VS_PAGE;
}

void vs_backup_place(struct vs_backup *backup, size_t i,
		     struct vs_host_block *block, uint32_t index)
{
	struct vs_page *page = &backup->pages[i];
	size_t size = vs_backup_page_size(backup, i);

	page->block = block;
	page->index = index;
	page->place = VS_PLACE_HOST;
	atomic_fetch_add(&backup->held, size);
	atomic_fetch_add(&stored, size);
}

void vs_backup_place_in_file(struct vs_backup *backup, size_t i,
			     uint32_t slot)
{
	backup->pages[i].index = slot;
	backup->pages[i].place = VS_PLACE_FILE;
}

void vs_backup_clear(struct vs_backup *backup, size_t i)
{
	struct vs_page *page = &backup->pages[i];
	size_t size = vs_backup_page_size(backup, i);

	if (page->place == VS_PLACE_FILE)
		vs_spill_free(&page->index, 1);
	if (page->place == VS_PLACE_HOST) {
		atomic_fetch_sub(&backup->held, size);
		atomic_fetch_sub(&stored, size);
		if (page->block->batch)
			page->block->used &= ~((uint32_t)1 << page->index);
		else
			vs_pages_drop(page->block, page->index);
	}
	*page = (struct vs_page){ .place = VS_PLACE_NONE };
}

void vs_store_drop(struct vs_backup *backup)
{
	size_t i;

	if (!backup)
		return;
	for (i = 0; i < backup->count; i++)
		vs_backup_clear(backup, i);
	free(backup);
}

size_t vs_store_need(const struct vs_backup *backup, size_t size)
{
	size_t need = (size + VS_PAGE - 1) / VS_PAGE * VS_PAGE, i;

	for (i = 0; backup && i < backup->count; i++)
		if (vs_backup_placed(&backup->pages[i]))
			need -= VS_PAGE;
	return need;
}

size_t vs_store_held(const struct vs_backup *backup)
{
	return backup ? atomic_load(&backup->held) : 0;
}

size_t vs_store_bytes(void)
{
	return atomic_load(&stored);
}
