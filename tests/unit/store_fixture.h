/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_fixture - items on two devices, filled, for tests of backup/store.
 *
 * On the first device the third item lies on both sides of a block's end.
 * Pages are looked at in rounds of three.
 */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <stdatomic.h>

#include "backup/store.h"
#include "memory_fixture.h"

#define STORE_ITEMS 5
#define STORE_COPIES 6	/* that move all items one way */

extern struct vs_store_item store_items[STORE_ITEMS];
extern const size_t store_sizes[STORE_ITEMS];
extern const int store_devices[STORE_ITEMS];
extern struct vs_store_meter store_meter;	/* of the last one */
extern struct vs_context *store_contexts[2];	/* pinned, by device */

void store_set_up(void);
size_t store_total(void);
/* Host memory that they take, in whole pages. */
#define STORE_TAKEN (80 * MIB)
enum vs_status store_save(struct vs_why *why);
void store_overwrite(void);
enum vs_status store_load(size_t first, size_t count, struct vs_why *why);
void store_drop_all(void);

/* Of all items, and they succeed, with meters that add up. */
void store_save_well(void);
void store_load_well(void);
/* Page @page of an item, which the simulation lets the host touch. */
char *store_at(int item, size_t page);

/* How many items the last load has asked for, and which came last on each
 * device (its number from 1); the one that is refused, which ends the load of
 * its device. */
extern atomic_size_t store_readied, store_refused;
extern size_t store_last[2];

void store_assert_loaded(void);
/* As if there had been no save. */
void store_assert_nothing_taken(void);

#endif
