/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "backup/store.h"
#include "backup/look.h"
#include "base/log.h"

/* Where it fails nothing is known of the pages, which is no fault of theirs. */
static enum vs_status look(struct vs_store_lane *lane, struct vs_why *why)
{
	struct vs_look_piece piece;
	struct vs_look *look = NULL;
	enum vs_status st = vs_look_open(lane, &look, why);

	do {
		st = st ? st : vs_look_next(look, &piece, why);
	} while (!st && piece.count);
	vs_look_close(look);
	lane->blind = st != VS_OK;
	if (lane->blind)
		vs_log_warn("pages of device %d are not verified: %s",
			    lane->device, why->text);
	return VS_OK;
}

enum finding { SAME, UNKNOWN, DIFFERENT };

static enum finding compare(const struct vs_backup *backup, size_t i,
			    const struct vs_page_sum *sum)
{
	const struct vs_page *page = backup ? &backup->pages[i] : NULL;

	if (!page || page->place == VS_PLACE_ZERO)
		return sum->zero ? SAME : DIFFERENT;
	if (!page->hashed)
		return UNKNOWN;
	return page->hash[0] == sum->hash[0] &&
	       page->hash[1] == sum->hash[1] ? SAME : DIFFERENT;
}

/* False: a page differs. */
static bool judge_item(struct vs_store_plan *plan, size_t index,
		       struct vs_store_verdict *out)
{
	const struct vs_store_item *item = &plan->items[index];
	const struct vs_page_sum *sum = &plan->sums[plan->first[index]];
	bool blind = vs_store_plan_lane(plan, index)->blind;
	size_t i, size;
	enum finding found;

	for (i = 0; i * VS_PAGE < item->size; i++, sum++) {
		size = vs_store_bytes_of(item, i, 1);
		found = blind ? UNKNOWN : compare(item->backup, i, sum);
		if (found == DIFFERENT) {
			out->differs = true;
			out->item = index;
			out->page = i;
			return false;
		}
		*(found == SAME ? &out->verified : &out->unverified) += size;
		atomic_fetch_add(&plan->meter->done, size);
	}
	return true;
}

enum vs_status vs_store_verify(struct vs_store_item *items, size_t count,
			       struct vs_store_meter *meter,
			       struct vs_store_verdict *out,
			       struct vs_why *why)
{
	struct vs_store_plan plan;
	enum vs_status st;
	size_t i;

	*out = (struct vs_store_verdict){ 0 };
	st = vs_store_plan_begin(&plan, items, count, meter, true, why);
	if (st)
		return st;
	st = vs_store_plan_run(&plan, look, why);
	for (i = 0; !st && i < count; i++)
		if (!judge_item(&plan, i, out))
			st = vs_why_set(why, VS_CUDA, "verify: page %zu at "
					"0x%llx differs from its backup",
					out->page, items[i].base);
	vs_store_plan_end(&plan);
	return st;
}
