/* SPDX-License-Identifier: Apache-2.0 */
/* life_pool - stream-ordered memory of the program of a life. */
#ifndef TESTS_LIFE_POOL_H
#define TESTS_LIFE_POOL_H

/* Goes on with it, as far as the program is not held, and looks at its bytes.
 * A call that failed once succeeds when it is tried again. */
void life_pool_turn(void);

/* Gives all of it back; no fault strikes. */
void life_pool_end(void);

#endif
