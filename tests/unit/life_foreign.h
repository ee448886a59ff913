/* SPDX-License-Identifier: Apache-2.0 */
/* life_foreign - memory that the program of a life creates and maps itself. */
#ifndef TESTS_LIFE_FOREIGN_H
#define TESTS_LIFE_FOREIGN_H

/* Goes on with it, whatever sleeps, and looks at its bytes.  A call that
 * failed once succeeds when it is tried again. */
void life_foreign_turn(void);

/* Gives all of it back; no fault strikes. */
void life_foreign_end(void);

#endif
