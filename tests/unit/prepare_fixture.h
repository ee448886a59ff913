/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare_fixture - requests to prepare, and what has to be true of backups at
 * any time.
 */
#ifndef TESTS_PREPARE_FIXTURE_H
#define TESTS_PREPARE_FIXTURE_H

#include "memory_fixture.h"

/* A segment of its own, in chunks of 2 MiB. */
#define SIZE (17 * MIB)

/* As fixture_start, with backups retained; alone: the operation thread, which
 * looks at the pass now and then, runs from the first request on. */
void prepare_start(void);
void prepare_start_alone(void);

struct vs_reply prepare_ask(const char *tags);
/* These succeed. */
struct vs_prepared prepare_all(void);
struct vs_ledger_last prepare_sleep(void);
void prepare_wake(void);

/* Their hashes describe their bytes. */
void prepare_assert_backups(void);

/* After a cycle: no host memory is taken, none of the device either. */
void prepare_end(void);

#endif
