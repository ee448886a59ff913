/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - pools that the program leaves unused give back what they keep, and
 * so does the memory that was freed last.
 *
 * A thread looks at them as long as they keep more than they should, and else
 * waits.  It is not the operation thread: to find out how far a stream is may
 * take as long as its launch queue is full, and a request is not to wait then.
 */
#ifndef VS_SLEEP_WATCH_H
#define VS_SLEEP_WATCH_H

/* Something is kept (vs_pool_unwatched or vs_spare_unwatched was true).
 * Program threads, without locks. */
void vs_watch_begin(void);

#endif
