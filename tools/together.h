/* SPDX-License-Identifier: Apache-2.0 */
/*
 * together - several processes are put to rest first, and only then does any
 * of them sleep or pause: all or none.
 *
 * Those that are at rest follow the others call by call (group_rest).  It goes
 * in rounds: when one does not come to rest all let go again, and run on.  One
 * that ends meanwhile needs no sleep; the others go on.
 */
#ifndef TOOLS_TOGETHER_H
#define TOOLS_TOGETHER_H

#include "print.h"
#include "select.h"

struct together {
	/* What each is to do in the end; one alone gets that only. */
	const struct request *request;
	/* What tells a refusal before anybody is held; its answer, when it is
	 * no refusal, is what undo gets as the state before. */
	const struct request *probe;
	/* What those do first who borrow memory and lend some; NULL: the order
	 * does not matter, and who shares memory stays out of it. */
	const struct request *part;
	bool alone;		/* who shares memory stays out of it */
	unsigned timeout_ms;	/* to rest; 0: the longest of their own */
	unsigned wait_ms;	/* try again for so long */
	/* The request that takes back what a member did; false when it did
	 * nothing. */
	bool (*undo)(const struct answer *before, const struct answer *after,
		     struct request *request);
};

/* Find the processes of @selection, do it, print what became of each. */
enum outcome together_each(const struct selection *selection,
			   const struct together *together,
			   const struct style *style);

#endif
