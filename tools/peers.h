/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers - processes that have memory of each other mapped (CUDA IPC).
 *
 * One alone gives little back: memory that another process maps stays on the
 * device.  So they are one group.  Who maps goes to sleep before those whose
 * memory it is, and wakes after them; where that is mutual, the mappings go
 * first and come last.
 */
#ifndef TOOLS_PEERS_H
#define TOOLS_PEERS_H

#include "group.h"

/* Add who shares memory with a member, and with those again; people are told.
 * Afterwards each member knows whether it borrows and lends. */
void peers_join(struct group *group);

/* The same by the last answers of all, as long as they last; @add: as above,
 * and true when somebody came in. */
bool peers_look(struct group *group, bool add);

/* Nobody comes in: each member knows whether it borrows from others of the
 * group and lends to them.  Their answers stay. */
void peers_among(struct group *group);

/* Tell by the last answers who shares memory with one that was chosen, or with
 * one that does; who was chosen is related to itself. */
void peers_relate(struct group *group);

/* Ask all for @request in that order.  @part is what those are asked for first
 * who both borrow and lend; @lenders_first: they go before the others.  Else
 * nobody is asked after one that did not do as it was told. */
void peers_ask(struct group *group, const struct request *request,
	       const struct request *part, bool lenders_first);

#endif
