/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit - an exiting process is first woken, so that results which its exit
 * handlers write are not lost and none of them waits at the gate for ever.
 *
 * Handlers run in reverse order of registration, so ours is registered anew
 * whenever the gate is about to shut for a while: then it comes before those
 * of the program.
 */
#ifndef VS_SLEEP_EXIT_H
#define VS_SLEEP_EXIT_H

/* Wake, and open the gate for good; at once when nothing sleeps, for a pause
 * does not hold an exit.  At most 30 seconds; failing that the gate opens and
 * submissions are refused. */
void vs_exit_now(void);

/* Register the handler in front of all others; take it back. */
void vs_exit_arm(void);
void vs_exit_disarm(void);

#endif
