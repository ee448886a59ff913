/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan - the chunks that one transition works on, with their segments and
 * contexts pinned until the plan is dropped.
 */
#ifndef VS_SLEEP_PLAN_H
#define VS_SLEEP_PLAN_H

#include "backup/store.h"
#include "memory/segment.h"
#include "sleep/operation.h"

struct vs_step {
	struct vs_segment *segment;
	struct vs_chunk *chunk;
	CUmemGenericAllocationHandle handle;	/* wake: made, not committed */
	bool mapped;				/* wake: likewise */
	bool lacking;				/* wake: failed here */
	size_t item;		/* index in items; VS_PLAN_NO_ITEM: none */
};

#define VS_PLAN_NO_ITEM SIZE_MAX

struct vs_plan {
	struct vs_step *steps;
	size_t step_count;
	struct vs_store_item *items;
	size_t item_count;
	struct vs_segment **segments;	/* pinned */
	size_t segment_count;
	struct vs_context *contexts[VS_CONTEXT_MAX];	/* pinned */
	int context_count;
	uint64_t bytes;			/* of all steps */
	bool kept_against_wish;		/* sleep: something stays that should
					   not */
};

/* The tags that a request is about. */
vs_tag_set vs_plan_tags(const struct vs_request *request);

/* Resident chunks that @request puts to sleep; items for those to be copied.
 * What is selected, but stays, is counted in @result.  The gate is shut. */
enum vs_status vs_plan_sleep(struct vs_plan *plan,
			     const struct vs_request *request,
			     struct vs_ledger_last *result,
			     struct vs_why *why);

/* The same in bytes, with the program running: what it would release, keep
 * and copy. */
void vs_plan_weigh(const struct vs_request *request, struct vs_outlook *out);

/* Evicted chunks of the request's tags; an item each. */
enum vs_status vs_plan_wake(struct vs_plan *plan,
			    const struct vs_request *request,
			    struct vs_why *why);

/* The level at which the plan's segments sleep; 0: awake. */
void vs_plan_set_level(struct vs_plan *plan, int level);

/* Unpin and free. */
void vs_plan_drop(struct vs_plan *plan);

#endif
