/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_fixture - a folder for backup/spill, and its calls made to fail.
 *
 * For programs that are linked with --wrap for each of them (Makefile.am).
 */
#ifndef TESTS_SPILL_FIXTURE_H
#define TESTS_SPILL_FIXTURE_H

#include "backup/spill.h"
#include "base/config.h"
#include "memory_fixture.h"

extern char spill_folder[64];

void spill_set_up(void);
void spill_tear_down(void);

/* One descriptor of a file in the folder; -1: there is none. */
int spill_descriptor(void);
/* Names in the folder. */
size_t spill_files(void);
void spill_assert_nothing(void);

/* The calls that can fail, with a NULL at the end; the codes to try with one,
 * 0 at the end. */
extern const char *const spill_calls[];
const int *spill_codes(const char *name);

/* Count from now on; the nth call of @name (NULL: none), and with @lasting
 * all later ones, fail with @code. */
void spill_fault(const char *name, unsigned nth, int code, bool lasting);
unsigned long spill_count(const char *name);

/* Bytes that one pread or pwrite moves at most. */
extern size_t spill_most;

#endif
