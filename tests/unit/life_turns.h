/* SPDX-License-Identifier: Apache-2.0 */
/* life_turns - the other ways to memory of a life, together. */
#ifndef TESTS_LIFE_TURNS_H
#define TESTS_LIFE_TURNS_H

#include "life_foreign.h"
#include "life_managed.h"
#include "life_pool.h"

static inline void life_turns(void)
{
	life_foreign_turn();
	life_managed_turn();
	life_pool_turn();
}

static inline void life_turns_end(void)
{
	life_foreign_end();
	life_managed_end();
	life_pool_end();
}

#endif
