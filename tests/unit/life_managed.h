/* SPDX-License-Identifier: Apache-2.0 */
/* life_managed - managed memory of the program of a life, and a graph that has
 * memory of its own. */
#ifndef TESTS_LIFE_MANAGED_H
#define TESTS_LIFE_MANAGED_H

/* Has it on the device where the program runs, and looks at its bytes. */
void life_managed_turn(void);

/* Gives all of it back; no fault strikes. */
void life_managed_end(void);

#endif
