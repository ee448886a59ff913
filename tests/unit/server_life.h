/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_life - a life whose sleeps and wakes are asked for by clients, from
 * the start of the server to its end.  As life: what does not hold is printed
 * and ends the process.
 */
#ifndef TESTS_SERVER_LIFE_H
#define TESTS_SERVER_LIFE_H

void server_life_begin(void);
void server_life_run(void);
/* Nothing fails any more: clients are answered, and nothing is left. */
void server_life_end(void);

#endif
