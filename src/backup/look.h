/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look - what the pages of a lane are on the device, in pieces: while the
 * caller copies what is known already the device sums up the next ones.
 */
#ifndef VS_BACKUP_LOOK_H
#define VS_BACKUP_LOOK_H

#include "backup/store_plan.h"

/* Pages that are summed up together: a millisecond's work for a device.  Tests
 * make it small. */
#define VS_LOOK_MOST ((size_t)2048)
extern size_t vs_look_batch;

struct vs_look;

/* Pages of one item of the lane's plan. */
struct vs_look_piece {
	size_t item, page, count;
};

/* VS_NOHOST: no memory for it. */
enum vs_status vs_look_open(struct vs_store_lane *lane, struct vs_look **out,
			    struct vs_why *why);

/*
 * The next piece: its sums are in the plan, the lane has entered its context.
 * No pages: that was all.  After a failure only the close may follow; pages
 * that were not handed out are not known.
 */
enum vs_status vs_look_next(struct vs_look *look, struct vs_look_piece *out,
			    struct vs_why *why);

/* Nothing of it is under way then.  NULL is fine. */
void vs_look_close(struct vs_look *look);

#endif
