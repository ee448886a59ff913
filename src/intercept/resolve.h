/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve - what a program that looks an entry point up is given.
 *
 * The driver is asked first; only the pointer that it gave decides, so that
 * versions, flags and missing names stay its business.  No lock is taken and
 * nothing is allocated.
 */
#ifndef VS_INTERCEPT_RESOLVE_H
#define VS_INTERCEPT_RESOLVE_H

#include <stdbool.h>

/* cu and a capital letter, as all names of the driver start. */
bool vs_resolve_like_driver(const char *name);

/* Our wrapper for @pointer, which a look-up of @name gave; @pointer itself
 * where we have none.  @driver: it came from the driver, so that an unknown
 * name is one newer than our list, and its calls are counted. */
void *vs_resolve_pointer(const char *name, void *pointer, bool driver);

/* The counting tail jumps of vs_driver_slots, in tailjump-*.S. */
#define VS_RESOLVE_STRIDE 64
extern const char vs_tailjump_slots[];

#endif
