/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults - calls of the C library that src/ makes fail on request.
 *
 * For programs that are linked with --wrap for each of them (Makefile.am).
 * Counted, and failed, from faults_arm on.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>

/* The calls that can fail, with a NULL at the end. */
extern const char *const faults_names[];
/* The codes to try with a call, 0 at the end. */
const int *faults_codes(const char *name);

/* Count from now on; the nth call of @name (NULL: none), and with @lasting
 * all later ones, give what a failure with @code gives. */
void faults_arm(const char *name, unsigned nth, int code, bool lasting);
void faults_clear(void);

unsigned long faults_count(const char *name);
unsigned long faults_struck(void);

#endif
